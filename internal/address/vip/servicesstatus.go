package vip

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-ha/holdfast/internal/address/services"
)

// ServicesStatus is about Services of type LoadBalancer.
type ServicesStatus struct {
	services.Status
	// Faults say why this machine answers for none.
	Faults    string          `json:"faults,omitempty"`
	Addresses []ServiceStatus `json:"addresses"`
}

// ServiceStatus is one address of Services.
type ServiceStatus struct {
	Address  string         `json:"address"`
	Pool     string         `json:"pool"`
	Services []services.Key `json:"services"`
	// Policy is externalTrafficPolicy.
	Policy   string   `json:"policy"`
	Announce []string `json:"announce"`
	// State is initialize, backup, active or yielding; Cause is why since Since.
	State string    `json:"state"`
	Cause string    `json:"cause"`
	Since time.Time `json:"since"`
	// Holder is who answers for it, as far as this machine knows.
	Holder string `json:"holder,omitempty"`
	// Bar says why this machine does not stand for election.
	Bar      string `json:"bar,omitempty"`
	LeftMS   int64  `json:"gate_left_ms,omitempty"`
	Contact  bool   `json:"api_reached"`
	Trouble  string `json:"trouble,omitempty"`
	Sent     uint64 `json:"announcements_sent"`
	Rivals   uint64 `json:"rivals_heard"`
	Mended   uint64 `json:"mended"`
	Renewals uint64 `json:"gate_renewals"`
	// Reopened counts gates that fell shut while the address was held.
	Reopened uint64 `json:"gate_reopened"`
}

func (x *publication) status(ctx context.Context) (ServiceStatus, error) {
	l, err := x.lease.Status(ctx)
	if err != nil {
		return ServiceStatus{}, fmt.Errorf("address %s: %w", x.group.settings.Name, err)
	}
	t := x.holder.Tally()
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.group.service(&x.election, x.faults)
	s.Holder, s.LeftMS, s.Contact, s.Trouble = l.Holder, t.Left.Milliseconds(), l.Contact > 0, cmp.Or(l.Foreign, l.APIError)
	s.Sent, s.Rivals, s.Mended, s.Renewals = t.Requests+t.Replies+t.Advertisements, t.Claims, t.Mended, t.Renewals
	s.Reopened = x.reopened
	return s, nil
}

// service is what there is to say of an address whoever sees to it.
func (g *group) service(e *services.Election, bars map[string]string) ServiceStatus {
	s := ServiceStatus{
		Address: g.settings.Name, Pool: e.Pool, Services: e.Services, Policy: "Cluster", Announce: g.settings.Announce,
		State: g.state, Cause: g.cause, Since: g.since, Bar: reasons(bars),
	}
	if e.Local {
		s.Policy = "Local"
	}
	return s
}

// report asks every loop.
func (p *publisher) report(ctx context.Context) *ServicesStatus {
	p.mu.Lock()
	all := make([]post, 0, len(p.all))
	for _, x := range p.all {
		all = append(all, x)
	}
	s := &ServicesStatus{Status: p.services.Status(), Faults: reasons(p.faults), Addresses: []ServiceStatus{}}
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b post) int { return addressOf(a).Compare(addressOf(b)) })
	for _, x := range all {
		one, err := x.status(ctx)
		if err != nil {
			one = ServiceStatus{Address: x.of().settings.Name, Services: []services.Key{}, State: "unknown", Trouble: err.Error()}
		}
		s.Addresses = append(s.Addresses, one)
	}
	return s
}

func addressOf(x post) netip.Addr { return x.of().settings.addresses[0] }

// print writes the tables for people.
func (s *ServicesStatus) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ADDRESS\tSERVICES\tPOLICY\tSTATE\tSINCE\tCAUSE\tHOLDER\tBAR")
	for _, a := range s.Addresses {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Address, names(a.Services), orDash(a.Policy), a.State,
			time.Since(a.Since).Round(time.Second), orDash(a.Cause), orDash(a.Holder), orDash(cmp.Or(a.Trouble, a.Bar)))
	}
	for _, p := range s.Pools {
		size := fmt.Sprint(p.Size)
		if p.Size == math.MaxUint64 {
			size = "very many"
		}
		fmt.Fprintf(table, "pool %s\t%d of %s addresses in use\n", p.Name, p.Used, size)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	var lines []string
	for _, p := range s.Pending {
		lines = append(lines, fmt.Sprintf("Service %s lacks an address: %s", p.Service, p.Message))
	}
	if s.Faults != "" {
		lines = append(lines, "this machine answers for no Service: "+s.Faults)
	}
	lines = append(lines, s.Troubles...)
	if !s.Acting {
		lines = append(lines, fmt.Sprintf("addresses are given by %s, which knows about pools and Services that lack one", orDash(s.Allocator)))
	}
	if _, err := io.WriteString(w, strings.Join(lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

var (
	descServiceHolder = desc("service_holder", "1 while this machine answers for an address of Services.", "address")
	descServiceBarred = desc("service_barred", "1 while this machine does not stand for election for an address of Services.", "address")
	descServiceSent   = desc("service_announcements_total", "Gratuitous ARP and unsolicited neighbor advertisements sent for an address of Services.", "address")
	descServiceRivals = desc("service_rivals_heard_total", "Claims of an address of Services by other stations.", "address")
	descAllocator     = desc("services_allocator", "1 while this machine gives addresses to Services.")
	descPoolSize      = desc("services_pool_addresses", "Addresses of a pool; told by the allocator.", "pool")
	descPoolUsed      = desc("services_pool_used", "Addresses of a pool in use; told by the allocator.", "pool")
	descPending       = desc("services_pending", "Services that lack an address, by reason; told by the allocator.", "reason")
)

// collect tells the metrics.
func (s *ServicesStatus) collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	count := func(d *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	for _, a := range s.Addresses {
		gauge(descServiceHolder, number(holds(a.State)), a.Address)
		gauge(descServiceBarred, number(a.Bar != ""), a.Address)
		count(descServiceSent, a.Sent, a.Address)
		count(descServiceRivals, a.Rivals, a.Address)
	}
	gauge(descAllocator, number(s.Acting))
	for _, p := range s.Pools {
		gauge(descPoolSize, float64(p.Size), p.Name)
		gauge(descPoolUsed, float64(p.Used), p.Name)
	}
	pending := map[string]uint64{}
	for _, p := range s.Pending {
		pending[p.Reason]++
	}
	for _, reason := range kinds(pending) {
		gauge(descPending, float64(pending[reason]), reason)
	}
}

package vip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
	"github.com/holdfast-ha/holdfast/internal/base/daemon"
)

// StatusVersion is the schema version of Status. Fields may be added within a
// version; renaming or removing one needs a new one.
const StatusVersion = 1

// Status is what `holdfast vip status --json` prints: what the agent of one
// machine knows.
type Status struct {
	Version int           `json:"version"`
	Groups  []GroupStatus `json:"groups"`
	// BGP, BFD and Route are there where settings want them.
	BGP      []PeerStatus    `json:"bgp,omitempty"`
	BFD      []PathStatus    `json:"bfd,omitempty"`
	Lateness *LatenessStatus `json:"bfd_late,omitempty"`
	Route    *TableStatus    `json:"route,omitempty"`
	// Services is about Services of type LoadBalancer, where they are looked after.
	Services *ServicesStatus `json:"services,omitempty"`
}

// GroupStatus is one group.
type GroupStatus struct {
	Name      string   `json:"name"`
	Interface string   `json:"interface"`
	Addresses []string `json:"addresses"`
	// Mode is vrrp, lease or anycast.
	Mode string `json:"mode"`
	// State is initialize, backup, active or yielding; Cause is why since Since.
	State string    `json:"state"`
	Cause string    `json:"cause"`
	Since time.Time `json:"since"`
	// Holder is who holds it, as far as this machine knows: an address with
	// vrrp, a name with lease.
	Holder   string `json:"holder,omitempty"`
	Priority int    `json:"priority,omitempty"`
	// Fault says why this machine cannot serve it.
	Fault string `json:"fault,omitempty"`
	// LeftMS is for how long the gate stays open unless it is renewed.
	LeftMS int64 `json:"gate_left_ms,omitempty"`
	// LeaseAgeMS is for how long the record has been seen as it is.
	LeaseAgeMS int64 `json:"lease_age_ms,omitempty"`
	// Contact says that the API is reached, APIError why the last call failed.
	Contact  bool              `json:"api_reached,omitempty"`
	APIError string            `json:"api_error,omitempty"`
	Checks   []CheckStatus     `json:"checks"`
	Sent     uint64            `json:"adverts_sent"`
	Received uint64            `json:"adverts_received"`
	Rejected map[string]uint64 `json:"adverts_rejected,omitempty"`
	Notes    map[string]uint64 `json:"notes,omitempty"`
	ARP      uint64            `json:"arp_sent"`
	NA       uint64            `json:"na_sent"`
	Rivals   uint64            `json:"rivals_heard"`
	Mended   uint64            `json:"mended"`
	Renewals uint64            `json:"gate_renewals"`
	// Reopened counts gates that fell shut while the group was held.
	Reopened uint64 `json:"gate_reopened"`
}

// snapshot is the status of the groups of an owner, from its loop.
func (o *owner) snapshot() []GroupStatus {
	all := make([]GroupStatus, 0, len(o.groups))
	for _, g := range o.groups {
		s := g.status("vrrp")
		s.Priority = o.priority
		var faults []string
		for _, m := range o.members {
			if m.group != g {
				continue
			}
			if s.Holder == "" { // with both families, the IPv4 address names it
				s.Holder = o.knows(m)
			}
			if r := m.reason(); r != "" && !slices.Contains(faults, r) {
				faults = append(faults, r)
			}
			s.add(m)
		}
		s.Fault = strings.Join(faults, "; ")
		all = append(all, s)
	}
	return all
}

// knows is the holder of a member's addresses, or "".
func (o *owner) knows(m *member) string {
	router := o.router.Member(m.place)
	if holder := router.Holder(); holder.IsValid() {
		return holder.String()
	}
	if router.State().Holds() {
		return m.source.String()
	}
	return ""
}

func (g *group) status(mode string) GroupStatus {
	return GroupStatus{
		Name: g.settings.Name, Interface: g.settings.Interface, Addresses: g.settings.Addresses, Mode: mode,
		State: g.state, Cause: g.cause, Since: g.since, Checks: g.gate.status(),
		Rejected: map[string]uint64{}, Notes: map[string]uint64{},
	}
}

func (s *GroupStatus) add(m *member) {
	s.tally(m.holder.Holder)
	for _, n := range m.sent {
		s.Sent += n
	}
	s.Received += m.got
	s.Reopened += m.reopened
	for r, n := range m.refused() {
		s.Rejected[r] += n
	}
	for k, n := range m.notes {
		s.Notes[string(k)] += n
	}
}

func (s *GroupStatus) tally(h *hold.Holder) {
	t := h.Tally()
	s.LeftMS = max(s.LeftMS, t.Left.Milliseconds())
	s.ARP += t.Requests + t.Replies
	s.NA += t.Advertisements
	s.Rivals += t.Claims
	s.Mended += t.Mended
	s.Renewals += t.Renewals
}

// status asks every loop.
func (a *agent) status() Status {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s := Status{Version: StatusVersion, Groups: []GroupStatus{}}
	for _, c := range a.contenders {
		if p, ok := c.(*publisher); ok {
			s.Services = p.report(ctx)
			continue
		}
		groups, err := c.status(ctx)
		if err != nil {
			for _, g := range c.of() {
				s.Groups = append(s.Groups, GroupStatus{Name: g.settings.Name, Addresses: g.settings.Addresses, Interface: g.settings.Interface, State: "unknown", Fault: err.Error()})
			}
			continue
		}
		s.Groups = append(s.Groups, groups...)
	}
	a.routing.status(&s)
	return s
}

// print writes the tables for people.
func (s Status) print(w io.Writer) error {
	if s.Services != nil {
		if err := s.Services.print(w); err != nil {
			return err
		}
	}
	if err := s.printGroups(w); err != nil {
		return err
	}
	if err := s.printRouting(w); err != nil {
		return err
	}
	lines := s.routingFaults()
	for _, g := range s.Groups {
		if g.Fault != "" {
			lines = append(lines, fmt.Errorf("%s cannot be held here: %s", g.Name, g.Fault))
		}
	}
	for _, l := range lines {
		if _, err := fmt.Fprintln(w, l); err != nil {
			return fmt.Errorf("print status: %w", err)
		}
	}
	return nil
}

func (s Status) printGroups(w io.Writer) error {
	if len(s.Groups) == 0 && s.Services != nil {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GROUP\tADDRESSES\tMODE\tSTATE\tSINCE\tCAUSE\tHOLDER\tPRIORITY\tRIVALS\tHEALTH")
	for _, g := range s.Groups {
		priority := "-"
		if g.Priority > 0 {
			priority = fmt.Sprint(g.Priority)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", g.Name, strings.Join(g.Addresses, ","), orDash(g.Mode), g.State,
			time.Since(g.Since).Round(time.Second), orDash(g.Cause), orDash(g.Holder), priority, g.Rivals, g.healthLine())
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

func (g *GroupStatus) healthLine() string {
	good := 0
	for _, c := range g.Checks {
		if c.State == "ready" || c.State == "alive" {
			good++
		}
	}
	if len(g.Checks) == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", good, len(g.Checks))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// verdict is the exit code: 1 when a group cannot be held here, or no router be
// told.
func (s Status) verdict() error {
	var all []error
	for _, g := range s.Groups {
		if g.Fault != "" {
			all = append(all, fmt.Errorf("group %s: %s", g.Name, g.Fault))
		}
	}
	if s.Services != nil && s.Services.Faults != "" {
		all = append(all, fmt.Errorf("services: %s", s.Services.Faults))
	}
	return errors.Join(append(all, s.routingFaults()...)...)
}

// fetchStatus asks a running agent at base, such as http://127.0.0.1:9389.
func fetchStatus(ctx context.Context, base string) (Status, error) {
	return daemon.Ask[Status](ctx, base, "holdfast vip run", StatusVersion)
}

// holds says whether a state is one in which the addresses answer.
func holds(state string) bool {
	return state == vrrp.Active.String() || state == vrrp.Yielding.String()
}

// kinds sorts the keys of counters.
func kinds(m map[string]uint64) []string { return slices.Sorted(maps.Keys(m)) }

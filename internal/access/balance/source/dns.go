package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	// lookupTimeout bounds one lookup: two tries of 5 s are what resolv.conf
	// asks for by default, and three servers may be listed; the answer is not
	// urgent.
	lookupTimeout = 10 * time.Second
	// lookupEvery is the default period. net.Resolver tells no TTL.
	lookupEvery = 10 * time.Second
	// lookupAgain is the wait after the first failure, doubled up to the period.
	lookupAgain = time.Second
	// maxTargets bounds the names of one SRV answer that are looked up.
	maxTargets = 64
)

// Resolver is what a DNS source asks; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// DNSOptions say what is looked up.
type DNSOptions struct {
	// Name is a host name, or with SRV the whole service name:
	// "_https._tcp.api.example.org".
	Name string
	// SRV asks for SRV records, which give names, ports, weights and
	// priorities: those not of the lowest priority are backups.
	SRV bool
	// Port is that of A and AAAA records; not used with SRV.
	Port uint16
	// Family is "ip" (default), "ip4" or "ip6".
	Family string
	// Every is the period; default 10 s.
	Every time.Duration
	// Resolver defaults to Go's own, which needs no thread for each lookup.
	Resolver Resolver
	// Log may be nil.
	Log *slog.Logger
}

// DNS looks a name up again and again.
type DNS struct {
	options   DNSOptions
	condition *condition
	targets   map[string][]netip.Addr // last answer for each SRV target; of Run alone
}

// NewDNS returns the source.
func NewDNS(o DNSOptions) *DNS {
	fill(&o.Family, "ip")
	fill(&o.Every, lookupEvery)
	name := fmt.Sprintf("dns %s:%d", o.Name, o.Port)
	if o.SRV {
		name = "dns srv " + o.Name
	}
	if o.Resolver == nil {
		o.Resolver = &net.Resolver{PreferGo: true}
	}
	return &DNS{options: o, condition: newCondition(name, o.Log), targets: map[string][]netip.Addr{}}
}

// Name is "dns NAME:PORT" or "dns srv NAME".
func (d *DNS) Name() string { return d.condition.get().Name }

// Status tells of the last lookup.
func (d *DNS) Status() Status { return d.condition.get() }

// Run looks up until ctx ends. A failed lookup, also one that says that the
// name does not exist, publishes nothing.
func (d *DNS) Run(ctx context.Context, publish func([]Backend)) error {
	again := lookupAgain
	for ctx.Err() == nil {
		list, err := d.lookup(ctx)
		if ctx.Err() != nil {
			break
		}
		if len(list) > 0 {
			publish(list)
		}
		d.condition.report(err)
		pause := d.options.Every
		if err != nil {
			pause, again = min(again, pause), again*2
		} else {
			again = lookupAgain
		}
		// A tenth of jitter keeps nodes that booted together apart.
		wait(ctx, pause+rand.N(pause/10+1))
	}
	return context.Cause(ctx)
}

func (d *DNS) lookup(ctx context.Context) ([]Backend, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if d.options.SRV {
		return d.lookupSRV(ctx)
	}
	ips, err := d.options.Resolver.LookupNetIP(ctx, d.options.Family, absolute(d.options.Name))
	if err != nil {
		return nil, explainLookup(d.options.Name, err)
	}
	var list []Backend
	for _, ip := range ips {
		list = append(list, d.backend(ip, d.options.Port))
	}
	return list, nil
}

func (d *DNS) backend(ip netip.Addr, port uint16) Backend {
	return Backend{Network: "tcp", Address: netip.AddrPortFrom(ip.Unmap(), port).String(), Name: d.options.Name, Serving: true}
}

// lookupSRV looks up the records and each target. A target that fails keeps
// the addresses it had; the error tells of it beside the list.
func (d *DNS) lookupSRV(ctx context.Context) ([]Backend, error) {
	_, records, err := d.options.Resolver.LookupSRV(ctx, "", "", absolute(d.options.Name))
	if err != nil && len(records) == 0 {
		return nil, explainLookup(d.options.Name, err)
	}
	var list []Backend
	var failed error
	answers := map[string][]netip.Addr{}
	for _, r := range records {
		ips, ok := answers[r.Target]
		if !ok {
			if len(answers) == maxTargets {
				failed = cmp.Or(failed, fmt.Errorf("look up %s: over %d targets; the rest is left out", d.options.Name, maxTargets))
				continue
			}
			var err error
			if ips, err = d.target(ctx, r.Target); err != nil {
				failed = cmp.Or(failed, err)
			}
			answers[r.Target] = ips
		}
		for _, ip := range ips {
			b := d.backend(ip, r.Port)
			b.Name = strings.TrimSuffix(r.Target, ".")
			b.Weight, b.Backup = weight(records, r), r.Priority > lowest(records)
			list = append(list, b)
		}
	}
	d.targets = answers
	return list, failed
}

func (d *DNS) target(ctx context.Context, name string) ([]netip.Addr, error) {
	ips, err := d.options.Resolver.LookupNetIP(ctx, d.options.Family, name)
	if err != nil {
		return d.targets[name], explainLookup(name, err)
	}
	return ips, nil
}

func lowest(records []*net.SRV) uint16 {
	least := records[0].Priority
	for _, r := range records {
		least = min(least, r.Priority)
	}
	return least
}

// weight is 0, "not given", when no record has one. A single 0 among others
// means "very little" (RFC 2782), which 1 among them is.
func weight(records []*net.SRV, r *net.SRV) int {
	for _, other := range records {
		if other.Weight > 0 {
			return max(int(r.Weight), 1)
		}
	}
	return 0
}

// absolute keeps the search domains of resolv.conf away from names with a dot.
func absolute(name string) string {
	if strings.Contains(name, ".") && !strings.HasSuffix(name, ".") {
		return name + "."
	}
	return name
}

func explainLookup(name string, err error) error {
	if de, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case de.IsNotFound:
			return fmt.Errorf("look up %s: no such name or no address; the last answer stays", name)
		case de.IsTimeout:
			return fmt.Errorf("look up %s: no answer from %s; the last answer stays", name, cmp.Or(de.Server, "the name server"))
		}
	}
	return fmt.Errorf("look up %s: %w", name, err)
}

package services

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	core "k8s.io/api/core/v1"
)

// ledger is who has which address.
type ledger struct {
	config *Config
	users  map[netip.Addr][]user
	// others have addresses that are not ours to give.
	others map[netip.Addr]string
	// from is where the search for a free address begins: what is before has been
	// found in use. What becomes free meanwhile is found in the next round.
	from map[place]netip.Addr
}

type place struct {
	pool   string
	family core.IPFamily
}

type user struct {
	service *Service
	share   string
}

func newLedger(c *Config, all []Service) *ledger {
	l := &ledger{config: c, users: map[netip.Addr][]user{}, others: maps.Clone(c.Taken), from: map[place]netip.Addr{}}
	if l.others == nil {
		l.others = map[netip.Addr]string{}
	}
	for i := range all {
		s := &all[i]
		for _, text := range s.Spec.ExternalIPs {
			if a, err := parseAddress(text); err == nil {
				l.others[a] = fmt.Sprintf("the externalIPs of Service %s", s.Metadata.Key())
			}
		}
		if s.Spec.Type != core.ServiceTypeLoadBalancer || s.of(c.Class) {
			continue
		}
		for _, a := range s.addresses() {
			l.others[a] = fmt.Sprintf("Service %s, of another class", s.Metadata.Key())
		}
	}
	return l
}

// refuses says why a Service cannot have the address, or "".
func (l *ledger) refuses(a netip.Addr, s *Service, share string) string {
	if other := l.others[a]; other != "" {
		return other
	}
	for _, u := range l.users[a] {
		if u.service == s {
			continue
		}
		if why := u.apart(s, share); why != "" {
			return fmt.Sprintf("Service %s, and they cannot share it: %s", u.service.Metadata.Key(), why)
		}
	}
	return ""
}

// apart says why two Services cannot share an address.
func (u user) apart(s *Service, share string) string {
	if u.share == "" || share != u.share {
		return fmt.Sprintf("annotation %s differs or is missing", AnnotationShare)
	}
	for _, p := range s.Spec.Ports {
		if slices.Contains(u.service.Spec.Ports, p) {
			return fmt.Sprintf("both have port %d/%s", p.Port, p.Protocol)
		}
	}
	// A machine with a ready endpoint of the one need not have one of the other.
	if u.service.local() != s.local() || s.local() && !maps.Equal(u.service.Spec.Selector, s.Spec.Selector) {
		return "both need externalTrafficPolicy Cluster, or Local and the same selector"
	}
	return ""
}

func (l *ledger) add(a netip.Addr, s *Service, share string) {
	l.users[a] = append(l.users[a], user{s, share})
}

func (l *ledger) remove(a netip.Addr, s *Service) {
	l.users[a] = slices.DeleteFunc(l.users[a], func(u user) bool { return u.service == s })
}

func (l *ledger) used(a netip.Addr) bool { return len(l.users[a]) > 0 || l.others[a] != "" }

// find looks for an address of a family in a pool: one that Services of the same
// word have already, else a free one.
func (l *ledger) find(p *Pool, f core.IPFamily, s *Service, share string) (netip.Addr, bool) {
	if share != "" {
		if a, ok := l.shared(p, f, s, share); ok {
			return a, true
		}
	}
	at := place{p.Name, f}
	a, ok := p.first(f, l.from[at], func(a netip.Addr) bool { return !l.used(a) })
	if ok {
		l.from[at] = a
	}
	return a, ok
}

// shared is the lowest address that can be shared.
func (l *ledger) shared(p *Pool, f core.IPFamily, s *Service, share string) (best netip.Addr, ok bool) {
	for a, users := range l.users {
		if len(users) == 0 || familyOf(a) != f || !p.has(a) || l.refuses(a, s, share) != "" {
			continue
		}
		if !ok || a.Less(best) {
			best, ok = a, true
		}
	}
	return best, ok
}

package services

import (
	"net/netip"
	"slices"
	"strings"
)

// Election is an address that machines have to answer for.
type Election struct {
	Address netip.Addr
	// Name is that of the Lease. It comes of the address alone: whoever knows an
	// older state of a Service stands for the same Lease.
	Name string
	// Pool has the address.
	Pool string
	// Services are several where they share it, the oldest first.
	Services []Key
	// Local: only machines with a ready endpoint may answer.
	Local bool
	// Nodes have a ready endpoint, sorted; of interest where Local.
	Nodes []string
	// HealthPorts are where kube-proxies say whether they have one; where Local.
	HealthPorts []int32
}

// Serves says whether a machine may answer. While no machine has a ready
// endpoint none may: who answered last goes on (package lease).
func (e *Election) Serves(node string) bool {
	return !e.Local || slices.Contains(e.Nodes, node)
}

// Prefix is before the name of every Lease.
const Prefix = "holdfast-service-"

// nameOf is what a Lease may be called after an address: no colons, and no dash at
// the end.
func nameOf(a netip.Addr) string {
	return Prefix + strings.ReplaceAll(a.StringExpanded(), ":", "-")
}

// Elect says what is to be answered for, sorted by address.
func Elect(c *Config, all []Service, ready map[Key][]string) []Election {
	found := map[netip.Addr][]*Service{}
	for i := range all {
		s := &all[i]
		if !s.of(c.Class) {
			continue
		}
		for _, a := range s.addresses() {
			if c.Find(a) != nil && c.Taken[a] == "" {
				found[a] = append(found[a], s)
			}
		}
	}
	out := make([]Election, 0, len(found))
	for a, users := range found {
		users = together(users)
		e := Election{Address: a, Name: nameOf(a), Pool: c.Find(a).Name, Local: users[0].local()}
		for _, s := range users {
			e.Services = append(e.Services, s.Metadata.Key())
		}
		if e.Local {
			e.Nodes, e.HealthPorts = common(users, ready), healthPorts(users)
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Election) int { return a.Address.Compare(b.Address) })
	return out
}

// together drops Services that have the address of an older one and may not share
// it: the allocator will move them.
func together(all []*Service) []*Service {
	slices.SortFunc(all, older)
	var kept []*Service
	for _, s := range all {
		w, _ := asked(s)
		apart := slices.ContainsFunc(kept, func(o *Service) bool {
			other, _ := asked(o)
			return user{o, other.share}.apart(s, w.share) != ""
		})
		if !apart {
			kept = append(kept, s)
		}
	}
	return kept
}

func healthPorts(users []*Service) []int32 {
	var all []int32
	for _, s := range users {
		if port := s.Spec.HealthPort; port != 0 {
			all = append(all, port)
		}
	}
	return all
}

// common are the machines with a ready endpoint of every Service, or of any where
// there is none of every.
func common(users []*Service, ready map[Key][]string) []string {
	count := map[string]int{}
	for _, s := range users {
		for _, n := range ready[s.Metadata.Key()] {
			count[n]++
		}
	}
	var of []string
	for enough := len(users); enough > 0 && len(of) == 0; enough-- {
		for n, k := range count {
			if k >= enough {
				of = append(of, n)
			}
		}
	}
	slices.Sort(of)
	return of
}

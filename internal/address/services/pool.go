package services

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	core "k8s.io/api/core/v1"
)

// Pool is a set of addresses for Services.
type Pool struct {
	Name  string
	Spans []Span
	// Auto: Services that name neither an address nor a pool get one of these.
	Auto bool
	// Namespaces and Selector say which Services may have one; empty: all. A
	// Service has to have all labels of Selector.
	Namespaces []string
	Selector   map[string]string
}

// Config is what addresses are given by.
type Config struct {
	// Pools in the order in which they are used up.
	Pools []Pool
	// Class is spec.loadBalancerClass of the Services that are looked after; ""
	// are those without one.
	Class string
	// Taken are addresses that something else has, and what.
	Taken map[netip.Addr]string
}

// Check names the first mistake.
func (c *Config) Check() error {
	if len(c.Pools) == 0 {
		return errors.New("pools: none; write at least one, with name and addresses")
	}
	for i := range c.Pools {
		p := &c.Pools[i]
		if p.Name == "" || slices.ContainsFunc(c.Pools[:i], func(o Pool) bool { return o.Name == p.Name }) {
			return fmt.Errorf("pools[%d].name %q: write a name, each once", i, p.Name)
		}
		if len(p.Spans) == 0 {
			return fmt.Errorf("pool %s: addresses: none; write ranges, networks or single addresses", p.Name)
		}
		for k, s := range p.Spans {
			if other, name := c.meets(s, i, k); name != "" {
				return fmt.Errorf("pool %s: addresses: %s and %s of pool %s have addresses in common; an address is in one pool", p.Name, s, other, name)
			}
		}
	}
	return nil
}

// meets looks for a span before the k-th of the i-th pool that overlaps.
func (c *Config) meets(s Span, i, k int) (Span, string) {
	for _, p := range c.Pools[:i+1] {
		for n, other := range p.Spans {
			if p.Name == c.Pools[i].Name && n >= k {
				break
			}
			if s.meets(other) {
				return other, p.Name
			}
		}
	}
	return Span{}, ""
}

// Find returns the pool that has the address, or nil.
func (c *Config) Find(a netip.Addr) *Pool {
	for i := range c.Pools {
		if c.Pools[i].has(a) {
			return &c.Pools[i]
		}
	}
	return nil
}

func (c *Config) named(name string) *Pool {
	for i := range c.Pools {
		if c.Pools[i].Name == name {
			return &c.Pools[i]
		}
	}
	return nil
}

func (p *Pool) has(a netip.Addr) bool {
	return slices.ContainsFunc(p.Spans, func(s Span) bool { return s.Has(a) })
}

// Size is how many addresses there are, MaxUint64 where they are more.
func (p *Pool) Size() uint64 {
	var sum uint64
	for _, s := range p.Spans {
		n := s.Size()
		if sum > math.MaxUint64-n {
			return math.MaxUint64
		}
		sum += n
	}
	return sum
}

// serves says whether a Service may have an address of the pool.
func (p *Pool) serves(s *Service) bool {
	if len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, s.Metadata.Namespace) {
		return false
	}
	for k, v := range p.Selector {
		if has, ok := s.Metadata.Labels[k]; !ok || has != v {
			return false
		}
	}
	return true
}

// first returns the first address of a family at or after from that is good, and
// whether there is one. The zero from is the beginning.
func (p *Pool) first(f core.IPFamily, from netip.Addr, good func(netip.Addr) bool) (netip.Addr, bool) {
	passed := !from.IsValid()
	for _, s := range p.Spans {
		if familyOf(s.First) != f {
			continue
		}
		a := s.First
		if !passed {
			if !s.Has(from) {
				continue
			}
			a, passed = from, true
		}
		for ; a.IsValid() && s.Has(a); a = a.Next() {
			if good(a) {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

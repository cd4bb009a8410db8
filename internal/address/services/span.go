package services

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strings"
)

// Span is the addresses from First to Last, both among them and of one family.
type Span struct{ First, Last netip.Addr }

// ParseSpan reads "192.0.2.1-192.0.2.9", "192.0.2.0/28" or "192.0.2.1".
func ParseSpan(text string) (Span, error) {
	text = strings.TrimSpace(text)
	if first, last, ok := strings.Cut(text, "-"); ok {
		a, err1 := parseAddress(first)
		b, err2 := parseAddress(last)
		switch {
		case err1 != nil || err2 != nil:
			return Span{}, errors.Join(err1, err2)
		case a.Is4() != b.Is4():
			return Span{}, fmt.Errorf("%q begins and ends in different families; write two ranges", text)
		case b.Less(a):
			return Span{}, fmt.Errorf("%q ends before it begins; write the smaller address first", text)
		}
		return Span{a, b}, check(a, b)
	}
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			return Span{}, fmt.Errorf("%q is no network; write ADDRESS/BITS", text)
		case p.Addr().Is4In6():
			return Span{}, fmt.Errorf("%q is an IPv4 address in an IPv6 one; write it as IPv4", text)
		case p != p.Masked():
			return Span{}, fmt.Errorf("%q has bits behind its length; write %s", text, p.Masked())
		}
		a, b := p.Addr(), lastOf(p)
		return Span{a, b}, check(a, b)
	}
	a, err := parseAddress(text)
	if err != nil {
		return Span{}, err
	}
	return Span{a, a}, check(a, a)
}

// parseAddress reads an address without zone, of either family.
func parseAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%.60q is no IP address", strings.TrimSpace(text))
	}
	return a.Unmap(), nil
}

func check(all ...netip.Addr) error {
	for _, a := range all {
		if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
			return fmt.Errorf("%s is for no machine; write unicast addresses", a)
		}
	}
	return nil
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Has says whether the address is one of the span.
func (s Span) Has(a netip.Addr) bool {
	return a.Is4() == s.First.Is4() && !a.Less(s.First) && !s.Last.Less(a)
}

func (s Span) meets(o Span) bool { return s.Has(o.First) || o.Has(s.First) }

// Size is how many addresses there are, MaxUint64 where they are more.
func (s Span) Size() uint64 {
	first, last := new(big.Int).SetBytes(s.First.AsSlice()), new(big.Int).SetBytes(s.Last.AsSlice())
	n := last.Sub(last, first)
	if n.Add(n, big.NewInt(1)); !n.IsUint64() {
		return math.MaxUint64
	}
	return n.Uint64()
}

func (s Span) String() string {
	if s.First == s.Last {
		return s.First.String()
	}
	return s.First.String() + "-" + s.Last.String()
}

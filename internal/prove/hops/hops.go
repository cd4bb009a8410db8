// Package hops reads where the kernel sends what is for an address.
//
// Guarantees:
//
//   - The answer is the route that a packet without mark, from nowhere in
//     particular, would take at that moment: rules and all tables are heeded.
//   - A next hop that the kernel has taken out of use (its link is gone or down
//     for good) is left out. One whose neighbor is silent is not: the kernel goes
//     on using it, and that is what one wants to see.
package hops

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Hop is where a packet goes next.
type Hop struct {
	// Via is the gateway; invalid where the address is on the link.
	Via netip.Addr
	// Link is the index of the interface.
	Link int
}

// String is the gateway, or "on link" where there is none.
func (h Hop) String() string {
	if !h.Via.IsValid() {
		return "on link"
	}
	return h.Via.String()
}

// ErrNoRoute says that there is none, or one that refuses or drops packets.
var ErrNoRoute = errors.New("no route")

// Lookup returns the next hops of the route to an address, by gateway. More
// than one share the load. h is a handle into the network namespace that is
// asked. It fails with ErrNoRoute when packets have nowhere to go.
func Lookup(h *netlink.Handle, to netip.Addr) ([]Hop, error) {
	routes, err := h.RouteGetWithOptions(net.IP(to.AsSlice()), &netlink.RouteGetOptions{FIBMatch: true})
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL):
		// Without a route, and by routes of type unreachable, prohibit and blackhole.
		return nil, fmt.Errorf("%w: %w", ErrNoRoute, err)
	case err != nil:
		return nil, fmt.Errorf("look up route to %s: %w", to, err)
	}
	var all []Hop
	for _, r := range routes {
		switch r.Type {
		case unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_BLACKHOLE, unix.RTN_THROW:
			return nil, ErrNoRoute
		}
		all = append(all, of(r)...)
	}
	if len(all) == 0 {
		return nil, ErrNoRoute
	}
	slices.SortFunc(all, func(a, b Hop) int { return a.Via.Compare(b.Via) })
	return all, nil
}

// of lists the next hops in use of a route.
func of(r netlink.Route) []Hop {
	if len(r.MultiPath) == 0 {
		if r.Flags&unix.RTNH_F_DEAD != 0 {
			return nil
		}
		return []Hop{{gateway(r.Gw, r.Via), r.LinkIndex}}
	}
	var all []Hop
	for _, m := range r.MultiPath {
		if m.Flags&unix.RTNH_F_DEAD == 0 {
			all = append(all, Hop{gateway(m.Gw, m.Via), m.LinkIndex})
		}
	}
	return all
}

// gateway is one of either form: an IPv4 route may have an IPv6 gateway
// (RFC 8950).
func gateway(gw net.IP, via netlink.Destination) netip.Addr {
	if v, ok := via.(*netlink.Via); ok && v != nil {
		gw = v.Addr
	}
	a, _ := netip.AddrFromSlice(gw)
	return a.Unmap()
}

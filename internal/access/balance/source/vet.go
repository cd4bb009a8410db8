package source

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// maxBackends bounds one list: an EndpointSlice holds at most a thousand, and
// nobody has that many API servers.
const maxBackends = 1000

// rules say which entries of a source are nonsense.
type rules struct {
	// trusted is for lists written by the operator: they may name loopback
	// and link-local addresses and sockets. Nobody else may lead a node's
	// clients to a service of the node itself.
	trusted bool
	// own holds the IDs of the balancer's own listeners: a backend there
	// would be a loop.
	own map[string]bool
	// known holds the IDs listed before. When a list is too long they are
	// kept first, so that a flood does not drive out what works.
	known map[string]bool
}

// vet returns the entries to use, addresses in their one form and sorted by
// ID, and why each other is left out.
func (r rules) vet(list []Backend) (good []Backend, reasons []string) {
	seen := make(map[string]bool, min(len(list), maxBackends))
	for _, b := range list {
		b, err := r.check(b)
		if err == nil && seen[b.ID()] {
			err = fmt.Errorf("address %q: listed twice; the first is used", b.ID())
		}
		if err != nil {
			reasons = append(reasons, err.Error())
			continue
		}
		seen[b.ID()] = true
		good = append(good, b)
	}
	slices.SortFunc(good, func(a, b Backend) int { return compareIDs(a.ID(), b.ID()) })
	if len(good) <= maxBackends {
		return good, reasons
	}
	kept, left := r.bound(good)
	for _, b := range left {
		reasons = append(reasons, fmt.Sprintf("address %q: beyond the %d that one source may list", b.ID(), maxBackends))
	}
	return kept, reasons
}

// bound splits a sorted list that is too long; both halves stay sorted.
func (r rules) bound(list []Backend) (kept, left []Backend) {
	room := maxBackends
	for _, b := range list {
		if r.known[b.ID()] {
			room--
		}
	}
	for _, b := range list {
		switch {
		case r.known[b.ID()] && len(kept) < maxBackends:
			kept = append(kept, b)
		case !r.known[b.ID()] && room > 0:
			room--
			kept = append(kept, b)
		default:
			left = append(left, b)
		}
	}
	return kept, left
}

// check returns b with its address in the one form, or why it is nonsense.
func (r rules) check(b Backend) (Backend, error) {
	text := b.Address
	if b.Network == "unix" {
		text = "unix:" + text
	}
	network, address, err := ParseAddress(text)
	if err != nil {
		return b, err
	}
	b.Network, b.Address = network, address
	if b.Weight < 0 {
		return b, fmt.Errorf("address %q: weight %d is below 0; write 1 or more, or leave it out", b.ID(), b.Weight)
	}
	if r.own[b.ID()] {
		return b, fmt.Errorf("address %q: a listener of this balancer itself; connections would go in a circle", b.ID())
	}
	if network == "unix" {
		if !r.trusted {
			return b, fmt.Errorf("address %q: a socket of this machine; only settings may name one", b.ID())
		}
		return b, nil
	}
	return b, r.checkIP(netip.MustParseAddrPort(address))
}

func (r rules) checkIP(ap netip.AddrPort) error {
	ip, what := ap.Addr(), ""
	switch {
	case ap.Port() == 0:
		what = "port 0"
	case ip.IsUnspecified():
		what = "the unspecified address"
	case ip.IsMulticast():
		what = "a multicast address"
	case ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		what = "the broadcast address"
	case ip.IsLoopback() && !r.trusted:
		what = "a loopback address; only settings may name one"
	case ip.IsLinkLocalUnicast() && !r.trusted:
		what = "a link-local address; only settings may name one"
	case ip.Zone() != "" && !ip.IsLinkLocalUnicast():
		what = "an interface on an address that is not link-local"
	default:
		return nil
	}
	return fmt.Errorf("address %q: %s", ap, what)
}

// ownIDs returns the IDs under which the listeners can be reached: the wildcard
// stands for every address in local, and for loopback.
func ownIDs(listen []string, local []net.Addr) map[string]bool {
	own := map[string]bool{}
	for _, l := range listen {
		if strings.HasPrefix(l, ":") {
			l = "[::]" + l
		}
		network, address, err := ParseAddress(l)
		if err != nil {
			continue // the settings' matter
		}
		b := Backend{Network: network, Address: address}
		own[b.ID()] = true
		if network == "unix" {
			continue
		}
		if ap := netip.MustParseAddrPort(address); ap.Addr().IsUnspecified() {
			for _, ip := range append(addresses(local), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")) {
				own[netip.AddrPortFrom(ip, ap.Port()).String()] = true
			}
		}
	}
	return own
}

func addresses(local []net.Addr) []netip.Addr {
	var ips []netip.Addr
	for _, a := range local {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				ips = append(ips, ip.Unmap())
			}
		}
	}
	return ips
}

package frr

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Config is what a router that speaks BGP is told. Zero values leave FRR its
// own: hold 180 s, keepalive 60 s, the highest number of paths it was built for.
type Config struct {
	AS       uint32
	RouterID netip.Addr
	// Neighbors are asked for routes and given none.
	Neighbors []Neighbor
	// Hold and Keepalive are proposed to neighbors; of the holds of both ends
	// the shorter counts.
	Hold, Keepalive time.Duration
	// BFD is a session with every neighbor; nil means none.
	BFD *BFD
	// MaxPaths bounds how many next hops a route has.
	MaxPaths int
	// Announces is for a machine that is a neighbor itself: it gives routes and
	// takes none.
	Announces bool
	// Accept are the prefixes taken from neighbors, each with the longer ones in
	// it; none accepts everything.
	Accept []netip.Prefix
}

// Neighbor is a machine that announces.
type Neighbor struct {
	Address netip.Addr
	AS      uint32
}

// BFD are the timers of a session: its interval, in whole milliseconds, and
// after how many missing packets it is down.
type BFD struct {
	Interval   time.Duration
	Multiplier int
}

// families are the address families, as FRR names them, and the name of their
// prefix lists.
var families = []struct {
	name, list string
	six        bool
}{{"ipv4", "ip", false}, {"ipv6", "ipv6", true}}

// BGPD is the configuration of bgpd.
func (c Config) BGPD() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("router bgp %d", c.AS)
	line(" bgp router-id %s", c.RouterID)
	line(" no bgp default ipv4-unicast")
	if c.Announces {
		line(" no bgp network import-check")
	}
	if c.Hold > 0 {
		hold := c.Hold
		line(" timers bgp %d %d", seconds(cmp.Or(c.Keepalive, hold/3)), seconds(hold))
	}
	for _, n := range c.Neighbors {
		line(" neighbor %s remote-as %d", n.Address, n.AS)
		if c.BFD != nil {
			line(" neighbor %s bfd", n.Address)
			line(" neighbor %s bfd profile lab", n.Address)
		}
	}
	for _, f := range families {
		line(" address-family %s unicast", f.name)
		if c.MaxPaths > 0 {
			line("  maximum-paths %d", c.MaxPaths)
			line("  maximum-paths ibgp %d", c.MaxPaths)
		}
		for _, n := range c.Neighbors {
			line("  neighbor %s activate", n.Address)
			in, out := "taken", "none"
			if c.Announces {
				in, out = out, in
			}
			line("  neighbor %s route-map %s in", n.Address, in)
			line("  neighbor %s route-map %s out", n.Address, out)
		}
		line(" exit-address-family")
	}
	line("!")
	c.policy(line)
	return b.String()
}

// policy is what is accepted and that nothing is given. Without a route-map FRR
// takes nothing from external neighbors (bgp ebgp-requires-policy).
func (c Config) policy(line func(string, ...any)) {
	line("route-map none deny 10")
	line("!")
	if len(c.Accept) == 0 {
		line("route-map taken permit 10")
		return
	}
	for _, f := range families {
		for _, p := range c.Accept {
			if p.Addr().Is6() == f.six {
				line("%s prefix-list accepted permit %s%s", f.list, p, longer(p))
			}
		}
	}
	for i, f := range families {
		line("route-map taken permit %d", 10*(i+1))
		line(" match %s address prefix-list accepted", f.list)
		line("!")
	}
}

// longer lets a prefix list match what is inside of p as well.
func longer(p netip.Prefix) string {
	if p.Bits() == p.Addr().BitLen() {
		return ""
	}
	return fmt.Sprintf(" le %d", p.Addr().BitLen())
}

// BFDD is the configuration of bfdd.
func (c Config) BFDD() string {
	if c.BFD == nil {
		return ""
	}
	ms := c.BFD.Interval.Milliseconds()
	return fmt.Sprintf("bfd\n profile lab\n  detect-multiplier %d\n  receive-interval %d\n  transmit-interval %d\n", c.BFD.Multiplier, ms, ms)
}

// seconds rounds up: BGP counts whole seconds.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

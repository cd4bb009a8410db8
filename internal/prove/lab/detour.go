package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
)

// Kinds that are measured across a detour, where what works is as much a part of
// the fault as what does not.
const (
	// KindDial is a TCP handshake without data.
	KindDial Kind = "dial"
	// KindPing is an ICMP echo and its answer.
	KindPing Kind = "ping"
)

// checkDetour reports what makes a cut with Via impossible in this lab.
func (c Cut) checkDetour(p plan) error {
	for _, name := range []string{c.From, c.To, c.Via} {
		if _, ok := p.site(name); !ok {
			return fmt.Errorf("cut %s: %q is no site: a detour leads from a site to another through a third", c, name)
		}
	}
	if c.State != StateAll || c.Proto != ProtoAll || c.Action != ActionDrop || len(c.Ports) > 0 || c.OneWay {
		return fmt.Errorf("cut %s: a detour takes all packets one way: leave state, protocol, ports, action and one way out", c)
	}
	for _, ends := range [][2]string{{c.From, c.To}, {c.From, c.Via}, {c.Via, c.To}} {
		if _, ok := p.link(ends[0], ends[1]); !ok {
			return fmt.Errorf("cut %s: there is no link between %q and %q: a detour needs three sites with a link each", c, ends[0], ends[1])
		}
	}
	return nil
}

// detours reports whether packets from x to y are on a detour, and back whether
// their answers are.
func (c Cut) detours(x, y nodePlan) (there, back bool) {
	return x.site == c.From && y.site == c.To, y.site == c.From && x.site == c.To
}

// stopsDetoured reports whether a detour keeps x from reaching y by k. The router
// on the way sees a handshake's first packet and not its answer, so that the third
// belongs to nothing. An answer that it sees without its question does not either.
func (c Cut) stopsDetoured(x, y nodePlan, k Kind) bool {
	there, back := c.detours(x, y)
	switch k {
	case KindNew, KindKept:
		return there || back
	case KindDial, KindPing:
		return back
	}
	return false // datagrams open a flow of their own in each direction
}

// detourKinds lists what is measured besides, from x to y.
func detourKinds(cuts []Applied, x, y nodePlan) []Kind {
	for _, c := range cuts {
		if there, back := c.detours(x, y); c.Via != "" && (there || back) {
			return []Kind{KindDial, KindPing}
		}
	}
	return nil
}

// strict are the rules of the router that a detour leads through.
func (w *ruleWriter) strict(n int, c Applied) {
	if c.Via != w.site {
		return
	}
	w.jumps = append(w.jumps, fmt.Sprintf("iifname %q oifname %q jump cut-%d", uplink(c.From), uplink(c.To), n))
	fmt.Fprintf(&w.chains, "\tchain cut-%d { # %s\n\t\tct state invalid counter drop\n\t}\n", n, c.Cut)
}

// hop is the site whose router has the packets for another site next.
type hop map[string]string

// hops are those of one site's router under cuts.
func (p plan) hops(site string, cuts []Applied) hop {
	h := hop{}
	for _, l := range p.links {
		for _, e := range l.ends {
			if e.site == site {
				h[e.far] = e.far
			}
		}
	}
	for _, c := range cuts {
		if c.Via != "" && c.From == site {
			h[c.To] = c.Via
		}
	}
	return h
}

// turn brings the routes of all routers in line with cuts, which replace before.
func (l *Lab) turn(before, cuts []Applied) error {
	for _, name := range sorted(l.routers) {
		was, want := l.plan.hops(name, before), l.plan.hops(name, cuts)
		for _, far := range sorted(want) {
			if was[far] == want[far] {
				continue
			}
			l.journal.write("router %s: packets for %s go through %s", name, far, want[far])
			if err := l.routers[name].lead(l.plan, far, want[far]); err != nil {
				return err
			}
		}
	}
	return nil
}

// lead sends packets for the site far through the router of via.
func (r *router) lead(p plan, far, via string) error {
	i, _ := p.link(r.site.Name, via)
	there := p.links[i].ends[0]
	if there.site != via {
		there = p.links[i].ends[1]
	}
	link, err := r.nl.LinkByName(uplink(via))
	if err != nil {
		return fmt.Errorf("find interface %s: %w", uplink(via), err)
	}
	site, _ := p.site(far)
	for _, to := range []struct {
		dst netip.Prefix
		via netip.Addr
	}{{site.gate4, there.ip4.Addr()}, {site.gate6, there.ip6.Addr()}} {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to.dst.Masked()), Gw: to.via.AsSlice()}
		if err := r.nl.RouteReplace(route); err != nil {
			return fmt.Errorf("route %s through %s: %w", to.dst.Masked(), via, err)
		}
	}
	return nil
}

// icmpProtocol is IANA's number of ICMP for IPv4.
const icmpProtocol = 1

// handshake opens a connection to an address and sends nothing over it.
func (p *prober) handshake(ctx context.Context, x *Node, addr string) bool {
	conn, err := p.dial(ctx, x, "tcp4", addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// ping sends an ICMP echo every so often until one is answered.
func (p *prober) ping(ctx context.Context, x *Node, to netip.Addr) bool {
	var conn *icmp.PacketConn
	err := x.Do(func() (err error) {
		conn, err = icmp.ListenPacket("ip4:icmp", x.ip4.String())
		return err
	})
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	id := p.nextPort() // tells the pings of one prober apart
	for ctx.Err() == nil {
		text, err := (&icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: id, Seq: 1}}).Marshal(nil)
		if err != nil {
			return false
		}
		if _, err := conn.WriteTo(text, &net.IPAddr{IP: to.AsSlice()}); err != nil {
			return false
		}
		if answered(ctx, conn, id) {
			return true
		}
	}
	return false
}

// answered waits a while for the answer to the echo with an id.
func answered(ctx context.Context, conn *icmp.PacketConn, id int) bool {
	until := time.Now().Add(50 * time.Millisecond)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	if err := conn.SetReadDeadline(until); err != nil {
		return false
	}
	buf := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return false
		}
		m, err := icmp.ParseMessage(icmpProtocol, buf[:n])
		if err != nil {
			continue
		}
		if echo, ok := m.Body.(*icmp.Echo); ok && m.Type == ipv4.ICMPTypeEchoReply && echo.ID == id {
			return true
		}
	}
}

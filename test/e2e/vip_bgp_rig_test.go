package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/address/vip"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/test/caller"
)

// spread and spread6 are the addresses that every healthy machine has; no link has
// their network.
var (
	spread  = netip.MustParseAddr("203.0.113.10")
	spread6 = netip.MustParseAddr("2001:db8:1::10")
)

// edge is a wire whose last station is a router with FRR, and clients behind it.
type edge struct {
	*wire
	router  *segment.Station
	frr     *daemons
	ending  string // settings of bgp about the end
	clients []*caller.Caller
}

// newEdge has as many clients of an address behind the router.
func newEdge(t *testing.T, machines, clients int, address netip.Addr) *edge {
	t.Helper()
	needFRR(t)
	w := stations(t, machines)
	r := &edge{wire: w, router: w.segment.Station(machines + 1)}
	r.frr = newFRR(t, r.router.Space)
	t.Cleanup(func() {
		if t.Failed() {
			w.logs()
		}
	})
	r.behind(clients, address)
	return r
}

// behind makes the clients: a machine on the other side of the router.
func (r *edge) behind(clients int, address netip.Addr) {
	r.t.Helper()
	far, err := segment.New(2)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = far.Close() })
	s := far.Station(1)
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	must(r.router.Netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "down0"}, PeerName: "up0", PeerNamespace: netlink.NsFd(s.Fd()),
	}))
	configure(r.t, r.router, "down0", "198.51.100.1/24")
	configure(r.t, s, "up0", "198.51.100.2/24")
	// What the segment's own network would be.
	eth, err := s.Netlink.LinkByName(segment.Interface)
	must(err)
	must(s.Netlink.LinkSetDown(eth))
	must(s.Netlink.RouteAdd(&netlink.Route{Gw: net.IPv4(198, 51, 100, 1)}))
	must(r.router.Do(func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			return err
		}
		// By ports: or all clients of one address would be on one machine.
		return os.WriteFile("/proc/sys/net/ipv4/fib_multipath_hash_policy", []byte("1"), 0)
	}))
	for i := 1; i <= r.machines; i++ {
		_, back, err := net.ParseCIDR("198.51.100.0/24")
		must(err)
		must(r.segment.Station(i).Netlink.RouteAdd(&netlink.Route{Dst: back, Gw: r.router.Four.AsSlice()}))
	}
	for range clients {
		c, err := caller.New(s, far.Station(2), address)
		must(err)
		r.t.Cleanup(c.Close)
		r.clients = append(r.clients, c)
	}
}

func configure(t *testing.T, s *segment.Station, name, prefix string) {
	t.Helper()
	l, err := s.Netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	a, err := netlink.ParseAddr(prefix)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Netlink.AddrAdd(l, a); err != nil {
		t.Fatal(err)
	}
	if err := s.Netlink.LinkSetUp(l); err != nil {
		t.Fatal(err)
	}
}

// settings of the router, with BFD of 100 ms and 3.
func (r *edge) config() frr.Config {
	c := frr.Config{AS: 65001, RouterID: r.router.Four, MaxPaths: 8, BFD: &frr.BFD{Interval: 100 * time.Millisecond, Multiplier: 3}}
	for i := 1; i <= r.machines; i++ {
		c.Neighbors = append(c.Neighbors, frr.Neighbor{Address: r.segment.Station(i).Four, AS: 65010})
	}
	return c
}

// route starts the router; extra are lines of bgpd.
func (r *edge) route(extra ...string) {
	r.t.Helper()
	r.frr.start("zebra", "")
	r.begin("bfdd")
	r.begin("bgpd")
	if len(extra) > 0 {
		r.frr.tell("bgpd", append([]string{"router bgp 65001"}, extra...)...)
	}
}

// begin starts a daemon of the router.
func (r *edge) begin(name string) {
	r.t.Helper()
	c := r.config()
	settings := c.BFDD()
	if name == "bgpd" {
		// Or bgpd would make use of its own route-maps only 5 s after its start.
		settings = "bgp route-map delay-timer 0\n" + c.BGPD()
	}
	r.frr.start(name, settings)
}

// hops are the next hops of an address in the router's kernel.
func (r *edge) hops(address netip.Addr) (all []string) {
	dst := &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(address.BitLen(), address.BitLen())}
	family := netlink.FAMILY_V4
	if address.Is6() {
		family = netlink.FAMILY_V6
	}
	list, err := r.router.Netlink.RouteListFiltered(family, &netlink.Route{Dst: dst}, netlink.RT_FILTER_DST)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, route := range list {
		if route.Gw != nil {
			all = append(all, route.Gw.String())
		}
		for _, h := range route.MultiPath {
			all = append(all, h.Gw.String())
		}
	}
	return all
}

// counted6 waits until the router has as many next hops of the IPv6 address.
func (r *edge) counted6(n int, within time.Duration) {
	r.t.Helper()
	r.await(fmt.Sprintf("the router has %d next hops by IPv6", n), within, func() bool { return len(r.hops(spread6)) == n })
}

// counted waits until the router has as many next hops, and returns for how long.
func (r *edge) counted(n int, within time.Duration) time.Duration {
	r.t.Helper()
	begun := time.Now()
	r.await(fmt.Sprintf("the router has %d next hops", n), within, func() bool { return len(r.hops(spread)) == n })
	return time.Since(begun)
}

// routedTo waits until the router has one next hop, which is that machine.
func (r *edge) routedTo(i int, within time.Duration) {
	r.t.Helper()
	r.await(fmt.Sprintf("the route leads to machine %d", i), within, func() bool {
		all := r.hops(spread)
		return len(all) == 1 && all[0] == r.segment.Station(i).Four.String()
	})
}

// toRouter are settings for one router.
func (r *edge) toRouter(extra string) string {
	return fmt.Sprintf(`bgp:
  as: 65010
  peers:
    - {address: %s, as: 65001, families: [ipv4, ipv6], bfd: {interval: 100ms, multiplier: 3}%s}
%s`, r.router.Four, extra, r.ending)
}

// share starts the agent of a machine that has the address beside others; routing
// is bgp or route.
func (r *edge) share(i int, how, routing string) {
	r.t.Helper()
	r.serve(i, true)
	r.launchWith(i, fmt.Sprintf(`groups:
  - name: api
    addresses: [%s, "%s"]
    anycast: {}
    announce: [%s]
    health: [{name: file, kind: file, path: %s, period: 50ms}]
%s`, spread, spread6, how, r.sign(i), routing))
}

// launchWith starts an agent with groups and more.
func (r *edge) launchWith(i int, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, fmt.Sprintf("vip-%d.yaml", i))
	text += fmt.Sprintf("control: %s\ntelemetry: {listen: %s:9389}\n", r.socket(i), r.segment.Station(i).Four)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.launch(i, []string{asAgent + "=1"}, "/proc/self/exe", "vip", "run", "--config", path)
}

// sign is the file without which a machine is not healthy.
func (r *edge) sign(i int) string { return filepath.Join(r.dir, fmt.Sprintf("serve-%d", i)) }

func (r *edge) serve(i int, on bool) {
	r.t.Helper()
	err := os.Remove(r.sign(i))
	if on {
		err = os.WriteFile(r.sign(i), nil, 0o644)
	}
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
}

// table is what `holdfast vip status` of a machine prints.
func (r *edge) table(i int) string {
	cmd := exec.Command("/proc/self/exe", "vip", "status", "--agent", fmt.Sprintf("%s:9389", r.segment.Station(i).Four))
	cmd.Env = append(os.Environ(), asAgent+"=1")
	out := &buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := r.spawners[i-1].Start(cmd); err != nil {
		r.t.Fatal(err)
	}
	_ = cmd.Wait() // exit code 1 says that there is a fault
	return out.String()
}

// peer is what the agent of a machine says of the router.
func (r *edge) peer(i int) vip.PeerStatus {
	s, err := r.statusOf(i)
	if err != nil || len(s.BGP) == 0 {
		return vip.PeerStatus{}
	}
	return s.BGP[0]
}

func (r *edge) awaitSession(i int, within time.Duration) {
	r.t.Helper()
	r.await(fmt.Sprintf("machine %d has sessions of BGP and BFD", i), within, func() bool {
		s, err := r.statusOf(i)
		return err == nil && len(s.BGP) == 1 && s.BGP[0].State == "established" && len(s.BFD) == 1 && s.BFD[0].State == "Up"
	})
}

// served are machines that answer clients.
func (r *edge) served() map[int]int {
	all := map[int]int{}
	for _, c := range r.clients {
		all[c.Last()]++
	}
	return all
}

// met is what all clients met with since a moment.
func (r *edge) met(begun time.Time) (gap time.Duration, lost, asked int) {
	for _, c := range r.clients {
		s := c.Since(begun)
		gap, lost, asked = max(gap, s.Gap), lost+s.Lost, asked+s.Asked
	}
	return gap, lost, asked
}

// memory of a machine's agent: what is private, and VmRSS beside it.
func (r *edge) memory(i int) (private int, text string) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.running[i].cmd.Process.Pid))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var kb int
		name, rest, _ := strings.Cut(line, ":")
		if _, err := fmt.Sscan(rest, &kb); err != nil {
			continue
		}
		switch name {
		case "RssAnon", "RssShmem":
			private += kb
			fallthrough
		case "VmRSS":
			text += fmt.Sprintf(" %s %.1f MB", name, float64(kb)/1024)
		}
	}
	return private, strings.TrimSpace(text)
}

// processor is how long a machine's agent has run on processors since its start.
func (r *edge) processor(i int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.running[i].cmd.Process.Pid))
	if err != nil {
		r.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	var ticks int
	for _, f := range fields[11:13] {
		var n int
		if _, err := fmt.Sscan(f, &n); err != nil {
			r.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

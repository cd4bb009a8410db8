package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	stdslices "slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// TestVIPBGP is S1's setting: three machines announce one address, the router
// spreads, and clients behind it ask.
func TestVIPBGP(t *testing.T) {
	nightly(t)
	r := newEdge(t, 3, 3, spread)
	r.route()
	begun := time.Now()
	for i := 1; i <= 3; i++ {
		r.share(i, "bgp", r.toRouter(""))
	}
	r.counted(3, 20*time.Second)
	t.Logf("from the start of three agents to three next hops: %s", time.Since(begun).Round(time.Millisecond))
	for i := 1; i <= 3; i++ {
		r.awaitSession(i, 10*time.Second)
	}
	r.await("all clients are answered", 5*time.Second, func() bool { return r.served()[0] == 0 })

	var hops, gaps, back []time.Duration
	for range 5 {
		dead := r.clients[0].Last()
		begun := time.Now()
		if err := r.segment.Station(dead).Silence(); err != nil {
			t.Fatal(err)
		}
		hops = append(hops, r.counted(2, 400*time.Millisecond+slack))
		r.counted6(2, slack)
		r.await("the client is answered by another", 5*time.Second, func() bool { return r.clients[0].Last() != dead })
		gap, _, _ := r.met(begun)
		gaps = append(gaps, gap)
		begun = time.Now()
		if err := r.segment.Station(dead).Rejoin(); err != nil {
			t.Fatal(err)
		}
		r.counted(3, 3*time.Second+slack)
		back = append(back, time.Since(begun))
		r.counted6(3, slack)
		r.awaitSession(dead, 10*time.Second)
		if gap, lost, _ := r.met(begun); lost > 0 {
			t.Errorf("back again: %d lost, gap %s", lost, gap)
		}
	}
	t.Logf("hard death: next hops 3 → 2 after %s (median of %v), clients without an answer for %s (median of %v)", median(hops), hops, median(gaps), gaps)
	t.Logf("back again: next hops 2 → 3 after %s (median of %v)", median(back), back)
	if median(gaps) > 400*time.Millisecond+slack/4 {
		t.Errorf("hard death: no answer for %s, at most 400 ms expected", median(gaps))
	}
	_, weight := r.memory(1)
	t.Logf("memory of an agent: %s", weight)
	for i := 1; i <= 3; i++ {
		t.Logf("machine %d: sessions lost: %v", i, r.peer(i).Losses)
	}
}

func median(all []time.Duration) time.Duration {
	s := stdslices.Sorted(stdslices.Values(all))
	return s[len(s)/2].Round(time.Millisecond)
}

// accident befalls the agent of one machine of three.
type accident struct {
	what string
	// gap is the longest time for which a client may stay without an answer; 0:
	// none may be lost.
	gap      time.Duration
	do, undo func(i int)
}

func (r *edge) suffer(c accident, i int) {
	r.t.Helper()
	begun := time.Now()
	c.do(i)
	r.counted(2, 5*time.Second)
	took := time.Since(begun)
	r.await("all clients are answered by others", 5*time.Second, func() bool { return r.served()[i] == 0 })
	r.await("the address is gone from the machine", 2500*time.Millisecond+slack, func() bool { return !r.has(i, spread) })
	gone := time.Since(begun)
	gap, lost, asked := r.met(begun)
	r.t.Logf("%s: next hops 3 → 2 after %s, address gone after %s; %d of %d lost, gap %s", c.what, took.Round(time.Millisecond), gone.Round(time.Millisecond), lost, asked, gap)
	if c.gap == 0 && lost > 0 || gap > c.gap+slack {
		r.t.Errorf("%s: gap %s with %d lost, at most %s expected", c.what, gap, lost, c.gap)
	}
	begun = time.Now()
	c.undo(i)
	r.counted(3, 10*time.Second)
	took = time.Since(begun)
	r.awaitSession(i, 10*time.Second)
	gap, lost, _ = r.met(begun)
	r.t.Logf("after %s: next hops 2 → 3 after %s; %d lost, gap %s", c.what, took.Round(time.Millisecond), lost, gap)
	if lost > 0 {
		r.t.Errorf("after %s: %d lost, gap %s", c.what, lost, gap)
	}
}

// TestVIPBGPAgent is what becomes of an agent, and of the checks.
func TestVIPBGPAgent(t *testing.T) {
	nightly(t)
	r := newEdge(t, 3, 3, spread)
	r.route()
	for i := 1; i <= 3; i++ {
		r.share(i, "bgp", r.toRouter(""))
	}
	r.counted(3, 20*time.Second)
	for i := 1; i <= 3; i++ {
		r.awaitSession(i, 10*time.Second)
	}
	again := func(i int) { r.share(i, "bgp", r.toRouter("")) }
	for _, c := range []accident{
		{"killed", 150 * time.Millisecond, func(i int) { r.kill(i, syscall.SIGKILL) }, again},
		{"stopped", 400 * time.Millisecond, func(i int) { r.kill(i, syscall.SIGSTOP) }, func(i int) { r.kill(i, syscall.SIGCONT) }},
		{"SIGTERM", 0, func(i int) { r.kill(i, syscall.SIGTERM) }, func(i int) { r.ended(i); again(i) }},
		{"unhealthy", 0, func(i int) { r.serve(i, false) }, func(i int) { r.serve(i, true) }},
	} {
		r.suffer(c, r.clients[0].Last())
	}
	// The route is marked before it goes.
	i := r.clients[0].Last()
	r.stop(i)
	r.ending = "  shutdown: gshut\n  wait: 1s\n"
	again(i)
	r.counted(3, 10*time.Second)
	r.suffer(accident{"SIGTERM, marked", 0, func(i int) { r.kill(i, syscall.SIGTERM) }, func(i int) { r.ended(i); again(i) }}, i)
	if s, err := r.status(1); err != nil || s.State != "active" {
		t.Error(fmt.Errorf("status: %+v, %w", s, err))
	}
}

// follow starts the agent of a machine that has the address if VRRP says so.
func (r *edge) follow(i int) {
	r.t.Helper()
	r.serve(i, true)
	r.launchWith(i, fmt.Sprintf(`groups:
  - name: api
    addresses: [%s]
    interface: eth0
    vrrp: {vrid: 51, %s}
    announce: [arp, bgp]
    health: [{name: file, kind: file, path: %s, period: 50ms}]
%s`, spread, router(i), r.sign(i), r.toRouter("")))
}

// TestVIPBGPFollowsHolder: VRRP decides who has the address, and the route follows.
func TestVIPBGPFollowsHolder(t *testing.T) {
	nightly(t)
	r := newEdge(t, 2, 1, spread)
	r.route()
	r.follow(1)
	r.routedTo(1, 10*time.Second)
	r.follow(2)
	for i := 1; i <= 2; i++ {
		r.awaitSession(i, 10*time.Second)
	}
	r.await("the second is the backup", 5*time.Second, func() bool {
		s, err := r.status(2)
		return err == nil && s.State == "backup" && s.Holder == r.segment.Station(1).Four.String()
	})
	client, holder := r.clients[0], 1
	r.await("the client is answered", 5*time.Second, func() bool { return client.Last() == 1 })
	for _, c := range []struct {
		what     string
		gap      time.Duration
		do, undo func(i int)
	}{
		{"release", 20 * time.Millisecond, func(i int) {
			if err := r.release(i); err != nil {
				t.Error(err)
			}
		}, func(int) {}},
		{"SIGTERM", 20 * time.Millisecond, func(i int) { r.kill(i, syscall.SIGTERM) }, func(i int) {
			r.ended(i)
			r.follow(i)
		}},
		{"unhealthy", 100 * time.Millisecond, func(i int) { r.serve(i, false) }, func(i int) { r.serve(i, true) }},
		{"killed", 400 * time.Millisecond, func(i int) { r.kill(i, syscall.SIGKILL) }, func(i int) { r.follow(i) }},
		{"stopped", 500 * time.Millisecond, func(i int) { r.kill(i, syscall.SIGSTOP) }, func(i int) { r.kill(i, syscall.SIGCONT) }},
		{"silent", 500 * time.Millisecond, func(i int) {
			if err := r.segment.Station(i).Silence(); err != nil {
				t.Error(err)
			}
		}, func(i int) {
			if err := r.segment.Station(i).Rejoin(); err != nil {
				t.Error(err)
			}
		}},
	} {
		begun := time.Now()
		c.do(holder)
		next := 3 - holder
		r.routedTo(next, 5*time.Second)
		took := time.Since(begun)
		r.await("the client is answered by the other", 5*time.Second, func() bool { return client.Last() == next })
		s := client.Since(begun)
		t.Logf("%s: the route leads to the other after %s; %d lost, gap %s", c.what, took.Round(time.Millisecond), s.Lost, s.Gap.Round(100*time.Microsecond))
		if s.Gap > c.gap+slack {
			t.Errorf("%s: no answer for %s, at most %s expected", c.what, s.Gap, c.gap)
		}
		c.undo(holder)
		if c.what == "silent" {
			break // the better of two that were apart is not told beforehand
		}
		r.await("it is the backup", 10*time.Second, func() bool {
			s, err := r.status(holder)
			return err == nil && s.State == "backup" && s.Holder == r.segment.Station(next).Four.String()
		})
		r.awaitSession(holder, 10*time.Second)
		r.routedTo(next, 5*time.Second)
		holder = next
	}
	r.await("one of them has it", 5*time.Second, func() bool { return len(r.hops(spread)) == 1 })
}

// TestVIPBGPRefused: a router that refuses is one line, in the log and in the
// status, and no flap; mended, it needs no restart here. A router that restarts is
// found again.
func TestVIPBGPRefused(t *testing.T) {
	nightly(t)
	r := newEdge(t, 2, 1, spread)
	first, second := r.segment.Station(1).Four, r.segment.Station(2).Four
	r.route(fmt.Sprintf("neighbor %s remote-as 65099", first), fmt.Sprintf("neighbor %s password right", second))
	for i := 1; i <= 2; i++ {
		r.share(i, "bgp", r.toRouter(""))
	}
	for i, want := range map[int]string{1: "the peer refuses AS 65010", 2: "BFD hears it; the router wants a password (passwordFile)"} {
		r.await(want, 20*time.Second, func() bool {
			p := r.peer(i)
			return strings.Contains(p.Cause, want) && p.Tries > 3
		})
		// BFD comes up in between, after which the password is the likelier cause.
		if n := strings.Count(r.running[i].log.String(), "no BGP session"); n > i {
			t.Errorf("machine %d says it %d times:\n%s", i, n, r.running[i].log)
		}
		if p := r.peer(i); p.Ups != 0 {
			t.Errorf("machine %d had %d sessions", i, p.Ups)
		}
	}
	out := r.table(1)
	if !strings.Contains(out, "bgp: no session is up; "+r.router.Four.String()+": the peer refuses AS 65010") {
		t.Errorf("status says:\n%s", out)
	}
	r.frr.tell("bgpd", "router bgp 65001", fmt.Sprintf("neighbor %s remote-as 65010", first), fmt.Sprintf("no neighbor %s password", second))
	r.counted(2, 35*time.Second)
	for i := 1; i <= 2; i++ {
		r.awaitSession(i, 10*time.Second)
	}
	t.Logf("status:\n%s", r.table(1))

	// FRR ends its sessions of BGP when its bfdd dies; they are back at once.
	for _, name := range []string{"bgpd", "bfdd"} {
		lost := r.peer(1).Losses
		begun := time.Now()
		r.frr.kill(name)
		if name == "bgpd" {
			r.counted(0, 5*time.Second)
		}
		r.begin(name)
		up := time.Now()
		if name == "bgpd" {
			r.counted(2, 3*time.Second+slack)
		}
		back := time.Since(up)
		for i := 1; i <= 2; i++ {
			r.awaitSession(i, 10*time.Second)
		}
		r.counted(2, slack)
		gap, n, _ := r.met(begun)
		t.Logf("%s restarted: next hops are back %s after it answers again; %d lost, gap %s; sessions lost %v, before %v", name,
			back.Round(time.Millisecond), n, gap.Round(time.Millisecond), r.peer(1).Losses, lost)
		if name == "bfdd" && gap > time.Second+slack {
			t.Errorf("a restart of bfdd: no answer for %s", gap)
		}
		for i := 1; i <= 2; i++ {
			if s, err := r.status(i); err != nil || s.State != "active" {
				t.Errorf("machine %d: %+v, %v", i, s, err)
			}
		}
	}
}

// TestVIPByRoute: a routing daemon on the machines announces what is in the table,
// and the address itself, which is a connected route of the same length: FRR 8.4
// has no use for the one in the table then.
func TestVIPByRoute(t *testing.T) {
	nightly(t)
	r := newEdge(t, 2, 1, spread)
	r.route()
	var all []*daemons
	for i := 1; i <= 2; i++ {
		d := newFRR(t, r.segment.Station(i).Space)
		all = append(all, d)
		d.start("zebra", "ip import-table 198\n")
		d.start("bgpd", fmt.Sprintf(`bgp route-map delay-timer 0
ip prefix-list addresses permit 203.0.113.0/24 ge 32
route-map addresses permit 10
 match ip address prefix-list addresses
router bgp 65010
 bgp router-id %s
 no bgp ebgp-requires-policy
 neighbor %s remote-as 65001
 address-family ipv4 unicast
  redistribute table 198
  redistribute connected route-map addresses
 exit-address-family
`, r.segment.Station(i).Four, r.router.Four))
		r.share(i, "route", "route: {table: 198}\n")
	}
	r.counted(2, 20*time.Second)
	r.await("the client is answered", 5*time.Second, func() bool { return r.clients[0].Last() != 0 })
	// As with Services, whose addresses are on no interface.
	for i := 1; i <= 2; i++ {
		r.inTable(i, netip.MustParseAddr("203.0.113.99"))
	}
	r.await("a route without an address is announced", 10*time.Second, func() bool { return len(r.hops(netip.MustParseAddr("203.0.113.99"))) == 2 })
	// Where addresses are on interfaces, the table would outlast a killed agent.
	for _, d := range all {
		d.tell("bgpd", "router bgp 65010", "address-family ipv4 unicast", "no redistribute table 198")
	}
	i := r.clients[0].Last()
	for _, c := range []struct {
		what     string
		do, undo func()
	}{
		{"unhealthy", func() { r.serve(i, false) }, func() { r.serve(i, true) }},
		{"SIGTERM", func() { r.kill(i, syscall.SIGTERM) }, func() { r.ended(i); r.share(i, "route", "route: {table: 198}\n") }},
		{"SIGKILL", func() { r.kill(i, syscall.SIGKILL) }, func() { r.share(i, "route", "route: {table: 198}\n") }},
	} {
		begun := time.Now()
		c.do()
		r.await("the address is gone", 2500*time.Millisecond+slack, func() bool { return !r.has(i, spread) })
		gone := time.Since(begun)
		r.counted(1, time.Second+slack)
		took := time.Since(begun)
		gap, lost, asked := r.met(begun)
		t.Logf("%s: the address is gone after %s, next hops 2 → 1 after %s; %d of %d lost, gap %s", c.what,
			gone.Round(time.Millisecond), took.Round(time.Millisecond), lost, asked, gap.Round(time.Millisecond))
		if gap > 100*time.Millisecond+slack {
			t.Errorf("%s: no answer for %s", c.what, gap)
		}
		c.undo()
		r.counted(2, 10*time.Second)
		r.await("the client is answered", 5*time.Second, func() bool { return r.clients[0].Since(time.Now().Add(-20*time.Millisecond)).Lost == 0 })
	}
	if s, err := r.statusOf(i); err != nil || s.Route == nil || s.Route.Routes != 2 || s.Route.Trouble != "" {
		t.Errorf("status: %+v, %v", s, err)
	}
}

// inTable adds a route that no agent knows of.
func (r *edge) inTable(i int, a netip.Addr) {
	r.t.Helper()
	err := r.segment.Station(i).Netlink.RouteAdd(&netlink.Route{
		LinkIndex: 1, Dst: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(32, 32)}, Table: 198, Protocol: unix.RTPROT_STATIC, Scope: netlink.SCOPE_LINK,
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// nft changes the rules of a station.
func nft(t *testing.T, s *segment.Station, rules string) {
	t.Helper()
	err := s.Do(func() error {
		out, err := exec.Command("nft", rules).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestVIPBFDCheck: the holder gives the address up as soon as BFD no longer hears
// the neighbor that it watches.
func TestVIPBFDCheck(t *testing.T) {
	nightly(t)
	needFRR(t)
	w := newWire(t, 2)
	watched := w.segment.Station(4)
	d := newFRR(t, watched.Space)
	bfd := "bfd\n profile fast\n  detect-multiplier 3\n  receive-interval 100\n  transmit-interval 100\n"
	for i := 1; i <= 2; i++ {
		bfd += fmt.Sprintf(" peer %s interface eth0\n  profile fast\n", w.segment.Station(i).Four)
	}
	check := fmt.Sprintf("    health: [{name: uplink, kind: bfd, address: %s}]", watched.Four)
	w.start(1, router(1), check)
	w.await("it waits for its first word of the neighbor", 5*time.Second, func() bool {
		s, err := w.status(1)
		return err == nil && strings.Contains(s.Fault, "uplink is unknown: BFD has not heard "+watched.Four.String()+" yet")
	})
	d.start("zebra", "")
	d.start("bfdd", bfd)
	w.await("the first holds it", 10*time.Second, func() bool { return w.client.Last() == 1 })
	w.start(2, router(2), check)
	w.await("the second is its backup", 10*time.Second, func() bool {
		s, err := w.status(2)
		return err == nil && s.State == "backup" && s.Holder == w.segment.Station(1).Four.String()
	})
	// The router stops speaking with the first one alone.
	begun := time.Now()
	cut := fmt.Sprintf("add table ip cut; add chain ip cut in { type filter hook input priority 0; }; add rule ip cut in ip saddr %s drop", w.segment.Station(1).Four)
	nft(t, watched, cut)
	w.await("the second answers", 5*time.Second, func() bool { return w.client.Last() == 2 })
	took := time.Since(begun)
	w.awaitHolder(2)
	got := w.client.Since(begun)
	t.Logf("the path is cut: the other answers after %s, gap %s", took.Round(time.Millisecond), got.Gap)
	w.expect("path cut", got, 20*time.Millisecond+slack/4, oneAdvert)
	if took > 400*time.Millisecond+slack {
		t.Errorf("the address moved after %s, at most 400 ms expected", took)
	}
	nft(t, watched, "delete table ip cut")
	w.await("the first can serve again", 10*time.Second, func() bool {
		s, err := w.status(1)
		return err == nil && s.State == "backup" && s.Fault == ""
	})
	// Put away on purpose: no failure.
	begun = time.Now()
	d.tell("bfdd", "bfd", fmt.Sprintf("peer %s interface eth0", w.segment.Station(2).Four), "shutdown")
	w.await("the session is down", 5*time.Second, func() bool {
		s, err := w.statusOf(2)
		return err == nil && len(s.BFD) == 1 && s.BFD[0].State == "Down"
	})
	<-time.After(time.Second)
	if s, err := w.status(2); err != nil || s.State != "active" {
		t.Errorf("AdminDown: %+v, %v", s, err)
	}
	w.expect("AdminDown", w.client.Since(begun), slack/4, 0)
}

// TestVIPBGPWeighs: what an agent takes that holds by VRRP with adverts of 100 ms
// and announces by BGP with BFD of 100 ms and 3.
func TestVIPBGPWeighs(t *testing.T) {
	nightly(t)
	r := newEdge(t, 1, 0, spread)
	r.route()
	r.launchWith(1, fmt.Sprintf("groups: [{name: api, addresses: [%s], interface: eth0, vrrp: {vrid: 51}, announce: [arp, bgp]}]\n%s", spread, r.toRouter("")))
	r.routedTo(1, 10*time.Second)
	r.awaitSession(1, 10*time.Second)
	before, begun := r.processor(1), time.Now()
	<-time.After(60 * time.Second)
	share := float64(r.processor(1)-before) / float64(time.Since(begun)) * 100
	private, all := r.memory(1)
	t.Logf("%.2f %% of a core over %s; %s", share, time.Since(begun).Round(time.Second), all)
	if raceEnabled {
		return // which takes many times as much of both
	}
	if share > 1 {
		t.Errorf("%.2f %% of a core, at most 1 %% expected", share)
	}
	if private > 40<<10 {
		t.Errorf("%d kB of private memory, at most 40 MB expected", private)
	}
}

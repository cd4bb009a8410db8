package bgp

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slack is for a machine that has other things to do.
const slack = 5

const (
	anycast4 = "203.0.113.10/32"
	anycast6 = "2001:db8:1::10/128"
	up4      = "up 203.0.113.10"
	up6      = "up 2001:db8:1::10"
)

// bgpd of AS 65001 with eBGP neighbors on stations 2 to n.
func bgpd(n int, lines ...string) string {
	var b strings.Builder
	b.WriteString("router bgp 65001\n bgp router-id 192.0.2.1\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n")
	for i := 2; i <= n; i++ {
		fmt.Fprintf(&b, " neighbor 192.0.2.%d remote-as 65010\n neighbor 192.0.2.%d bfd\n neighbor 192.0.2.%d bfd profile fast\n neighbor 192.0.2.%d timers connect 1\n", i, i, i, i)
	}
	for _, l := range lines {
		if strings.HasPrefix(l, "neighbor") {
			b.WriteString(" " + l + "\n")
		}
	}
	for _, f := range []string{"ipv4", "ipv6"} {
		fmt.Fprintf(&b, " address-family %s unicast\n  maximum-paths 8\n", f)
		for i := 2; i <= n; i++ {
			fmt.Fprintf(&b, "  neighbor 192.0.2.%d activate\n", i)
		}
		b.WriteString(" exit-address-family\n")
	}
	return b.String()
}

const plain = `
as: 65010
peers:
  - address: 192.0.2.1
    as: 65001
    families: [ipv4, ipv6]
    bfd: {interval: 100ms, multiplier: 3}
`

// TestRouterSpreads is S1's setting: three machines announce one address, and
// the router spreads.
func TestRouterSpreads(t *testing.T) {
	r := newRig(t, 4)
	r.frr(bgpd(4))
	var all []*speaker
	start := time.Now()
	for i := 2; i <= 4; i++ {
		s := r.speak(i, plain)
		s.tell(up4)
		s.tell(up6)
		all = append(all, s)
	}
	r.counted(anycast4, 3, 30*time.Second)
	t.Logf("from nothing to 3 next hops: %v", time.Since(start).Round(time.Millisecond))
	r.counted(anycast6, 3, 10*time.Second)
	for i := 2; i <= 4; i++ {
		r.bfdUp(i)
	}

	// Unhealthy: the address leaves, and comes back.
	all[0].tell("down 203.0.113.10")
	t.Logf("withdrawn: %v", r.counted(anycast4, 2, time.Second*slack).Round(time.Millisecond))
	if got := len(r.hops(anycast6)); got != 3 {
		t.Errorf("the other address has %d next hops, want 3", got)
	}
	all[0].tell(up4)
	r.counted(anycast4, 3, time.Second*slack)

	// Hard death.
	var died, back []time.Duration
	for range rounds(t) {
		if err := r.segment.Station(4).Silence(); err != nil {
			t.Fatal(err)
		}
		died = append(died, r.counted(anycast4, 2, 400*time.Millisecond*slack))
		r.until("the speaker has noticed", 5*time.Second, func() error {
			if all[2].count("session is lost", "BFD") < len(died) {
				return fmt.Errorf("it says:\n%s", all[2].log)
			}
			return nil
		})
		if err := r.segment.Station(4).Rejoin(); err != nil {
			t.Fatal(err)
		}
		back = append(back, r.counted(anycast4, 3, 3*time.Second*slack))
		r.bfdUp(4)
	}
	t.Logf("hard death, BFD 100 ms x 3: median %v of %v", median(died), died)
	t.Logf("3 next hops again after the node returned: median %v of %v", median(back), back)

	t.Logf("memory of one speaker: %s", all[0].memory())

	// A killed process: the kernel tells the router.
	all[1].kill()
	t.Logf("killed: %v", r.counted(anycast4, 2, time.Second*slack).Round(time.Millisecond))
	again := r.speak(3, plain)
	again.tell(up4)
	t.Logf("3 next hops after a restart: %v", r.counted(anycast4, 3, 3*time.Second*slack).Round(time.Millisecond))

	// A deliberate end: the routes leave before the session does.
	again.signal(syscall.SIGTERM)
	r.counted(anycast4, 2, time.Second*slack)
	if again.wait(10*time.Millisecond) && defaultWaitWithdraw > 100*time.Millisecond {
		t.Log("the process ended before the route was seen to be gone")
	}
	if !again.wait(10 * time.Second) {
		t.Error("the process does not end")
	}
}

func rounds(t *testing.T) int {
	if testing.Short() {
		return 1
	}
	return 5
}

func median(all []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(all))
	return s[len(s)/2].Round(time.Millisecond)
}

func (r *rig) bfdUp(station int) {
	r.t.Helper()
	r.until(fmt.Sprintf("BFD with station %d is up", station), 10*time.Second, func() error {
		out, err := r.vtysh("bfdd", fmt.Sprintf("show bfd peer 192.0.2.%d json", station))
		if err == nil && !strings.Contains(out, `"status":"up"`) {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	})
}

// TestRouterSees: what a router makes of the attributes, and of a machine that
// is about to go.
func TestRouterSees(t *testing.T) {
	r := newRig(t, 2)
	r.frr(bgpd(2))
	s := r.speak(2, strings.Replace(plain, "    bfd: {interval: 100ms, multiplier: 3}\n", "", 1)+`
    prepend: 2
    med: 50
    communities: ["65010:100", no-advertise]
    largeCommunities: ["65010:1:2"]
shutdown: gshut
wait: 2s
`)
	s.tell(up4)
	s.tell(up6)
	r.counted(anycast4, 1, 30*time.Second)
	r.counted(anycast6, 1, 5*time.Second)
	for family, prefix := range map[string]string{"ipv4": anycast4, "ipv6": anycast6} {
		paths := r.paths(family, prefix)
		if len(paths) != 1 {
			t.Fatalf("%s: %d paths", family, len(paths))
		}
		p := paths[0]
		if p.AsPath.String != "65010 65010 65010" || p.Metric == nil || *p.Metric != 50 ||
			p.Community.String != "65010:100 no-advertise" || p.LargeCommunity.String != "65010:1:2" {
			t.Errorf("%s: got %+v", family, p)
		}
	}
	if got := r.paths("ipv6", anycast6)[0].Nexthops[0].IP; got != "2001:db8::2" {
		t.Errorf("IPv6 next hop is %s", got)
	}
	s.tell("drain 203.0.113.10")
	shutting := func(family, prefix string) func() error {
		return func() error {
			p := r.paths(family, prefix)
			if len(p) != 1 || !strings.Contains(p[0].Community.String, "graceful-shutdown") && !strings.Contains(p[0].Community.String, "gracefulShutdown") {
				return fmt.Errorf("it has %+v", p)
			}
			return nil
		}
	}
	r.until("GRACEFUL_SHUTDOWN of one address", 5*time.Second, shutting("ipv4", anycast4))
	if shutting("ipv6", anycast6)() == nil {
		t.Error("the other address has it too")
	}
	if p := r.paths("ipv4", anycast4)[0]; p.LocPrf == nil || *p.LocPrf != 0 {
		t.Errorf("the router does not prefer others to what is about to go: %+v", p)
	}
	s.signal(syscall.SIGTERM)
	r.until("GRACEFUL_SHUTDOWN of all", 2*time.Second, shutting("ipv6", anycast6))
	if s.wait(0) {
		t.Error("the process did not wait")
	}
	if !s.wait(10 * time.Second) {
		t.Error("the process does not end")
	}
	r.counted(anycast4, 0, time.Second*slack)
	if out, err := r.vtysh("bgpd", "show bgp neighbors 192.0.2.2"); err != nil || !strings.Contains(out, "Administrative Shutdown") {
		t.Errorf("the router was not told why: %v\n%s", err, out)
	}
}

// TestInternal is iBGP over an IPv6 session that carries both families.
func TestInternal(t *testing.T) {
	r := newRig(t, 2)
	r.frr("router bgp 65010\n bgp router-id 192.0.2.1\n no bgp default ipv4-unicast\n neighbor 2001:db8::2 remote-as 65010\n" +
		" neighbor 2001:db8::2 passive\n address-family ipv4 unicast\n  neighbor 2001:db8::2 activate\n exit-address-family\n" +
		" address-family ipv6 unicast\n  neighbor 2001:db8::2 activate\n exit-address-family\n")
	s := r.speak(2, `
as: 65010
routerID: 192.0.2.2
peers: [{address: "2001:db8::1", as: 65010, families: [ipv4, ipv6], localPref: 250, localAddress: "2001:db8::2", interface: eth0}]
`)
	s.tell(up4)
	s.tell(up6)
	r.counted(anycast4, 1, 30*time.Second)
	r.counted(anycast6, 1, 5*time.Second)
	for family, prefix := range map[string]string{"ipv4": anycast4, "ipv6": anycast6} {
		p := r.paths(family, prefix)[0]
		if p.LocPrf == nil || *p.LocPrf != 250 || p.AsPath.String != "Local" && p.AsPath.String != "" {
			t.Errorf("%s: got %+v", family, p)
		}
	}
}

// TestRefusedByRouter: a wrong AS and a wrong password are one line each, and
// need no restart here once the router is mended.
func TestRefusedByRouter(t *testing.T) {
	r := newRig(t, 4)
	r.frr(bgpd(4, "neighbor 192.0.2.2 remote-as 65099", "neighbor 192.0.2.3 password right", "neighbor 192.0.2.4 shutdown"))
	secret := r.console.Dir + "/wrong"
	writeFile(t, secret, "wrong\n")
	withBFD := strings.Replace(plain, "    bfd", "    passwordFile: "+secret+"\n    bfd", 1)
	number, password, closed := r.speak(2, plain), r.speak(3, withBFD), r.speak(4, plain)
	number.says(10*time.Second, "no BGP session", "the peer refuses AS 65010")
	closed.says(10*time.Second, "no BGP session", "end its shutdown")
	password.says(20*time.Second, "no BGP session", "BFD hears it; the password is not the router's")
	for s, what := range map[*speaker]string{number: "AS", password: "password", closed: "shutdown"} {
		r.measure("a third try of "+what, 500*time.Millisecond, 20*time.Second, func() error {
			s.tell("status")
			for n := 4; n < 20; n++ {
				if s.count("status", fmt.Sprintf("tries=%d ", n)) > 0 {
					return nil
				}
			}
			return fmt.Errorf("it says:\n%s", s.log)
		})
		// BFD comes up in between, after which the password is the likelier cause.
		if n := s.count("no BGP session"); n > 2 || s != password && n > 1 {
			t.Errorf("%s: %d lines:\n%s", what, n, s.log)
		}
	}
	r.tell("bgpd", "router bgp 65001", "neighbor 192.0.2.2 remote-as 65010", "no neighbor 192.0.2.4 shutdown")
	r.tell("bgpd", "router bgp 65001", "neighbor 192.0.2.3 password wrong")
	for _, s := range []*speaker{number, password, closed} {
		s.says(refusedMost+5*time.Second, "BGP session is up")
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

package scenario

import (
	"strings"
	"testing"
	"time"
)

func TestWindowsOfAnnouncedAddresses(t *testing.T) {
	c := mustCase(t, "bgp-node-dead", "main")
	for _, tc := range []struct {
		window   string
		min, max time.Duration
	}{
		{"bgp-bfd", 180 * time.Millisecond, 670 * time.Millisecond},
		{"bgp-closed", 0, 370 * time.Millisecond},
		{"bgp-health", 0, 2470 * time.Millisecond},
		{"bgp-hold", 19980 * time.Millisecond, 30370 * time.Millisecond},
		{"bgp-check", 9980 * time.Millisecond, 15870 * time.Millisecond},
	} {
		w, err := c.WindowOfHops(tc.window)
		if err != nil || w.Min != tc.min || w.Max != tc.max {
			t.Errorf("%s is %s to %s, %v; want %s to %s", tc.window, w.Min, w.Max, err, tc.min, tc.max)
		}
	}
	// Of a client's requests a third meets the machine that is gone.
	p := pathNamed(t, c, "b/address/udp/new")
	if w, err := c.WindowOf(p, "bgp-bfd"); err != nil || w.Min != 0 || w.Max != 670*time.Millisecond {
		t.Errorf("a client's window is %+v, %v", w, err)
	}
	// What is promised, and the margin of a busy machine.
	t0 := DefaultTimers()
	if bar := 400*time.Millisecond + t0.Noise + 2*HopsInterval; mustWindow(t, c, "bgp-bfd").Max > bar {
		t.Errorf("BFD may take more than %s", bar)
	}
	if mustWindow(t, c, "bgp-health").Max > 2500*time.Millisecond {
		t.Error("a failed check may take more than 2.5 s")
	}
}

func mustWindow(t *testing.T, c *Case, name string) Window {
	t.Helper()
	w, err := c.WindowOfHops(name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAnnouncedAddressDefaults(t *testing.T) {
	for name, nodes := range map[string]int{"bgp-node-dead": 3, "bgp-agent-restarted": 3, "bgp-apiserver-killed": 3} {
		v := mustCase(t, name, "main").VIP
		if !v.Anycast() || len(v.Nodes) != nodes || v.Without != PeerFRR || v.BGP == nil || v.BGP.Fewest != nodes-1 {
			t.Errorf("%s: %+v %+v", name, v, v.BGP)
		}
	}
}

func TestMistakesWithAnnouncedAddressesGetOneLine(t *testing.T) {
	const any = "[a2, a3], mode: anycast"
	for _, tc := range []struct{ name, old, new, want string }{
		{"bgp without anycast", "[a2, a3]", "[a2, a3], bgp: {back: 3s}", "vip.bgp: nobody announces by it; write mode: anycast"},
		{"without", "[a2, a3]", any + ", without: keepalived", `vip.without: "keepalived" is unknown; choose one of frr`},
		{"front", "agents: vip\nvip: {nodes: [a2, a3]", "apiservers: true\nagents: [vip, front]\nvip: {nodes: " + any + ", health: front", "vip.health: front stands behind one address; write apiserver, or leave it out"},
		{"moves", "[a2, a3]", any + ", moves: {max: 1}", "vip: moves, twoHolders and gone are for one holder; write bgp: {withdrawn: …, back: …}"},
		{"fewest", "[a2, a3]", any + ", bgp: {fewest: 3}", "vip.bgp: back 0s, fewest 3; choose a duration, and at most 2 next hops"},
		{"back", "[a2, a3]", any + ", bgp: {back: -1s}", "vip.bgp: back -1s, fewest 1; choose"},
		{"window", "[a2, a3]", any + ", bgp: {withdrawn: soon}", `vip.bgp.withdrawn: window "soon": no such derivation; choose one of`},
		{"window without", "[a2, a3]", any + ", bgp: {without: soon}", `vip.bgp.without: window "soon": no such derivation`},
	} {
		_, err := Parse("x.yaml", []byte(strings.Replace(held, tc.old, tc.new, 1)))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}

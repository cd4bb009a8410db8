package lease

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func peersOf(names ...string) (all []Peer) {
	for i, name := range names {
		all = append(all, Peer{Name: name, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 8947)})
	}
	return all
}

func TestCheck(t *testing.T) {
	good := Config{Self: "a", Peers: peersOf("a", "b"), Incarnation: 1}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Self = "" }, `self ""`},
		{func(c *Config) { c.Self = "c" }, `"c" itself is missing`},
		{func(c *Config) { c.Duration = 100 * time.Millisecond }, "duration 100ms: want 300ms to 1m0s"},
		{func(c *Config) { c.Duration = time.Hour }, "duration 1h0m0s"},
		{func(c *Config) { c.Renew = 2 * time.Second }, "renew 2s: want 10 to 40 % of duration 2.5s"},
		{func(c *Config) { c.Margin = time.Millisecond }, "margin 1ms: want 5 to 30 %"},
		{func(c *Config) { c.Linger = time.Minute }, "linger 1m0s: want at most 1s"},
		{func(c *Config) { c.Policy = 7 }, "policy 7"},
		{func(c *Config) { c.Incarnation = 0 }, "incarnation 0"},
		{func(c *Config) { c.Peers = peersOf("a", "a") }, `peers[1].name "a": there already`},
		{func(c *Config) { c.Peers = []Peer{{Name: "a"}} }, `peers[0].address`},
		{func(c *Config) { c.Peers = peersOf("a", strings.Repeat("x", 64)) }, "peers[1].name"},
	}
	for _, test := range tests {
		c := good
		test.change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	for _, p := range []Policy{Keep, Drop} {
		if got, err := ParsePolicy(p.String()); err != nil || got != p {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	if _, err := ParsePolicy("hold"); err == nil {
		t.Error("hold is no policy")
	}
}

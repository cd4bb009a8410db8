package frr

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite testdata")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update rewrites it):\n%s", path, got)
	}
}

func neighbors(as uint32, addresses ...string) []Neighbor {
	var all []Neighbor
	for _, a := range addresses {
		all = append(all, Neighbor{netip.MustParseAddr(a), as})
	}
	return all
}

func TestConfig(t *testing.T) {
	id := netip.MustParseAddr("10.77.1.1")
	c := Config{
		AS: 65001, RouterID: id, Neighbors: neighbors(65010, "10.77.1.11", "10.77.1.12", "fd77:1::13"),
		Hold: 30 * time.Second, BFD: &BFD{100 * time.Millisecond, 3}, MaxPaths: 8,
		Accept: []netip.Prefix{netip.MustParsePrefix("203.0.113.10/32"), netip.MustParsePrefix("203.0.113.128/25"), netip.MustParsePrefix("2001:db8:1::/64")},
	}
	golden(t, "bgpd-full.conf", c.BGPD())
	golden(t, "bfdd.conf", c.BFDD())
	c = Config{AS: 65001, RouterID: id, Neighbors: neighbors(65001, "10.77.1.11"), Hold: 10 * time.Second, Keepalive: 2500 * time.Millisecond}
	golden(t, "bgpd-plain.conf", c.BGPD())
	if got := c.BFDD(); got != "" {
		t.Errorf("without BFD, bfdd is told %q", got)
	}
}

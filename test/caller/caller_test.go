package caller

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// A machine has the address, another takes it over while the first still has it.
func TestCaller(t *testing.T) {
	for _, traced := range []bool{false, true} {
		t.Run(fmt.Sprintf("traced %v", traced), func(t *testing.T) { takenOver(t, traced) })
	}
}

func takenOver(t *testing.T, traced bool) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(4)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	held := netip.MustParseAddr("192.0.2.100")
	give := func(i int) {
		eth, err := g.Station(i).Netlink.LinkByName(segment.Interface)
		if err == nil {
			err = g.Station(i).Netlink.AddrAdd(eth, &netlink.Addr{IPNet: &net.IPNet{IP: held.AsSlice(), Mask: net.CIDRMask(32, 32)}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i <= 2; i++ {
		c, err := Answer(g.Station(i), byte(i))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	give(1)
	c, err := New(g.Station(3), g.Station(4), held)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if traced {
		if err := c.Trace(g.Station(1), g.Station(2)); err != nil {
			t.Fatal(err)
		}
	}
	await := func(what string, f func() bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !f(); <-time.After(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not within 10 s: %s", what)
			}
		}
	}
	await("the first answers", func() bool { return c.Last() == 1 && c.Neighbor(held) == g.Station(1).MAC.String() })
	begun := time.Now()
	if s := c.Since(begun.Add(-time.Millisecond)); s.Both != 0 {
		t.Errorf("two at once for %s", s.Both)
	}
	give(2)
	await("two answer", func() bool { return c.Since(begun).Both > 20*time.Millisecond })
	if err := g.Station(1).Silence(); err != nil {
		t.Fatal(err)
	}
	await("there is a gap", func() bool { return c.Since(begun).Gap > 20*time.Millisecond || c.Last() == 2 })
	if s := c.Since(begun); s.Asked == 0 || len(s.By) == 0 {
		t.Errorf("%+v", s)
	}
}

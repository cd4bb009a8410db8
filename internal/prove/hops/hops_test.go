package hops

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// TestLookup asks a real kernel.
func TestLookup(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	s, err := space.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	h, err := netlink.NewHandleAt(netns.NsHandle(s.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	ip := func(args string) {
		t.Helper()
		err := s.Do(func() error {
			out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("ip %s: %w: %s", args, err, out)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{
		"link set lo up", "link add eth0 type veth peer name far0", "link set eth0 up", "link set far0 up",
		"link add eth1 type veth peer name far1", "link set eth1 up", "link set far1 up",
		"addr add 192.0.2.1/24 dev eth0", "addr add 198.51.100.1/24 dev eth1", "addr add 2001:db8::1/64 dev eth0 nodad",
		"route add 203.0.113.10/32 nexthop via 192.0.2.11 nexthop via 192.0.2.13 nexthop via 192.0.2.12",
		"route add 203.0.113.11/32 nexthop via 192.0.2.11 nexthop via 198.51.100.9",
		"route add 203.0.113.12/32 via 192.0.2.11",
		"route add unreachable 203.0.113.13/32", "route add blackhole 203.0.113.14/32", "route add prohibit 203.0.113.15/32",
		"-6 route add 2001:db8:1::10/128 nexthop via 2001:db8::11 nexthop via 2001:db8::12",
		"route add 203.0.113.16/32 via inet6 2001:db8::11 dev eth0",
		"route add 203.0.113.17/32 via 192.0.2.17 table 7", "rule add to 203.0.113.17 lookup 7",
	} {
		ip(args)
	}
	for to, want := range map[string]string{
		"203.0.113.10":   "[192.0.2.11 192.0.2.12 192.0.2.13]",
		"203.0.113.11":   "[192.0.2.11 198.51.100.9]",
		"203.0.113.12":   "[192.0.2.11]",
		"203.0.113.16":   "[2001:db8::11]",
		"203.0.113.17":   "[192.0.2.17]",
		"2001:db8:1::10": "[2001:db8::11 2001:db8::12]",
		"192.0.2.77":     "[on link]",
	} {
		got, err := Lookup(h, netip.MustParseAddr(to))
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("to %s: got %v, %v, want %s", to, got, err, want)
		}
	}
	for _, to := range []string{"203.0.113.13", "203.0.113.14", "203.0.113.15", "10.9.9.9", "2001:db8:9::9"} {
		if got, err := Lookup(h, netip.MustParseAddr(to)); !errors.Is(err, ErrNoRoute) {
			t.Errorf("to %s: got %v, %v", to, got, err)
		}
	}
	ip("link set eth1 down")
	if got, err := Lookup(h, netip.MustParseAddr("203.0.113.11")); err != nil || fmt.Sprint(got) != "[192.0.2.11]" {
		t.Errorf("with one link down: got %v, %v", got, err)
	}
}

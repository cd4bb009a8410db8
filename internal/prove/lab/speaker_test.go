package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
)

const anycast = "203.0.113.10"

// announce makes a node announce the address by an FRR of its own, and answer
// at it with its name.
func announce(t *testing.T, r *Router, n *Node) {
	t.Helper()
	nl, err := netlink.NewHandleAt(netns.NsHandle(n.space.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	if err := addAddr(nl, "lo", netip.MustParsePrefix(anycast+"/32")); err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	err = n.Do(func() (err error) {
		l, err = net.Listen("tcp", anycast+":8080")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, n.name)
			_ = c.Close()
		}
	}()
	dir := filepath.Join(r.lab.dir, "frr-"+n.name)
	settings := fmt.Sprintf(`router bgp 65010
 bgp router-id %s
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor %s remote-as 65001
 neighbor %[2]s bfd
 neighbor %[2]s bfd profile lab
 neighbor %[2]s timers connect 1
 network %s/32
`, n.ip4, r.IP(), anycast)
	for _, d := range []struct{ name, settings string }{{"zebra", ""}, {"bfdd", r.config.BFDD()}, {"bgpd", settings}} {
		cmd, err := frr.Command(dir, d.name, d.settings)
		if err != nil {
			t.Fatal(err)
		}
		child, err := r.lab.launch(n.name, n.spawner, d.name+"-"+n.name, cmd)
		if err != nil {
			t.Fatal(err)
		}
		r.prefer(child)
		if err := (frr.Console{Dir: dir}).Await(deadline(t, 20*time.Second), d.name); err != nil {
			t.Fatal(err)
		}
	}
}

// answers is who answers at the address, asked from a node as often.
func answers(t *testing.T, from *Node, times int) map[string]int {
	t.Helper()
	ctx, all := deadline(t, time.Minute), map[string]int{}
	for range times {
		c, err := from.DialContext(ctx, "tcp", anycast+":8080")
		if err != nil {
			t.Fatal(err)
		}
		name, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		all[string(name)]++
	}
	return all
}

// TestRouterSpreads is three nodes that announce one address to the router of
// their site, and clients in their own and in another one.
func TestRouterSpreads(t *testing.T) {
	if err := frr.Preflight(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this test must not be skipped in CI: %v", err)
		}
		t.Skip(err)
	}
	l := startLab(t, Spec{
		// A path to a socket has room for 107 bytes.
		Dir:   filepath.Join(t.TempDir(), strings.Repeat("long-name-", 10)),
		Sites: []Site{{Name: "a", Nodes: 4}, {Name: "b"}}, Links: []Link{{A: "b", B: "a"}},
	})
	o := RouterOptions{
		AS: 65001, BFD: &frr.BFD{Interval: 100 * time.Millisecond, Multiplier: 3}, Hold: 30 * time.Second, MaxPaths: 8,
		Prefixes: []netip.Prefix{netip.MustParsePrefix(anycast + "/32")},
	}
	for _, n := range l.Nodes()[:3] {
		o.Neighbors = append(o.Neighbors, frr.Neighbor{Address: n.IP(), AS: 65010})
	}
	ctx := deadline(t, 2*time.Minute)
	r, err := l.StartRouter(ctx, "a", o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.StartRouter(ctx, "a", o); err == nil {
		t.Error("a second FRR starts in one router")
	}
	if got, err := r.Hops(netip.MustParseAddr(anycast)); err != nil || len(got) > 0 {
		t.Errorf("before anybody announces there are next hops: %v, %v", got, err)
	}
	for _, n := range l.Nodes()[:3] {
		announce(t, r, n)
	}
	address := netip.MustParseAddr(anycast)
	await := func(n int, within time.Duration) time.Duration {
		t.Helper()
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		if err := r.AwaitHops(ctx, address, n); err != nil {
			t.Fatal(err)
		}
		return time.Since(began).Round(time.Millisecond)
	}
	t.Logf("3 next hops after %v", await(3, 30*time.Second))
	sessions, err := r.Sessions(ctx)
	if err != nil || len(sessions) != 3 {
		t.Fatalf("sessions are %v, %v", sessions, err)
	}
	for a, s := range sessions {
		if s.State != "Established" || s.Prefixes != 1 || s.BFD == "" {
			t.Errorf("%s: %+v", a, s)
		}
	}
	for _, from := range []string{"b1", "a4"} {
		n, _ := l.Node(from)
		if got := answers(t, n, 60); len(got) != 3 {
			t.Errorf("from %s: answers are %v, want some of each node", from, got)
		}
	}

	// A node falls silent, and comes back.
	silence(t, r, "a2", true)
	t.Logf("2 next hops after %v", await(2, 2*time.Second))
	b1, _ := l.Node("b1")
	if got := answers(t, b1, 60); len(got) != 2 || got["a2"] > 0 {
		t.Errorf("answers are %v, want some of a1 and a3", got)
	}
	silence(t, r, "a2", false)
	t.Logf("3 next hops after %v", await(3, 15*time.Second))
	if err := r.Stop(ctx, "bgpd", 0); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(ctx, "bgpd"); err != nil {
		t.Fatal(err)
	}
	t.Logf("3 next hops after a restart of bgpd: %v", await(3, 30*time.Second))
}

// silence takes a node off the bridge of its site, or puts it back.
func silence(t *testing.T, r *Router, node string, off bool) {
	t.Helper()
	port, err := r.inner.nl.LinkByName(node)
	if err != nil {
		t.Fatal(err)
	}
	if off {
		err = r.inner.nl.LinkSetNoMaster(port)
	} else {
		var bridge netlink.Link
		if bridge, err = r.inner.nl.LinkByName(bridgeName); err == nil {
			err = r.inner.nl.LinkSetMaster(port, bridge)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

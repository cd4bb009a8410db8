package lab

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// A node that is cut off is silent on its link too: nobody finds it by ARP, and
// an address that it has beside its own is as gone as its own.
func TestSilencedNode(t *testing.T) {
	t.Parallel()
	spec := mustDefault(t, "lan")
	spec.Sites, spec.Links, spec.Etcd = spec.Sites[:2], spec.Links[:1], nil
	spec.Sites[0].Nodes = 2
	l := startLab(t, spec)
	ctx := deadline(t, time.Minute)
	node := func(name string) *Node {
		n, err := l.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	second := netip.MustParseAddr("10.77.1.100")
	a1 := node("a1")
	if err := a1.withLinks(func(nl *netlink.Handle, eth netlink.Link) error {
		return nl.AddrAdd(eth, &netlink.Addr{IPNet: &net.IPNet{IP: second.AsSlice(), Mask: net.CIDRMask(32, 32)}})
	}); err != nil {
		t.Fatal(err)
	}
	if has, err := a1.Has(second); !has || err != nil {
		t.Fatalf("a1 has %s: %t, %v", second, has, err)
	}
	mac, err := a1.HardwareAddr()
	if err != nil {
		t.Fatal(err)
	}
	reaches := func(from *Node) bool {
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		conn, err := from.DialContext(ctx, "tcp", echoAddr(second))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	clients := []*Node{node("a2"), node("b1")}
	for _, from := range clients {
		waitFor(t, 10*time.Second, from.Name()+" reaches the second address", func() bool { return reaches(from) })
	}
	if got, err := clients[0].Neighbor(second); got != mac.String() || err != nil {
		t.Errorf("a2 believes of %s: %q, %v; want %s", second, got, err, mac)
	}
	if got, err := l.RouterNeighbor("a", second); got != mac.String() || err != nil {
		t.Errorf("router a believes of %s: %q, %v; want %s", second, got, err, mac)
	}
	if err := l.Cut(ctx, Cut{From: "a1"}); err != nil {
		t.Fatal(err)
	}
	if err := clients[0].Forget(); err != nil { // of what it believed
		t.Fatal(err)
	}
	for _, from := range clients {
		if reaches(from) {
			t.Errorf("%s reaches the second address of a1, which is cut off", from.Name())
		}
	}
	if got, err := clients[0].Neighbor(second); got != "" || err != nil {
		t.Errorf("a2 believes of %s: %q, %v; want nothing", second, got, err)
	}
	if err := l.Heal(ctx); err != nil {
		t.Fatal(err)
	}
	for _, from := range clients {
		waitFor(t, 10*time.Second, from.Name()+" reaches the second address again", func() bool { return reaches(from) })
	}
	if err := a1.Forget(); err != nil {
		t.Fatal(err)
	}
	if has, err := a1.Has(second); has || err != nil {
		t.Errorf("a1 has %s after it has forgotten: %t, %v", second, has, err)
	}
	if err := l.verify(ctx); err != nil {
		t.Errorf("a1 has forgotten too much: %v", err)
	}
}

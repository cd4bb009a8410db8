package gate

import (
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// A router that does not accept what is sent to its virtual addresses is found
// by its neighbours all the same.
func TestRefusedAddressIsFoundAndGetsNothing(t *testing.T) {
	g := newSegment(t, 2)
	s := g.Station(1)
	gate := newGateOf(t, s, Config{})
	serve(t, s)
	w := client(t, g.Station(2))
	for _, vip := range vips {
		must(t, gate.Open(vip, segment.Interface, time.Hour))
		eventually(t, vip.String()+" answers", func() bool { return !w.last(w.answer, vip).IsZero() })
	}
	gate = newGateOf(t, s, Config{Refused: vips})
	for _, vip := range vips {
		must(t, gate.Open(vip, segment.Interface, time.Hour))
	}
	forget(t, g.Station(2))
	for _, vip := range vips {
		eventually(t, vip.String()+" is found", func() bool { return neighbour(t, g.Station(2), vip.AsSlice()) == s.MAC.String() })
	}
	begun := time.Now()
	<-time.After(slack)
	for _, vip := range vips {
		if last := w.last(w.answer, vip); last.After(begun) {
			t.Errorf("%s answered %s after it was refused", vip, last.Sub(begun))
		}
	}
}

// forget has a station look for its neighbours anew.
func forget(t *testing.T, s *segment.Station) {
	t.Helper()
	eth, err := s.Netlink.LinkByName(segment.Interface)
	must(t, err)
	for _, vip := range vips {
		must(t, s.Netlink.NeighSet(&netlink.Neigh{LinkIndex: eth.Attrs().Index, IP: vip.AsSlice(), State: unix.NUD_FAILED}))
	}
}

// neighbour is the hardware address that a station has confirmed for another.
func neighbour(t *testing.T, s *segment.Station, ip net.IP) string {
	t.Helper()
	eth, err := s.Netlink.LinkByName(segment.Interface)
	must(t, err)
	all, err := s.Netlink.NeighList(eth.Attrs().Index, unix.AF_UNSPEC)
	must(t, err)
	for _, n := range all {
		if n.IP.Equal(ip) && n.State&(unix.NUD_REACHABLE|unix.NUD_STALE|unix.NUD_DELAY) != 0 {
			return n.HardwareAddr.String()
		}
	}
	return ""
}

// The kernel answers for an address of one interface on all of them, with the
// hardware address of each: with a virtual one, only that may be heard.
func TestVirtualAddressHasItsHardwareAddressOnly(t *testing.T) {
	g := newSegment(t, 2)
	s := g.Station(1)
	mac := net.HardwareAddr{0, 0, 0x5e, 0, 1, 51}
	eth, err := s.Netlink.LinkByName(segment.Interface)
	must(t, err)
	virtual := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "virtual", ParentIndex: eth.Attrs().Index, HardwareAddr: mac}, Mode: netlink.MACVLAN_MODE_BRIDGE}
	must(t, s.Netlink.LinkAdd(virtual))
	must(t, s.Netlink.LinkSetUp(virtual))
	must(t, s.Netlink.AddrAdd(virtual, &netlink.Addr{IPNet: &net.IPNet{IP: vips[0].AsSlice(), Mask: net.CIDRMask(32, 32)}}))
	if heard := answering(t, g, Config{}); len(heard) != 2 {
		t.Errorf("without the rule: answers by hardware address: %v, want two: the test shows nothing", heard)
	}
	if heard := answering(t, g, Config{Virtual: vips[:1], VirtualPrefix: "hvip"}); len(heard) != 1 || heard[announce.MAC(mac)] != 3 {
		t.Errorf("answers by hardware address: %v, want 3 by %s", heard, mac)
	}
}

// answering counts the answers to three questions for the first address, which
// station 1 has.
func answering(t *testing.T, g *segment.Segment, c Config) map[announce.MAC]int {
	t.Helper()
	gate := newGateOf(t, g.Station(1), c)
	must(t, gate.Open(vips[0], segment.Interface, time.Hour))
	answers := make(chan announce.MAC, 1000)
	ears := speaker(t, g.Station(2), func(h announce.Heard) { answers <- h.MAC })
	must(t, ears.Watch(vips[:1]))
	asked := speaker(t, g.Station(2), nil)
	for range 3 {
		// It returns with the first answer; the other may be on its way.
		_ = asked.Probe(t.Context(), vips[0], announce.Probing{Count: 1, Interval: 100 * ms})
		<-time.After(20 * ms)
	}
	must(t, ears.Close())
	heard := map[announce.MAC]int{}
	for len(answers) > 0 {
		heard[<-answers]++
	}
	return heard
}

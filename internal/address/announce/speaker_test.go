package announce

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

func newSegment(t *testing.T, n int) *segment.Segment {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// speaker opens a running Speaker on a station.
func speaker(t *testing.T, s *segment.Station, o Options) *Speaker {
	t.Helper()
	o.Interface = segment.Interface
	var sp *Speaker
	err := s.Do(func() (err error) {
		sp, err = Open(o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- sp.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := errors.Join(sp.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	return sp
}

// hearing is a Speaker option that passes on what is heard.
func hearing() (chan Heard, func(Heard)) {
	c := make(chan Heard, 100)
	return c, func(h Heard) { c <- h }
}

func next(t *testing.T, c chan Heard) Heard {
	t.Helper()
	select {
	case h := <-c:
		return h
	case <-time.After(5 * time.Second):
		t.Fatal("nothing was heard")
		return Heard{}
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !f(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}

// entry returns the hardware address that a station has cached for another.
func entry(t *testing.T, s *segment.Station, addr netip.Addr) string {
	t.Helper()
	l, err := s.Netlink.LinkByName(segment.Interface)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Netlink.NeighList(l.Attrs().Index, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if got, _ := netip.AddrFromSlice(n.IP); got.Unmap() == addr && n.HardwareAddr != nil {
			return n.HardwareAddr.String()
		}
	}
	return ""
}

func addAddress(t *testing.T, s *segment.Station, addr netip.Addr) {
	t.Helper()
	l, err := s.Netlink.LinkByName(segment.Interface)
	if err != nil {
		t.Fatal(err)
	}
	bits := addr.BitLen()
	err = s.Netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, bits)}, Flags: unix.IFA_F_NODAD})
	if err != nil {
		t.Fatal(err)
	}
}

// talk sends a datagram so that the station has to resolve the address.
func talk(t *testing.T, s *segment.Station, to netip.Addr) {
	t.Helper()
	err := s.Do(func() error {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, _ = c.Write([]byte("x")) // a refusal of the one before may surface here
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var onSegment = []netip.Addr{netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("2001:db8::100")}

// A client's fresh entry, learnt from another station a moment ago, follows the
// announcement at once.
func TestNeighbourFollowsTheAnnouncement(t *testing.T) {
	g := newSegment(t, 3)
	client, old, heir := g.Station(1), g.Station(2), g.Station(3)
	taker := speaker(t, heir, Options{})
	for _, addr := range onSegment {
		addAddress(t, old, addr)
		talk(t, client, addr)
		eventually(t, "the client has an entry", func() bool { return entry(t, client, addr) == old.MAC.String() })
		if err := taker.Announce(addr); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the entry of "+addr.String()+" follows", func() bool { return entry(t, client, addr) == heir.MAC.String() })
	}
	if c := taker.Counters(); c.Requests != 1 || c.Replies != 1 || c.Advertisements != 1 || c.Unsent != 0 {
		t.Errorf("counted %+v", c)
	}
}

func TestRivalIsHeard(t *testing.T) {
	g := newSegment(t, 2)
	heard, tell := hearing()
	holder := speaker(t, g.Station(1), Options{Heard: tell})
	other := speaker(t, g.Station(2), Options{})
	if err := holder.Watch(onSegment); err != nil {
		t.Fatal(err)
	}
	mac := MAC(g.Station(2).MAC)
	for _, addr := range onSegment {
		if err := errors.Join(holder.Announce(addr), other.Announce(addr.Next()), other.Announce(addr)); err != nil {
			t.Fatal(err)
		}
		for range 2 - addr.BitLen()/128 { // a request and a reply, or one advertisement
			if h := next(t, heard); h.Address != addr || h.MAC != mac || h.Kind != Claim || time.Since(h.At) > time.Minute {
				t.Errorf("heard %+v", h)
			}
		}
		if err := other.Probe(t.Context(), addr, Probing{Count: 1, Interval: time.Millisecond}); err != nil {
			t.Errorf("a speaker answered: %v", err)
		}
		if h := next(t, heard); h.Address != addr || h.MAC != mac || h.Kind != Probe {
			t.Errorf("heard %+v", h)
		}
	}
	if c := holder.Counters(); c.Claims != 3 || c.Probes != 2 || c.Foul != 0 {
		t.Errorf("counted %+v", c)
	}
	if err := holder.Watch(nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.Announce(onSegment[0]), other.Announce(onSegment[1])); err != nil {
		t.Fatal(err)
	}
	// A frame of ours that does pass the filter is behind those in the queue.
	if err := holder.Watch(onSegment); err != nil {
		t.Fatal(err)
	}
	if err := other.Announce(onSegment[1]); err != nil {
		t.Fatal(err)
	}
	next(t, heard)
	if c := holder.Counters(); c.Claims != 4 {
		t.Errorf("heard what is not watched: %+v", c)
	}
}

func TestProbeNamesTheStranger(t *testing.T) {
	g := newSegment(t, 2)
	asker := speaker(t, g.Station(1), Options{})
	for _, addr := range onSegment {
		quick := Probing{Count: 3, Interval: 20 * time.Millisecond}
		if err := asker.Probe(t.Context(), addr, quick); err != nil {
			t.Errorf("a free address: %v", err)
		}
		addAddress(t, g.Station(2), addr)
		err := asker.Probe(t.Context(), addr, Probing{})
		var used *InUse
		if !errors.As(err, &used) || used.Address != addr || used.MAC != MAC(g.Station(2).MAC) {
			t.Fatalf("an address in use: %v", err)
		}
		want := "address " + addr.String() + " is in use by 02:00:00:00:00:02 on eth0: refused; choose another address or take it away from that machine"
		if err.Error() != want {
			t.Errorf("said %q", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := asker.Probe(ctx, onSegment[0].Next(), Probing{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSpeakerOutlivesCarrierAndFeelsLoss(t *testing.T) {
	g := newSegment(t, 2)
	heard, tell := hearing()
	holder := speaker(t, g.Station(1), Options{Heard: tell})
	other := speaker(t, g.Station(2), Options{})
	if err := holder.Watch(onSegment); err != nil {
		t.Fatal(err)
	}
	s := g.Station(1)
	l, err := s.Netlink.LinkByName(segment.Interface)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Netlink.LinkSetDown(l); err != nil {
		t.Fatal(err)
	}
	if err := holder.Announce(onSegment[0]); !errors.Is(err, unix.ENETDOWN) {
		t.Errorf("announced on an interface that is down: %v", err)
	}
	if c := holder.Counters(); c.Unsent != 2 {
		t.Errorf("counted %+v", c)
	}
	if err := s.Netlink.LinkSetUp(l); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rival is heard after the interface came back", func() bool {
		_ = other.Announce(onSegment[0])
		select {
		case <-heard:
			return true
		default:
			return false
		}
	})
	if err := s.Netlink.LinkDel(l); err != nil {
		t.Fatal(err)
	}
	if err := holder.Announce(onSegment[0]); !errors.Is(err, ErrGone) {
		t.Errorf("announced on an interface that is gone: %v", err)
	}
}

func TestOpenRefusesWhatIsNotEthernet(t *testing.T) {
	g := newSegment(t, 1)
	for name, want := range map[string]string{
		"lo":   `open speaker on lo: read hardware address "": 0 bytes, want 6 of Ethernet; ARP and NDP need an Ethernet interface`,
		"eth7": "open speaker on eth7: route ip+net: no such network interface",
	} {
		err := g.Station(1).Do(func() error {
			_, err := Open(Options{Interface: name})
			return err
		})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

package segment

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// answers reports whether one datagram gets from a station to another's echo
// within the patience.
func answers(t *testing.T, from, to *Station, six bool, patience time.Duration) bool {
	t.Helper()
	ours, theirs := from.Four, to.Four
	if six {
		ours, theirs = from.Six, to.Six
	}
	var server, client net.PacketConn
	listen := func(s *Station, a netip.Addr, c *net.PacketConn) {
		err := s.Do(func() (err error) {
			*c, err = net.ListenPacket("udp", netip.AddrPortFrom(a, 7).String())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*c).Close() })
	}
	listen(to, theirs, &server)
	listen(from, ours, &client)
	defer func() { _ = server.Close() }()
	defer func() { _ = client.Close() }()
	if _, err := client.WriteTo([]byte("hello"), net.UDPAddrFromAddrPort(netip.AddrPortFrom(theirs, 7))); err != nil {
		t.Fatal(err)
	}
	_ = server.SetReadDeadline(time.Now().Add(patience))
	n, _, err := server.ReadFrom(make([]byte, 100))
	return err == nil && n == 5
}

func carrier(t *testing.T, s *Station) bool {
	t.Helper()
	l, err := s.Netlink.LinkByName(Interface)
	if err != nil {
		t.Fatal(err)
	}
	return l.Attrs().OperState == netlink.OperUp
}

func TestSegment(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := New(2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	a, b := g.Station(1), g.Station(2)
	for _, six := range []bool{false, true} {
		if !answers(t, a, b, six, 5*time.Second) {
			t.Errorf("no datagram arrives, IPv6 %v", six)
		}
	}
	if err := b.Silence(); err != nil {
		t.Fatal(err)
	}
	if answers(t, a, b, false, 100*time.Millisecond) || !carrier(t, b) {
		t.Error("silenced: a datagram arrives or the carrier is gone")
	}
	if !g.remembers(t, b) {
		t.Error("silenced: the bridge has forgotten where the station is")
	}
	if err := b.Rejoin(); err != nil {
		t.Fatal(err)
	}
	if !answers(t, a, b, false, 5*time.Second) {
		t.Error("no datagram arrives after Rejoin")
	}
	if err := b.Unplug(); err != nil {
		t.Fatal(err)
	}
	if carrier(t, b) {
		t.Error("the carrier survives Unplug")
	}
	if err := b.Plug(); err != nil {
		t.Fatal(err)
	}
	if !carrier(t, b) || !answers(t, a, b, true, 5*time.Second) {
		t.Error("no datagram arrives after Plug")
	}
}

// remembers says whether the bridge sends frames to a station nowhere else.
func (g *Segment) remembers(t *testing.T, s *Station) bool {
	t.Helper()
	all, err := g.hub.nl.NeighList(s.port.Attrs().Index, unix.AF_BRIDGE)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(n netlink.Neigh) bool { return slices.Equal(n.HardwareAddr, s.MAC) })
}

package wire

import (
	"bytes"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// Adverts of a virtual router leave with its hardware address and the machine's
// own IP address, also after its interface was made anew.
func TestAdvertsThroughAVirtualInterface(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	for _, c := range []struct {
		family    vrrp.Family
		held, own netip.Addr
		etherType uint16
	}{
		{vrrp.IPv4, netip.MustParseAddr("192.0.2.100"), g.Station(1).Four, unix.ETH_P_IP},
		{vrrp.IPv6, netip.MustParseAddr("2001:db8::100"), netip.MustParseAddr("fe80::1"), unix.ETH_P_IPV6},
	} {
		through(t, g.Station(1), c.family, c.held, c.own, c.etherType)
	}
}

func through(t *testing.T, s *segment.Station, family vrrp.Family, held, own netip.Addr, etherType uint16) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tap, err := s.Tap(etherType)
	must(err)
	defer func() { _ = tap.Close() }()
	v := link.Virtual{Name: link.VirtualName(int(family), 51, segment.Interface), Parent: segment.Interface, MAC: family.MAC(51), Owner: "test"}
	var links *link.Handle
	var socket *Socket
	must(s.Do(func() (err error) {
		if links, err = link.Open(); err != nil {
			return err
		}
		socket, err = Open(Config{Interface: segment.Interface, Family: family, VRID: 51, Through: v.Name})
		return err
	}))
	defer links.Close()
	defer func() { _ = socket.Close() }()
	advert := vrrp.Advert{Version: 3, VRID: 51, Priority: 100, Interval: time.Second, Addresses: []netip.Addr{held}}
	if err := socket.Send(advert, own); err == nil {
		t.Errorf("IPv%d: sent through an interface that is not there", family)
	}
	for range 2 {
		must(links.AddVirtual(v))
		must(links.Raise(v))
		must(socket.Send(advert, own))
		want := advert.Append(nil, own, family.Multicast())
		must(tap.SetReadDeadline(time.Now().Add(5 * time.Second)))
		for {
			b := make([]byte, 2000)
			n, err := tap.Read(b)
			if err != nil {
				t.Fatalf("IPv%d: the advert is not on the wire: %v", family, err)
			}
			frame := b[:n]
			t.Logf("IPv%d: %x", family, frame)
			if !bytes.HasSuffix(bytes.TrimRight(frame, "\x00"), bytes.TrimRight(want, "\x00")) {
				continue // the kernel's reports about groups
			}
			source := frame[26:30]
			if family == vrrp.IPv6 {
				source = frame[22:38]
			}
			if !bytes.Equal(frame[6:12], v.MAC) || !bytes.Equal(source, own.AsSlice()) {
				t.Errorf("IPv%d: from %x and %x, want %s and %s", family, frame[6:12], source, v.MAC, own)
			}
			break
		}
	}
	must(links.RemoveVirtual(v))
}

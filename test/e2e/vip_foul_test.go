package e2e

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// foul is an advert that no router may heed.
type foul struct {
	name string
	// counted is the reason or the note by which it is counted; "" is not at all.
	counted string
	// line is in the one line that is logged about all of them; "" is none.
	line   string
	ttl    int
	packet []byte
}

// fouls are made of a sound advert of the best priority.
func fouls(from netip.Addr) []foul {
	sound := func(change func(a *vrrp.Advert)) []byte {
		a := vrrp.Advert{Version: 3, VRID: 51, Priority: 254, Interval: 100 * time.Millisecond, Addresses: []netip.Addr{held}}
		change(&a)
		return a.Append(nil, from, vrrp.Multicast4)
	}
	plain := func(*vrrp.Advert) {}
	spoilt := func(at int, b byte) []byte {
		p := sound(plain)
		p[at] = b
		return p
	}
	mended := func(at int, b byte) []byte {
		p := spoilt(at, b)
		was := sound(plain)[at]
		// The one's complement sum follows the byte (RFC 1624).
		shift := 8 * uint(1-at%2)
		sum := uint32(^(uint16(p[6])<<8 | uint16(p[7])))
		sum += uint32(^(uint16(was) << shift)) + uint32(b)<<shift
		for sum>>16 != 0 {
			sum = sum&0xffff + sum>>16
		}
		p[6], p[7] = byte(^uint16(sum)>>8), byte(^uint16(sum))
		return p
	}
	return []foul{
		{"cut short", "length", "less than a header", 255, sound(plain)[:7]},
		{"without its address", "length", "", 255, sound(plain)[:8]},
		{"changed on its way", "checksum", "the checksum is wrong", 255, spoilt(2, 200)},
		{"through a router", "ttl", "did not come from this link", 64, sound(plain)},
		{"of no version", "version", "VRRP version 9", 255, mended(0, 0x91)},
		{"of no type", "type", "packet type 7", 255, mended(0, 0x37)},
		{"without a router", "vrid", "", 255, sound(func(a *vrrp.Advert) { a.VRID = 0 })},
		{"without addresses", "count", "without an address", 255, sound(func(a *vrrp.Advert) { a.Addresses = nil })},
		{"without an interval", "interval", "an interval of 0", 255, mended(5, 0)},
		{"with a password", "auth", "authenticates itself (type 1)", 255, sound(func(a *vrrp.Advert) {
			a.Version, a.Interval, a.Auth = 2, time.Second, vrrp.Auth{Type: vrrp.AuthPassword, Data: [8]byte{'s'}}
		})},
		{"of another version", "version", "speaks another VRRP version", 255, sound(func(a *vrrp.Advert) { a.Version, a.Interval = 2, time.Second })},
		{"of another group with our VRID", "stranger", "has our VRID with other addresses", 255, sound(func(a *vrrp.Advert) { a.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.200")} })},
		{"of another group", "", "", 255, sound(func(a *vrrp.Advert) { a.VRID = 52 })},
	}
}

func TestFoulAdvertsAreFoul(t *testing.T) {
	from := netip.MustParseAddr("192.0.2.2")
	for _, f := range fouls(from) {
		a, err := vrrp.Parse(f.packet, from, vrrp.Multicast4)
		if ttl := vrrp.CheckTTL(f.ttl); ttl != nil {
			err = ttl
		}
		if sound := a.Version == 2 || a.VRID == 52 || !slices.Contains(a.Addresses, held); err == nil && !sound {
			t.Errorf("%s: nothing is wrong with it", f.name)
		}
		if err != nil && string(vrrp.ReasonOf(err)) != f.counted {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

// What must not be heeded moves nothing, is counted, and said once each.
func TestVIPFoulAdverts(t *testing.T) {
	nightly(t)
	w := newWire(t, 1)
	w.start(1, router(1), "")
	w.awaitHolder(1)
	before, err := w.status(1)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	const rounds = 50
	all := fouls(w.segment.Station(2).Four)
	w.send(all, rounds)
	var after map[string]uint64
	w.await("all of them were counted", 10*time.Second, func() bool {
		s, err := w.status(1)
		after = s.Rejected
		for k, n := range s.Notes {
			after[k] += n
		}
		return err == nil && after["stranger"] >= rounds
	})
	want := map[string]uint64{}
	for _, f := range all {
		if f.counted != "" {
			want[f.counted] += rounds
		}
	}
	for reason, n := range want {
		if after[reason] != n {
			t.Errorf("%d adverts counted as %s, want %d", after[reason], reason, n)
		}
	}
	s, err := w.status(1)
	if err != nil || s.State != "active" || !s.Since.Equal(before.Since) || s.Received < before.Received {
		t.Errorf("status %+v, %v; before %+v", s, err, before)
	}
	w.expect("foul adverts", w.client.Since(begun), 5*time.Millisecond+slack/4, 0)
	log := w.running[1].log
	for _, f := range all {
		if f.line == "" {
			continue
		}
		w.await("the line about adverts "+f.name, 3*time.Second, func() bool { return strings.Contains(log.String(), f.line) })
	}
	if n := strings.Count(log.String(), "level=WARN"); n > len(all) {
		t.Errorf("%d warnings about %d kinds of adverts:\n%s", n, len(all), log)
	}
}

// send sends each of them again and again from the client's station.
func (w *wire) send(all []foul, rounds int) {
	w.t.Helper()
	s := w.segment.Station(w.machines + 1)
	var conn net.PacketConn
	err := s.Do(func() (err error) {
		conn, err = net.ListenPacket("ip4:112", s.Four.String())
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	p := ipv4.NewPacketConn(conn)
	err = s.Do(func() error {
		eth, err := net.InterfaceByName(segment.Interface)
		if err != nil {
			return err
		}
		return p.SetMulticastInterface(eth)
	})
	for range rounds {
		for _, f := range all {
			if err == nil {
				err = p.SetMulticastTTL(f.ttl)
			}
			if err == nil {
				_, err = p.WriteTo(f.packet, nil, &net.IPAddr{IP: vrrp.Multicast4.AsSlice()})
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// Two pairs with one VRID on a link: each holds its own, and says what is wrong.
func TestVIPOneVRIDTwice(t *testing.T) {
	nightly(t)
	w := newWire(t, 2)
	w.start(1, router(1), "")
	w.awaitHolder(1)
	other := netip.MustParseAddr("192.0.2.101")
	w.addresses = []netip.Addr{other}
	w.start(2, router(2), "")
	w.await("the other holds its own", 10*time.Second, func() bool { return w.has(2, other) && w.on(1) && !w.on(2) && !w.has(1, other) })
	w.addresses = []netip.Addr{held}
	begun := time.Now()
	const line = "another virtual router has our VRID with other addresses"
	for i := 1; i <= 2; i++ {
		log := w.running[i].log
		w.await("the line about it", 5*time.Second, func() bool { return strings.Contains(log.String(), line) })
	}
	<-time.After(2 * time.Second) // twenty adverts of either
	for i := 1; i <= 2; i++ {
		if log := w.running[i].log.String(); strings.Count(log, line) != 1 || strings.Count(log, "msg=state") != 2 {
			t.Errorf("machine %d said:\n%s", i, log)
		}
	}
	w.expect("one VRID twice", w.client.Since(begun), 5*time.Millisecond+slack/4, 0)
}

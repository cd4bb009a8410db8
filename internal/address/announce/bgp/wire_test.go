package bgp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

func message(t testing.TB, m *packet.BGPMessage) []byte {
	t.Helper()
	data, err := m.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRead(t *testing.T) {
	good := message(t, packet.NewBGPKeepAliveMessage())
	edit := func(at int, b byte) []byte {
		d := bytes.Clone(good)
		d[at] = b
		return d
	}
	long := append(edit(16, 0x20), make([]byte, 9000)...)
	for _, c := range []struct {
		name          string
		data          []byte
		code, subcode uint8
	}{
		{"good", good, 0, 0},
		{"marker", edit(3, 0), 1, 1},
		{"short", edit(17, 18), 1, 2},
		{"long", long, 1, 2},
		{"type", edit(18, 9), 1, 3},
	} {
		_, err := read(bytes.NewReader(c.data), new([maxLength]byte))
		var bad *packet.MessageError
		switch {
		case c.code == 0:
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		case !errors.As(err, &bad) || bad.TypeCode != c.code || bad.SubTypeCode != c.subcode:
			t.Errorf("%s: got %v, want %d/%d", c.name, err, c.code, c.subcode)
		}
	}
	if _, err := read(bytes.NewReader(good[:10]), new([maxLength]byte)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a message: %v", err)
	}
}

// FuzzRead feeds what a peer may send to a session in each state.
func FuzzRead(f *testing.F) {
	p := testConfig()
	p.ours = 65001
	open, err := opening(p, netip.MustParseAddr("192.0.2.1"))
	if err != nil {
		f.Fatal(err)
	}
	up := append(message(f, open), message(f, packet.NewBGPKeepAliveMessage())...)
	f.Add(up)
	f.Add(message(f, open)[:25])
	f.Add(append(bytes.Clone(up), message(f, packet.NewBGPRouteRefreshMessage(packet.AFI_IP, 0, packet.SAFI_UNICAST))...))
	f.Add(append(bytes.Clone(up), message(f, packet.NewBGPNotificationMessage(6, 2, []byte("\x05later")))...))
	f.Add(append(bytes.Clone(up), message(f, packet.NewEndOfRib(packet.RF_IPv6_UC))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newSession(testConfig(), netip.MustParseAddr("192.0.2.2"), newRandom())
		s.set(map[netip.Prefix]bool{netip.MustParsePrefix(anycast4): false})
		s.start(0)
		id, _ := s.opened(0, false, Local{Four: netip.MustParseAddr("192.0.2.2")})
		r := bytes.NewReader(data)
		var buffer [maxLength]byte
		for i := range 20 {
			m, err := read(r, &buffer)
			var bad *packet.MessageError
			if err != nil && !errors.As(err, &bad) {
				return
			}
			for _, a := range s.received(time.Duration(i)*time.Millisecond, id, m, bad) {
				if send, ok := a.(Send); ok {
					if _, err := send.Message.Serialize(); err != nil {
						t.Fatalf("after %s: %v", hex.EncodeToString(data), err)
					}
				}
			}
			if bad != nil {
				return
			}
		}
	})
}

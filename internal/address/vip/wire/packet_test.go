package wire

import (
	"net/netip"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

var (
	from = netip.MustParseAddr("192.0.2.1")
	to   = vrrp.Multicast4
)

// packet4 is an advert inside an IPv4 packet.
func packet4(ttl byte, options int) []byte {
	a := vrrp.Advert{Version: 3, VRID: 51, Priority: 100, Interval: 100 * time.Millisecond, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.100")}}
	b := make([]byte, 20+options)
	b[0], b[8], b[9] = 0x40|byte(len(b)/4), ttl, vrrp.Protocol
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	return a.Append(b, from, to)
}

func read(s *Socket, b []byte) (Heard, error) {
	p, err := parse4(b)
	if err != nil {
		return Heard{}, err
	}
	return s.judge(p)
}

func TestJudge(t *testing.T) {
	all := &Socket{config: Config{Family: vrrp.IPv4}}
	some := &Socket{config: Config{Family: vrrp.IPv4, Peers: []netip.Addr{netip.MustParseAddr("192.0.2.2")}}}
	for name, c := range map[string]struct {
		socket *Socket
		packet []byte
		want   vrrp.Reason
	}{
		"sound":               {all, packet4(255, 0), ""},
		"with options":        {all, packet4(255, 4), ""},
		"through a router":    {all, packet4(254, 0), vrrp.ReasonTTL},
		"from who is no peer": {some, packet4(255, 0), ReasonStranger},
		"cut short":           {all, packet4(255, 0)[:24], vrrp.ReasonLength},
	} {
		h, err := read(c.socket, c.packet)
		if got := vrrp.ReasonOf(err); got != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if c.want == "" && (h.Source != from || h.Advert.VRID != 51) {
			t.Errorf("%s: heard %+v", name, h)
		}
	}
	for _, b := range [][]byte{nil, packet4(255, 0)[:19], {0x4f, 19: 0}, {0x65, 39: 0}, {0x41, 39: 0}} {
		if _, err := parse4(b); err == nil {
			t.Errorf("% x is no IPv4 packet", b)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(packet4(255, 0))
	f.Add(packet4(255, 40))
	f.Add(packet4(1, 0)[:21])
	s := &Socket{config: Config{Family: vrrp.IPv4}}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := read(s, b)
		if err == nil && (len(h.Advert.Addresses) == 0 || !h.Source.Is4()) {
			t.Errorf("heard %+v", h)
		}
	})
}

package wire

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// Adverts of short intervals arrive twice, others once, to the group and to peers.
func TestSend(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	for _, unicast := range []bool{false, true} {
		var ends [2]*Socket
		for i := range ends {
			c := Config{Interface: segment.Interface, Family: vrrp.IPv4}
			if unicast {
				c.Peers = []netip.Addr{g.Station(2 - i).Four}
			}
			if err := g.Station(i + 1).Do(func() (err error) { ends[i], err = Open(c); return err }); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ends[i].Close() }()
		}
		for interval, want := range map[time.Duration]int{100 * time.Millisecond: 2, time.Second: 1} {
			a := vrrp.Advert{Version: 3, VRID: 51, Priority: 100, Interval: interval, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.100")}}
			last := a
			last.Priority, last.Interval = 7, time.Second
			for _, x := range []vrrp.Advert{a, last} {
				if err := ends[0].Send(x, g.Station(1).Four); err != nil {
					t.Fatal(err)
				}
			}
			if got := until(t, ends[1], last.Priority); got != want {
				t.Errorf("unicast %v, %v: heard %d adverts, want %d", unicast, interval, got, want)
			}
		}
	}
}

// until counts the adverts that come before one of a priority.
func until(t *testing.T, s *Socket, priority uint8) (before int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(time.Millisecond) {
		_ = s.Drain()
		for _, h := range s.Take() {
			if h.Advert.Priority == priority {
				return before
			}
			before++
		}
		if time.Now().After(deadline) {
			t.Fatal("the last advert did not come within 10 s")
		}
	}
}

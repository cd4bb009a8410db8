package gate

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// Each address stays open until its own deadline, many in one call; and when one of
// them has fallen shut, those with it are not renewed.
func TestRenewEachUntil(t *testing.T) {
	g := newSegment(t, 1)
	gate := newGate(t, g.Station(1))
	deadlines, now := map[netip.Addr]time.Time{}, time.Now()
	for i := range 700 {
		a := netip.AddrFrom4([4]byte{198, 51, 100 + byte(i/250), byte(i % 250)})
		deadlines[a] = now.Add(time.Duration(60+i) * time.Second)
		must(t, gate.OpenUntil(a, segment.Interface, now.Add(30*time.Second)))
	}
	six := vips[1]
	deadlines[six] = now.Add(40 * time.Second)
	must(t, gate.OpenUntil(six, segment.Interface, now.Add(30*time.Second)))
	must(t, gate.RenewEachUntil(deadlines))
	for a, d := range deadlines {
		if got := left(t, gate, a); got > time.Until(d)+permit || got < time.Until(d)-5*time.Second {
			t.Fatalf("%s is open for %s, and its deadline is in %s", a, got, time.Until(d))
		}
	}
	lost := netip.AddrFrom4([4]byte{198, 51, 100, 150})
	must(t, gate.Shut(lost))
	if err := gate.RenewEachUntil(deadlines); !errors.Is(err, ErrLate) {
		t.Errorf("with one that is shut: %v", err)
	}
	if got := left(t, gate, lost); got != 0 {
		t.Errorf("what was shut is open for %s", got)
	}
	delete(deadlines, lost)
	must(t, gate.RenewEachUntil(deadlines))
	deadlines[six] = time.Now().Add(-time.Second)
	if err := gate.RenewEachUntil(deadlines); !errors.Is(err, ErrLate) {
		t.Errorf("with a deadline that has passed: %v", err)
	}
}

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// TestVIPLoss loses adverts of 100 ms on the way between three of ours and between
// three keepaliveds, all at the same time over the same bridge: first 2 % at
// random, then bursts of 150 ms, HOLDFAST_VIP_LOSS (20s) each. Ours do not flap.
func TestVIPLoss(t *testing.T) {
	nightly(t)
	needKeepalived(t)
	long := 20 * time.Second
	if text := os.Getenv("HOLDFAST_VIP_LOSS"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatalf("HOLDFAST_VIP_LOSS: %v", err)
		}
	}
	w := newWire(t, 6)
	for i := 1; i <= 3; i++ {
		w.start(i, router(i), "")
		w.keepalivedOf(i+3, 52, 210-10*i, "", netip.MustParseAddr("192.0.2.101"))
	}
	w.awaitOne()
	rules := newRuleShell(t, w.segment.Hub())
	ear := newAdvertEar(t, w.segment)
	until(t, "keepalived has one holder", func() error {
		if ear.senders(52) == 0 {
			return fmt.Errorf("nobody sends adverts")
		}
		return nil
	})
	<-time.After(2 * time.Second)
	for _, kind := range []struct{ name, rule string }{{"2 % loss", "numgen random mod 100 < 2"}, {"bursts of 150 ms", "ip protocol @burst"}} {
		ear.reset()
		rules.run(t, advertLossOf(kind.rule))
		for end := time.Now().Add(long); time.Now().Before(end); {
			if kind.name != "2 % loss" {
				rules.run(t, "add element bridge loss burst { 112 timeout 150ms }")
			}
			<-time.After(time.Second)
		}
		rules.run(t, advertLossOf(""))
		t.Logf("%v of %s: ours %s; keepalived %s", long, kind.name, ear.of(51), ear.of(52))
		if n := ear.flaps(51); n > 0 {
			t.Errorf("%s: ours flapped %d times", kind.name, n)
			w.logs()
		}
		<-time.After(time.Second)
	}
}

// advertLossOf drops the adverts on the bridge for which a condition of nftables
// holds; "" drops none.
func advertLossOf(condition string) string {
	rules := "add table bridge loss; delete table bridge loss;"
	if condition != "" {
		rules += fmt.Sprintf("table bridge loss { set burst { type inet_proto; flags timeout; };"+
			" chain c { type filter hook forward priority 0; ip protocol 112 %s counter drop; }; }", condition)
	}
	return rules
}

// advertEar hears all adverts before any is lost.
type advertEar struct {
	mu   sync.Mutex
	last map[byte]time.Time // by VRID
	by   map[byte]byte      // the station that sent the last
	turn map[byte]int       // how often another than that sends
	most map[byte]time.Duration
	late map[byte]int
}

func newAdvertEar(t *testing.T, g *segment.Segment) *advertEar {
	e := &advertEar{by: map[byte]byte{}}
	e.reset()
	tap(t, g, e.note)
	return e
}

// note takes an IPv4 packet.
func (e *advertEar) note(b []byte, at time.Time) {
	if len(b) < 28 || b[0] != 0x45 || b[9] != 112 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	station, vrid := b[15], b[21]
	was, ok := e.last[vrid]
	if by := e.by[vrid]; by != station {
		if by != 0 {
			e.turn[vrid]++
		}
	} else if ok {
		gap := at.Sub(was)
		e.most[vrid] = max(e.most[vrid], gap)
		if gap > 120*time.Millisecond {
			e.late[vrid]++
		}
	}
	e.by[vrid], e.last[vrid] = station, at
}

func (e *advertEar) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last, e.turn, e.most, e.late = map[byte]time.Time{}, map[byte]int{}, map[byte]time.Duration{}, map[byte]int{}
}

func (e *advertEar) senders(vrid byte) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int(e.by[vrid])
}

// flaps is how often somebody else than the last sent an advert.
func (e *advertEar) flaps(vrid byte) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.turn[vrid]
}

func (e *advertEar) of(vrid byte) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprintf("%d changes of sender, sent more than 120 ms apart %d times, %v at most", e.turn[vrid], e.late[vrid], e.most[vrid].Round(100*time.Microsecond))
}

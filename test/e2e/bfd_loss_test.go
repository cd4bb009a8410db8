package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// TestBFDLoss loses packets on the way between pairs of ends with 100 ms and 3,
// all at the same time over the same bridge: two of ours, one of ours and FRR, two
// of FRR. First 2 % at random, then bursts of 150 ms, HOLDFAST_BFD_LOSS (20s) each.
//
// Two of ours do not flap. Where the other end is FRR, one of its packets that is
// late by more than 50 ms after a burst is a flap, whatever we do; so a pair of one
// each may flap no more often than two of FRR.
func TestBFDLoss(t *testing.T) {
	nightly(t)
	needFRR(t)
	long := 20 * time.Second
	if text := os.Getenv("HOLDFAST_BFD_LOSS"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatalf("HOLDFAST_BFD_LOSS: %v", err)
		}
	}
	g, err := segment.New(6)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	ours, mixed, theirs := newCouple(t, g, 1, ourEnd, ourEnd), newCouple(t, g, 3, ourEnd, frrEnd), newCouple(t, g, 5, frrEnd, frrEnd)
	all := []*couple{ours, mixed, theirs}
	rules := newRuleShell(t, g.Hub())
	w := newTimekeeper(t, g)
	for _, c := range all {
		c.await(t)
	}
	for _, kind := range []struct{ name, rule string }{{"2 % loss", "numgen random mod 100 < 2"}, {"bursts of 150 ms", "udp dport @burst"}} {
		before := map[*couple]int{}
		for _, c := range all {
			before[c] = c.flaps()
		}
		w.reset()
		rules.run(t, lossOf(kind.rule))
		for end := time.Now().Add(long); time.Now().Before(end); {
			if kind.name != "2 % loss" {
				rules.run(t, "add element bridge loss burst { 3784 timeout 150ms }")
			}
			<-time.After(time.Second)
		}
		rules.run(t, lossOf(""))
		flaps := map[*couple]int{}
		for _, c := range all {
			flaps[c] = c.flaps() - before[c]
			t.Logf("%v of %s: %s: %d flaps; %s", long, kind.name, c.name, flaps[c], w.of(c))
		}
		if flaps[ours] > 0 {
			t.Errorf("%s: two of ours flapped %d times", kind.name, flaps[ours])
		}
		if flaps[mixed] > flaps[theirs] {
			t.Errorf("%s: with us FRR flapped %d times, and among itself %d", kind.name, flaps[mixed], flaps[theirs])
		}
		for _, c := range all {
			c.await(t)
		}
	}
	if t.Failed() {
		for _, c := range all {
			t.Log(c.said())
		}
	}
}

// lossOf drops the BFD packets on the bridge for which a condition of nftables
// holds; "" drops none.
func lossOf(condition string) string {
	rules := "add table bridge loss; delete table bridge loss;"
	if condition != "" {
		rules += fmt.Sprintf("table bridge loss { set burst { type inet_service; flags timeout; };"+
			" chain c { type filter hook forward priority 0; udp dport 3784 %s counter drop; }; }", condition)
	}
	return rules
}

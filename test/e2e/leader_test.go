package e2e

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// A cut costs 3 to 4 s on a quiet machine; five times that is a failure.
const patience = 20 * time.Second

func (c *cluster) cut(cuts ...lab.Cut) {
	c.t.Helper()
	if err := c.lab.Cut(c.within(30*time.Second), cuts...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) heal() {
	c.t.Helper()
	if err := c.lab.Heal(c.within(30 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
}

func TestPartialSplit(t *testing.T) {
	for _, peer := range []string{"3.5", "3.6", "3.7"} {
		t.Run(peer, func(t *testing.T) {
			c := start(t, peer)
			c.lead("a")
			c.runAll()
			c.settled()
			began := time.Now()
			t.Logf("cut begins at %s", began.UTC().Format("15:04:05.000"))
			c.cut(lab.Cut{From: "a", To: "b"})
			c.until("every member answers", patience, c.allAnswer)
			t.Logf("whole %s after the cut", time.Since(began).Round(10*time.Millisecond))
			c.until("c leads", patience, func() error { return c.leads("c") })
			c.heal()
			c.until("whole after healing", patience, c.allAnswer)
			if n := c.moves(); n != 1 {
				t.Errorf("%d moves, want 1", n)
			}
		})
	}
}

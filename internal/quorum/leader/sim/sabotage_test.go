package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
)

// TestSabotage takes one rule away at a time and wants the judge to notice:
// an invariant that nothing can break proves nothing.
func TestSabotage(t *testing.T) {
	tests := []struct {
		name     string
		sabotage func(*leader.Config)
		breach   string
		from     uint64 // the first seed, where one that tells is far from 0
	}{
		{"no damping", func(c *leader.Config) { c.PenaltyLimit, c.Hold = math.Inf(1), 0 }, "after the last move", 0},
		{"damping from the record", func(c *leader.Config) { c.MoveWithin = -time.Second }, "after the last move", 0},
		{"never settles", func(c *leader.Config) { c.Settle = time.Hour }, "calm, and", 0},
		{"no row is fresh", func(c *leader.Config) { c.Fresh = 0 }, "calm, and", 0},
		{"leaves a disk at a blip", func(c *leader.Config) { c.SlowFor = 1 }, "without a cause", 0},
		{"never leaves a slow disk", func(c *leader.Config) { c.SlowFor = time.Hour }, "its disk is slow", 0},
		{"no wait at all", func(c *leader.Config) { c.Settle, c.LostFor, c.Transit = 0, 0, 0 }, "without a cause", 12_000},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := NewWorld()
			for i := range uint64(5000) {
				seed := test.from + i
				if r := w.schedule(seed, test.sabotage); strings.Contains(r.Broken, test.breach) {
					t.Logf("seed %d: %s", seed, r.Broken)
					return
				}
			}
			t.Errorf("5000 schedules did not break %q", test.breach)
		})
	}
}

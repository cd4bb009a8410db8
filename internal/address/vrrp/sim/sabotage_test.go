package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// TestSabotage takes one rule away at a time and wants the judge to notice:
// an invariant that nothing can break proves nothing.
func TestSabotage(t *testing.T) {
	tests := []struct {
		name   string
		spoil  sabotage
		breach string
	}{
		{"preempts without leave", sabotage{config: func(c *vrrp.Config) { c.Preempt = true }}, "takes the address"},
		{"relieves without leave", sabotage{config: func(c *vrrp.Config) { c.Stay = false }}, "takes the address (relieve"},
		{"no dead-man", sabotage{gates: time.Hour}, "both answered"},
		{"does not linger", sabotage{config: func(c *vrrp.Config) { c.Linger = 1 }}, "waited for a successor"},
		{"resigns in silence", sabotage{lost: func(p int) bool { return p == 0 }}, "waited for a successor"},
		{"does not hear the better one", sabotage{lost: func(p int) bool { return p >= 200 }}, "takes the address"},
		{"does not hear at all", sabotage{lost: func(int) bool { return true }}, "both answered"},
		{"always late", sabotage{late: func(s *Shape) time.Duration { return 4 * s.Nodes[0].Interval }}, "calm, "},
		{"late to take over", sabotage{config: func(c *vrrp.Config) { c.Priority = 1 }}, "has not taken over"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := NewWorld()
			w.spoil = test.spoil
			for seed := range uint64(5000) {
				if r := Schedule(w, seed); strings.Contains(r.Broken, test.breach) {
					t.Logf("seed %d: %s", seed, r.Broken)
					return
				}
			}
			t.Errorf("5000 schedules did not break %q", test.breach)
		})
	}
}

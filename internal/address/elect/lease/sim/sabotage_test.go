package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
)

// TestSabotage takes one rule away at a time and wants the judge to notice: an
// invariant that nothing can break proves nothing.
func TestSabotage(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and no time: TestSchedules runs the same code in several")
	}
	everybody := []lease.Peer{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}
	tests := []struct {
		name   string
		bent   rules
		breach string
	}{
		{"peers deny that they reach the API", rules{answer: func(m *ask.Message) { m.Flags &^= ask.Reached | ask.Holding }}, " holds, and "},
		{"peers never admit that they do not", rules{answer: func(m *ask.Message) { m.Flags |= ask.Reached }}, "lets go: reached elsewhere"},
		{"the kernel lets through for longer", rules{hold: func(d time.Duration) time.Duration { return d * 5 / 4 }}, " holds, and "},
		{"no margin", rules{config: func(_ int, c *lease.Config) { c.Margin = 1 }}, " holds, and "},
		{"one has a shorter lease and does not see the others'", rules{
			config: func(i int, c *lease.Config) { c.Duration /= time.Duration(1 + i) },
			record: func(r *lease.Record) { r.Duration = 0 },
		}, " holds, and "},
		{"everybody is named", rules{record: func(r *lease.Record) { r.Peers = everybody }}, "takes over, which the record does not name"},
		{"nobody says that it answers now", rules{deaf: true, answer: func(m *ask.Message) { m.Flags &^= ask.Announced }}, "lets go: successor not heard"},
		{"twice the writes", rules{config: func(_ int, c *lease.Config) { c.Renew = c.Duration / 5 }}, "writes in"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := NewWorld()
			for seed := range uint64(sabotaged) {
				if r := w.schedule(seed, test.bent); strings.Contains(r.Broken, test.breach) {
					t.Logf("seed %d: %s", seed, r.Broken)
					return
				}
			}
			t.Errorf("%d schedules did not break %q", sabotaged, test.breach)
		})
	}
}

const sabotaged = 4000

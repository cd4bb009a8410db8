package drill

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
)

// A machine that answers is told of once, one that ceases is dated by its last
// answer, and an answer that is late or lost is neither.
func TestSpells(t *testing.T) {
	t0 := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSpells()
	var told []string
	tell := func(events []record.Event) {
		for _, e := range events {
			told = append(told, e.Kind+" "+e.Keys["node"]+" "+e.At.Sub(t0).String())
		}
	}
	for at := time.Duration(0); at <= 400*time.Millisecond; at += askAddressEvery {
		now := t0.Add(at)
		if at > 210*time.Millisecond && at < 290*time.Millisecond {
			continue // the observer stands still
		}
		tell(s.asked())
		if at < 100*time.Millisecond || at > 130*time.Millisecond && at < 200*time.Millisecond {
			tell(s.heard("a2", now))
		}
		if at >= 180*time.Millisecond {
			tell(s.heard("a3", now))
		}
	}
	want := "answering a2 0s, answering a3 180ms, ceased a2 190ms"
	if got := strings.Join(told, ", "); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if got := strings.Join(s.answering(), ","); got != "a3" {
		t.Errorf("%s answers at the end, want a3", got)
	}
}

func TestNeighbourEvents(t *testing.T) {
	for _, tc := range []struct {
		believes  string
		answering []string
		stale     string
		message   string
	}{
		{"a3", []string{"a3"}, "false", "a1 sends packets for the address to a3"},
		{"a2", []string{"a3"}, "true", "a1 sends packets for the address to a2, which does not answer for it"},
		{"a2", nil, "false", "a1 sends packets for the address to a2"},
		{"", []string{"a3"}, "false", "a1 has no neighbour entry for the address"},
	} {
		ev := neighbourEvent(time.Now(), "a1", tc.believes, tc.answering)
		if ev.Kind != record.KindNeighbour || ev.Keys["stale"] != tc.stale || ev.Message != tc.message {
			t.Errorf("believes %q: %+v", tc.believes, ev)
		}
	}
}

package caller

import (
	"testing"
	"time"
)

var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }

func TestJudge(t *testing.T) {
	var asked []question
	for ms := range 100 {
		q := question{at: at(ms), by: 1}
		switch {
		case ms >= 20 && ms < 45:
			q.by = 0
		case ms >= 45 && ms != 60:
			q.by = 2
		case ms == 60:
			q.by = 0 // one that was lost
		}
		if ms >= 70 && ms < 78 {
			continue // the client did not come to ask
		}
		asked = append(asked, q)
	}
	s := judge(asked, zero)
	if s.Gap != 25*time.Millisecond || s.Lost != 26 || s.Stood != 9*time.Millisecond {
		t.Errorf("gap %s, %d lost, stood %s; want 25ms, 26, 9ms", s.Gap, s.Lost, s.Stood)
	}
	if len(s.Moves) != 2 || s.Moves[1] != (Move{45 * time.Millisecond, 2}) || len(s.By) != 2 {
		t.Errorf("moves %v by %v", s.Moves, s.By)
	}
	// In the midst of an outage the client stands still for 300 ms.
	var slow []question
	for ms := 0; ms < 500; ms++ {
		if ms > 50 && ms < 350 {
			continue
		}
		q := question{at: at(ms), by: 1}
		if ms >= 40 && ms < 360 {
			q.by = 0
		}
		slow = append(slow, q)
	}
	if s := judge(slow, zero); s.Gap != 40*time.Millisecond || s.Lost != 21 || s.Stood != 300*time.Millisecond {
		t.Errorf("gap %s, %d lost, stood %s; want 40ms (10, at most 20 of the 300, and 10), 21, 300ms", s.Gap, s.Lost, s.Stood)
	}
	// An outage that has not ended is one.
	for i := range asked {
		asked[i].by = 0
	}
	if s = judge(asked, zero); s.Gap != 100*time.Millisecond || len(s.Moves) != 0 {
		t.Errorf("without end: gap %s, moves %v", s.Gap, s.Moves)
	}
}

func TestOverlap(t *testing.T) {
	var all []reply
	for ms := 0; ms < 300; ms += 5 {
		if ms <= 100 || ms > 250 {
			all = append(all, reply{at(ms), 1})
		}
		if ms >= 80 {
			all = append(all, reply{at(ms), 2})
		}
	}
	if got := overlap(all, zero); got != 40*time.Millisecond {
		t.Errorf("two at once for %s, want 40ms", got)
	}
	if got := overlap(all[:20], zero); got != 5*time.Millisecond {
		t.Errorf("two at once for %s, want 5ms", got)
	}
	if got := overlap(all[:16], zero); got != 0 {
		t.Errorf("two at once for %s, want none", got)
	}
}

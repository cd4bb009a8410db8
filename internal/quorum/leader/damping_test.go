package leader

import (
	"testing"
	"time"
)

// TestSteadyFlapping: a mover that moves whenever it may does so 30 s after
// the first move, and then ever more slowly, up to one half-life times
// log2((p+1)/p) at the limit: 47.5 s.
func TestSteadyFlapping(t *testing.T) {
	cfg, now := Default(), time.Duration(0)
	var s sighting
	want := []time.Duration{30 * time.Second, 47549 * time.Millisecond, 47549 * time.Millisecond}
	for i, gap := range want {
		s = s.see(Penalty{Seq: uint64(i + 1), Value: s.value(cfg, now) + 1}, now)
		wait := s.wait(cfg, now, cfg.PenaltyLimit)
		if (wait - cfg.MoveWithin - gap).Abs() > 2*time.Millisecond {
			t.Errorf("after move %d: wait %s, want %s", i+1, wait-cfg.MoveWithin, gap)
		}
		now += wait
	}
}

func TestSeedHoldsTwoMinutes(t *testing.T) {
	cfg := Seed()
	s := sighting{}.see(Penalty{Seq: 1, Value: 1}, time.Hour)
	if got, want := s.wait(cfg, time.Hour, cfg.PenaltyLimit), 2*time.Minute+cfg.MoveWithin; got != want {
		t.Errorf("wait %s, want %s", got, want)
	}
	if got := s.wait(cfg, time.Hour+3*time.Minute, cfg.PenaltyLimit); got != 0 {
		t.Errorf("after 3 minutes still %s", got)
	}
}

// TestSeeingAgainDoesNotShorten: the same record read anew keeps its age, an
// older one changes nothing, and a fresh reader starts from the full value.
func TestSeeingAgainDoesNotShorten(t *testing.T) {
	p := Penalty{Seq: 5, Value: 1}
	s := sighting{}.see(p, 10*time.Second)
	s = s.see(p, 20*time.Second).see(Penalty{Seq: 4, Value: 9}, 20*time.Second)
	if s.at != 10*time.Second || s.Penalty != p {
		t.Errorf("got %+v", s)
	}
	if got := (sighting{}).see(p, time.Hour).value(Default(), time.Hour); got != 1 {
		t.Errorf("a fresh reader counts %v, want 1", got)
	}
	if heavier := (Penalty{Seq: 5, Value: 1.4}); s.see(heavier, 30*time.Second).Penalty != heavier {
		t.Error("of two records with one Seq the lighter stayed")
	}
}

func TestFailedTakesBackOnlyItsOwnRecord(t *testing.T) {
	cfg := Default()
	m := Move{Target: idC, Record: Penalty{Seq: 3, Value: 1.2}, Undo: Penalty{Seq: 4, Value: 0.2}}
	st := State{}.Started(0, m).Failed(cfg, time.Second, m, true)
	if st.Record() != m.Undo {
		t.Errorf("record %+v, want the undo", st.Record())
	}
	other := Penalty{Seq: 3, Value: 1.4}
	st = State{penalty: sighting{other, 0}}.Failed(cfg, time.Second, m, false)
	if st.Record() != other {
		t.Errorf("record %+v, want the other's", st.Record())
	}
}

func TestBackoff(t *testing.T) {
	cfg := Default()
	st, now := State{}, time.Duration(0)
	// Doubling from 5 s, and 5 s more than for the others.
	for i, want := range []time.Duration{10, 15, 25, 45, 85, 165, 305, 305} {
		st = st.Failed(cfg, now, Move{Target: idC}, true)
		if got := st.resting(idC) - now; got != want*time.Second {
			t.Errorf("failure %d: rests %s, want %s", i+1, got, want*time.Second)
		}
		if got := st.resting(idD) - now; got != cfg.Backoff {
			t.Errorf("failure %d: the others rest %s, want %s", i+1, got, cfg.Backoff)
		}
		now = st.resting(idC)
	}
	if got := (State{}).Failed(cfg, 0, Move{Target: idC}, false).resting(idD); got != 0 {
		t.Errorf("no attempt was made, yet the others rest %s", got)
	}
}

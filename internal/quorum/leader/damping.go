package leader

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/hysteresis"
)

// Penalty is the damping record of the last move. The mover makes it durable
// where its successor will read it before it moves, never after.
//
// Readers age Value on their own monotonic clock from first sight of Seq, so
// a late reader, a restart or a stepped clock can only lengthen the wait.
type Penalty struct {
	// Seq counts records; the higher one wins.
	Seq uint64
	// Value is the penalty at the moment of the move, that move included.
	Value float64
	From  MemberID
	To    MemberID
	Term  uint64
}

// newer says that p replaces q. Of two records with one Seq the heavier wins:
// waiting too long is the safe side.
func (p Penalty) newer(q Penalty) bool {
	return p.Seq > q.Seq || p.Seq == q.Seq && p.Value > q.Value
}

// sighting is a penalty record and when this agent first saw it.
type sighting struct {
	Penalty
	at time.Duration
}

// see adopts p if it is newer.
func (s sighting) see(p Penalty, now time.Duration) sighting {
	if p.newer(s.Penalty) {
		return sighting{p, now}
	}
	return s
}

// value is the penalty left at now.
func (s sighting) value(cfg Config, now time.Duration) float64 {
	return hysteresis.Decayed(s.Value, now-s.at-cfg.MoveWithin, cfg.PenaltyHalfLife)
}

// wait is how long damping still forbids a move. With Hold set it is a plain
// hold after each move; otherwise the penalty has to fall below the limit:
// 30 s after a first move (1 → 0.5), 47 s after one that came as soon as it
// was allowed (1.5 → 0.5).
func (s sighting) wait(cfg Config, now time.Duration, limit float64) time.Duration {
	if s.Value == 0 {
		return 0
	}
	if cfg.Hold > 0 {
		return max(0, s.at+cfg.MoveWithin+cfg.Hold-now)
	}
	wait := hysteresis.Until(s.value(cfg, now), limit, cfg.PenaltyHalfLife)
	if early := s.at + cfg.MoveWithin - now; early > 0 {
		wait += early
	}
	return wait
}

// failure is a target that did not take leadership.
type failure struct {
	target MemberID
	count  int
	until  time.Duration
}

// backoff is the wait after the count-th failure: it doubles up to the cap.
func backoff(cfg Config, count int) time.Duration {
	wait := cfg.Backoff
	for range count - 1 {
		if wait >= cfg.BackoffMax/2 {
			return cfg.BackoffMax
		}
		wait *= 2
	}
	return wait
}

// Started tells the state that m is being carried out: its record counts from
// now, before any copy of it is read back.
func (st State) Started(now time.Duration, m Move) State {
	st.penalty = st.penalty.see(m.Record, now)
	return st
}

// Failed tells the state that m did not happen. The caller has made sure of
// it: after MoveLeader was called (attempted), the own member has committed a
// write, and says after it that it still leads in m.Term. Its word alone does
// not do: it may have slept through the election of its successor. A committed
// write in the same term proves both that no successor leads and that the
// transfer is over, for a leader takes no proposals during one. Where the
// caller cannot be sure, it keeps the record and does not call Failed.
//
// The target rests for Backoff, doubled with each failure. After an attempt
// every target rests for Backoff, for each attempt stops writes for a second.
func (st State) Failed(cfg Config, now time.Duration, m Move, attempted bool) State {
	if st.penalty.Penalty == m.Record {
		// Without Started the record may never have been stored, and another's
		// may stand under its Seq.
		st.penalty = st.penalty.see(m.Undo, now)
	}
	if attempted {
		st.restUntil = now + cfg.Backoff
	}
	kept := make([]failure, 0, len(st.failures)+1)
	count := 1
	for _, f := range st.failures {
		switch {
		case f.target == m.Target:
			count = f.count + 1
		case now < f.until+cfg.BackoffMax:
			kept = append(kept, f)
		}
	}
	// The target rests longer than the others, so that the next candidate has
	// its turn first.
	until := now + backoff(cfg, count) + cfg.Backoff
	st.failures = append(kept, failure{m.Target, count, until})
	return st
}

// Penalty is the damping penalty left at now.
func (st State) Penalty(cfg Config, now time.Duration) float64 {
	return max(st.penalty.value(cfg, now), st.unrecorded.value(cfg, now))
}

// damped is how long damping still forbids a move that needs a penalty below
// limit.
func (st State) damped(cfg Config, now time.Duration, limit float64) time.Duration {
	return max(st.penalty.wait(cfg, now, limit), st.unrecorded.wait(cfg, now, limit))
}

// Record is the newest penalty record known, as a row repeats it.
func (st State) Record() Penalty { return st.penalty.Penalty }

// resting says until when target may not be tried again.
func (st State) resting(target MemberID) time.Duration {
	until := st.restUntil
	for _, f := range st.failures {
		if f.target == target {
			until = max(until, f.until)
		}
	}
	return until
}

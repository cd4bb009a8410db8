package health

import "time"

// lameDuck is how long a server that was shutting down and now refuses
// connections keeps that grade. kube-apiserver closes its listener first and
// then finishes requests for up to --request-timeout (60 s); nobody sends it
// anything new, and what it still carries would be cut for nothing.
const lameDuck = time.Minute

// tally counts results in a row and turns them into grades.
type tally struct {
	t Timers
	// good and bad are the results in a row that contradict the grade's
	// being unusable or usable.
	good, bad int
	// hint is a sign that counts as one failed probe but never as the last.
	hint bool
	// silent: the row of bad ones began with silence.
	silent bool
	// newOnly: the newest fresh probe failed in a way that kept connections
	// cannot refute. A good one clears it only once the grade is usable, so
	// that each answer of the rise is a fresh one.
	newOnly bool
	// other and same: a row of equal results that differ from the grade but
	// are as usable, or unusable, as it is.
	other Grade
	same  int
	// parting is when the server last said that it shuts down.
	parting time.Duration
	score   int
}

// failure takes a failed probe of a usable server and reports whether it falls.
func (t *tally) failure(silent bool) bool {
	if t.bad == 0 {
		t.silent = silent
	}
	t.bad++
	n := t.bad
	if t.hint {
		n++
	}
	return n >= t.t.Fall
}

// forgive forgets failures.
func (t *tally) forgive() { t.bad, t.hint, t.silent = 0, false, false }

// reset starts all rows anew, after a change of grade.
func (t *tally) reset() {
	t.forgive()
	t.good, t.same = 0, 0
}

// weigh takes a result at now while was is the grade and reports the grade
// that follows from it. silent says that the result is a silence.
func (t *tally) weigh(now time.Duration, was Grade, r Result, silent bool) Grade {
	g := r.Grade
	if r.Fresh && (was.Usable() || !g.Usable()) {
		t.newOnly = r.NewOnly && !g.Usable()
	}
	if t.t.Score {
		return t.weighScore(was, g)
	}
	if g == ShuttingDown {
		t.parting, t.good, t.same = now, 0, 0
		return g
	}
	switch good := g.Usable(); {
	case was == Unknown:
		return g
	case was.Usable() && good:
		return t.drift(was, g)
	case was.Usable():
		if t.failure(silent) {
			return g
		}
	case good:
		return t.rise(was, g, r.Fresh)
	default:
		t.good = 0
		if was == ShuttingDown && g == Refused && now-t.parting < lameDuck {
			return was
		}
		return t.drift(was, g)
	}
	return was
}

// rise takes a good answer of an unusable server.
func (t *tally) rise(was, g Grade, fresh bool) Grade {
	t.same = 0
	if t.cutOff(was) && !fresh {
		return was // a kept connection says nothing about new ones
	}
	t.good++
	if t.good >= t.t.Rise {
		return g
	}
	return was
}

// drift takes a result that changes no usability: it needs a row of its own,
// so that a single 401 or a reset among timeouts is not a transition.
func (t *tally) drift(was, g Grade) Grade {
	if g == was {
		t.same = 0
		return was
	}
	if g != t.other {
		t.other, t.same = g, 0
	}
	t.same++
	need := t.t.Fall
	if g > was && g.Usable() {
		need = t.t.Rise
	}
	if t.same >= need {
		return g
	}
	return was
}

// cutOff says that new connections did not serve while the unusable grade g
// was in force.
func (t *tally) cutOff(g Grade) bool {
	return t.newOnly || g == Unreachable || g == Refused || g == Frozen
}

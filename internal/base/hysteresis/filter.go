package hysteresis

import "time"

// Verdict is what a Filter holds to be true.
type Verdict int8

const (
	// Undecided is the verdict before the first run was complete.
	Undecided Verdict = iota
	// Good means the last complete run was of successes.
	Good
	// Bad means the last complete run was of failures.
	Bad
)

// Filter is a rise/fall filter; set Rise and Fall (at least 1 each) and feed
// it with Observe. The first verdict needs a whole run as well: a lucky probe
// on a link that loses half of them must not make it good.
type Filter struct {
	Fall, Rise int

	verdict Verdict
	since   time.Duration
	run     int // consecutive observations that contradict the verdict
	lastOK  bool
}

// Observe takes one observation made at now and reports whether the verdict
// changed with it.
func (f *Filter) Observe(now time.Duration, ok bool) bool {
	if f.run > 0 && ok != f.lastOK {
		f.run = 0
	}
	f.lastOK = ok
	if f.verdict == verdictOf(ok) {
		f.run = 0
		return false
	}
	f.run++
	if f.run < f.needed(ok) {
		return false
	}
	f.verdict, f.since, f.run = verdictOf(ok), now, 0
	return true
}

func verdictOf(ok bool) Verdict {
	if ok {
		return Good
	}
	return Bad
}

func (f *Filter) needed(ok bool) int {
	if ok {
		return f.Rise
	}
	return f.Fall
}

// Verdict returns the current verdict.
func (f *Filter) Verdict() Verdict { return f.verdict }

// Since is how long the verdict has stood at now; 0 while Undecided.
func (f *Filter) Since(now time.Duration) time.Duration {
	if f.verdict == Undecided {
		return 0
	}
	return now - f.since
}

// Doubt says that the last observations contradict the verdict or that there
// is none yet, but some observations: the moment to look more often.
func (f *Filter) Doubt() bool { return f.run > 0 }

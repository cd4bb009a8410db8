package relay

import "math"

// never is a time that does not come.
const never = math.MaxInt64

// race decides when the next target is asked for, and when a client has waited
// long enough. It knows attempts by number only: dialing ones have not been
// accepted yet, connected ones wait for the target's first byte. Times are
// nanoseconds of one clock.
type race struct {
	stagger, budget, firstByte int64

	// end is when the attempts must have led to a connection.
	end int64
	// askAt is when the next target is to be asked for.
	askAt              int64
	dialing, connected int
}

type verdict int

const (
	wait verdict = iota
	ask
	giveUp
)

// start opens the budget.
func (r *race) start(now int64) {
	r.end = now + r.budget
	r.askAt = now
}

// verdict says what to do now. After ask, one of asked, none and later must
// follow, so that asking ends.
func (r *race) verdict(now int64) verdict {
	switch {
	case r.connected == 0 && now >= r.end:
		return giveUp
	case now >= r.askAt:
		return ask
	}
	return wait
}

// wakeAt is when the verdict changes by time alone.
func (r *race) wakeAt() int64 {
	if r.connected == 0 {
		return min(r.askAt, r.end)
	}
	return r.askAt
}

// idle says that no attempt is under way.
func (r *race) idle() bool { return r.dialing+r.connected == 0 }

// asked: an attempt has begun.
func (r *race) asked(now int64) {
	r.dialing++
	r.askAt = now + r.stagger
}

// later: there is nobody to ask for now; those under way go on.
func (r *race) later(now, after int64) { r.askAt = now + after }

// dialFailed: an attempt was not accepted. The next one begins at once.
func (r *race) dialFailed(now int64) {
	r.dialing--
	r.askAt = now
}

// accepted: an attempt is connected, and the others that dial are given up.
func (r *race) accepted() {
	r.dialing = 0
	r.connected++
	r.askAt = never
}

// greeted: a connected target has been told all that a client says before it
// waits for an answer.
func (r *race) greeted(now int64) { r.askAt = now + r.firstByte }

// lost: a connected target went away before its first byte. Its client has
// waited for this target, so the budget begins anew.
func (r *race) lost(now int64) {
	r.connected--
	r.askAt = now
	r.end = max(r.end, now+r.budget)
}

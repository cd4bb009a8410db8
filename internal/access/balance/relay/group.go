package relay

import (
	"sync/atomic"
	"time"
)

// group is a loop's connections to one target, in no order.
type group struct {
	attempts []*attempt
	// cursor is where the next sample of the sweep begins.
	cursor int
}

// join enters an attempt into its target's group.
func (l *loop) join(a *attempt) {
	g := l.groups[a.target]
	if g == nil {
		g = &group{}
		l.groups[a.target] = g
	}
	a.group, a.place = g, len(g.attempts)
	g.attempts = append(g.attempts, a)
}

// leave closes an attempt and gives its place at the target free.
func (l *loop) leave(a *attempt, reset bool) {
	if a.group == nil {
		return
	}
	l.close(&a.conn, reset)
	g := a.group
	last := len(g.attempts) - 1
	g.attempts[a.place] = g.attempts[last]
	g.attempts[a.place].place = a.place
	g.attempts[last] = nil
	g.attempts = g.attempts[:last]
	a.group = nil
	if a.dialing {
		a.target.connecting.Add(-1)
	} else {
		a.target.active.Add(-1)
	}
	if l.engine.waiting.Load() > 0 {
		l.engine.Wake()
	}
}

// purgeTick is how often a purge closes its next batch.
const purgeTick = 10 * time.Millisecond

// purge closes the connections to a target evenly over a time.
type purge struct {
	attempts []*attempt
	cause    string
	spread   time.Duration
	began    int64
	done     int
	alarm    alarm
}

// dueBy is how many of n must be closed when elapsed of spread has passed: at
// least one batch at once, all at the end.
func dueBy(n int, elapsed, spread time.Duration) int {
	if elapsed+purgeTick >= spread {
		return n
	}
	return int((int64(n)*int64(elapsed+purgeTick) + int64(spread) - 1) / int64(spread))
}

// reset starts a purge on this loop, in random order, so that the clients do
// not come back in the order in which they came.
func (l *loop) reset(t *Target, cause string, spread time.Duration) {
	g := l.groups[t]
	if g == nil || len(g.attempts) == 0 {
		return
	}
	p := &purge{attempts: append([]*attempt(nil), g.attempts...), cause: cause, spread: spread, began: l.now}
	l.random.Shuffle(len(p.attempts), func(i, j int) { p.attempts[i], p.attempts[j] = p.attempts[j], p.attempts[i] })
	p.alarm.fire = func(l *loop) { l.purge(p) }
	l.purge(p)
}

func (l *loop) purge(p *purge) {
	due := dueBy(len(p.attempts), time.Duration(l.now-p.began), p.spread)
	for ; p.done < due; p.done++ {
		p.attempts[p.done].session.purged(p.attempts[p.done], p.cause)
	}
	if p.done < len(p.attempts) {
		l.timers.set(&p.alarm, l.now+int64(purgeTick))
	}
}

// purged takes a target away from a session. A client that no target has
// spoken to yet is given another one.
func (s *session) purged(a *attempt, cause string) {
	switch {
	case a.group == nil: // closed meanwhile
	case s.stage == stageOpen:
		s.note(Event{Kind: Purged, Cause: cause})
		s.end(true)
	case s.stage == stageOpening:
		dialing := a.dialing
		s.abandon(a)
		if dialing {
			s.opening.race.dialFailed(s.loop.now)
		} else {
			s.opening.race.lost(s.loop.now)
		}
		s.advance()
	}
}

// rebalance resets quiet connections to a target while left lasts.
func (l *loop) rebalance(t *Target, left *atomic.Int64) {
	g := l.groups[t]
	if g == nil {
		return
	}
	attempts := append([]*attempt(nil), g.attempts...)
	l.random.Shuffle(len(attempts), func(i, j int) { attempts[i], attempts[j] = attempts[j], attempts[i] })
	for _, a := range attempts {
		s := a.session
		if s.stage != stageOpen || !s.isQuiet(l.now) {
			continue
		}
		if left.Add(-1) < 0 {
			return
		}
		s.purged(a, "rebalance")
	}
}

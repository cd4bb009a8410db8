package slices

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

const (
	// renewBelow is when a holder renews before it writes on.
	renewBelow = 1200 * time.Millisecond
	// standBack is how long an agent leaves shared work to those it concerns, so
	// that not all reach for the Lease at once.
	standBack = 250 * time.Millisecond
	// retryMin and retryMax are between two tries for the Lease.
	retryMin, retryMax = 150 * time.Millisecond, 300 * time.Millisecond
	// mostRounds bounds what is planned anew under one Lease.
	mostRounds = 8
)

// setPending notes whether shared work waits, and since when.
func (a *agent) setPending(is bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !is:
		a.pending = time.Time{}
		return 0
	case a.pending.IsZero():
		a.pending = a.clock()
	}
	return a.clock().Sub(a.pending)
}

// share does what needs the Lease, or comes back later: at once where somebody
// else holds it, and ever later where trying does no good.
func (a *agent) share(ctx context.Context, self *plan.Self, writes []plan.Write) error {
	waited := a.setPending(true)
	if self.Health != plan.Unready && waited < standBack/2 {
		a.wake(standBack/2 + rand.N(standBack/2))
		return nil
	}
	if left := a.restraint.hold(a.clock(), writes); left > 0 {
		a.tellUndone(writes)
		a.wake(left)
		return nil
	}
	held, err := a.acquire(ctx)
	switch {
	case held:
		err = a.transact(ctx, writes)
	case waited > plan.AloneAfter && a.mustWithdraw():
		err = a.withdraw(ctx)
	}
	a.wake(max(a.restraint.left(a.clock(), lockName), retryMin+rand.N(retryMax-retryMin)))
	if err != nil {
		return a.excuse(err)
	}
	return nil
}

// acquire tries for the Lease, unless that was refused of late.
func (a *agent) acquire(ctx context.Context) (bool, error) {
	if a.restraint.left(a.clock(), lockName) > 0 {
		return false, nil
	}
	held, err := a.lock.Acquire(ctx)
	if err != nil {
		least, most := bounds(err)
		a.restraint.note(a.clock(), lockName, least, most, false)
	}
	return held, err
}

// mustWithdraw says that the own endpoint is ready and its apiserver is not, as
// far as the watches have shown.
func (a *agent) mustWithdraw() bool {
	s, self, facts := a.consider()
	cfg := a.config()
	writes := plan.Withdraw(&cfg, &self, &s.view, &facts)
	return len(writes) > 0 && a.restraint.hold(a.clock(), writes) == 0
}

// consider is what is known now, and which endpoints cannot be made unready. It is
// of the loop's goroutine.
func (a *agent) consider() (sight, plan.Self, plan.Facts) {
	s, self, facts := a.look()
	held, left := a.restraint.held(a.clock())
	if len(held) > 0 {
		facts.Held = held
		a.wake(left)
	}
	return s, self, facts
}

// wake has the loop look once more after d, or sooner. It is of the loop's
// goroutine.
func (a *agent) wake(d time.Duration) {
	now := a.clock()
	if at := now.Add(d); !a.retryAt.After(now) || at.Before(a.retryAt) {
		a.retryAt = at
		a.retry.Reset(d)
	}
}

// noteAll has writes wait that came to nothing.
func (a *agent) noteAll(writes []plan.Write, err error) {
	least, most := bounds(err)
	for i := range writes {
		a.restraint.note(a.clock(), keyOf(&writes[i]), least, most, false)
	}
}

// tellUndone states which of writes were done before and are to be done again.
func (a *agent) tellUndone(writes []plan.Write) {
	for i := range writes {
		w := &writes[i]
		if times := a.restraint.undone(keyOf(w)); times > 2 && w.Why != "" {
			a.problems.set(codeWrite, objectOf(w), changedBack(w, times))
		}
	}
}

// transact works under the Lease until nothing is left to do that may be done now.
// writes is what the watches had shown to be necessary.
func (a *agent) transact(ctx context.Context, writes []plan.Write) error {
	defer a.release(ctx)
	for n := range mostRounds {
		planned, tried, err := a.round(ctx)
		switch {
		case err != nil && !conflict(err):
			if !isWrite(err) { // those are noted one by one
				a.noteAll(writes, err)
			}
			return err
		case err == nil && len(planned) == 0:
			if n == 0 {
				// The watches are behind what was read, or somebody was faster.
				a.noteAll(writes, nil)
			}
			a.setPending(false)
			return nil
		case !tried:
			a.tellUndone(planned)
			return nil
		}
	}
	a.noteAll(writes, nil)
	return nil
}

// round reads everything anew, plans and writes: the next one finds out what came
// of it. What was tried a moment ago, and is planned again, waits.
func (a *agent) round(ctx context.Context) (planned []plan.Write, tried bool, err error) {
	within, cancel := a.lock.Context(ctx)
	defer cancel()
	s, err := a.readAnew(within)
	if err != nil {
		return nil, false, err
	}
	_, self, facts := a.consider()
	cfg := a.config()
	planned = plan.Shared(&cfg, &self, &s.view, &facts)
	if len(planned) == 0 || a.restraint.hold(a.clock(), planned) > 0 {
		return planned, false, nil
	}
	return planned, true, a.perform(ctx, &s, planned, a.mayWrite)
}

// readAnew reads everything, and shows the world what the watches have not yet.
func (a *agent) readAnew(ctx context.Context) (sight, error) {
	client, err := a.cluster.Client()
	if err != nil {
		return sight{}, err
	}
	r := reader{world: a.world, client: client}
	return r.read(ctx)
}

// mayWrite sees to it that the Lease is held for as long as a write may take.
func (a *agent) mayWrite(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if until := a.lock.Until(); until.IsZero() || time.Until(until) < renewBelow {
		if err := a.lock.Renew(ctx); err != nil {
			return nil, nil, err
		}
	}
	within, cancel := a.lock.Context(ctx)
	return within, cancel, nil
}

// release gives the Lease back; what it cannot, lapses.
func (a *agent) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = a.lock.Release(ctx)
}

// withdraw takes the own endpoint out without the Lease, whose holder may be dead.
func (a *agent) withdraw(ctx context.Context) error {
	// Else a server that does not answer would be waited for, and the next of the
	// list is better.
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	s, err := a.readAnew(ctx)
	if err != nil {
		return err
	}
	_, self, facts := a.consider()
	cfg := a.config()
	return a.perform(ctx, &s, plan.Withdraw(&cfg, &self, &s.view, &facts))
}

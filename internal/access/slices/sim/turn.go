package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// reply goes on where the agent waited for an answer.
func (w *World) reply(a *agent, r *request) {
	good := r.done && !r.failed && !r.unheard
	switch r.verb {
	case vRenew:
		w.renewed(a, good)
	case vLook:
		w.looked(a, r, good)
	case vTake:
		w.took(a, r, good)
	case vRead:
		w.read(a, r, good)
	case vWrite:
		w.wrote(a, r, good)
	case vReturn:
		w.rest(a, 2*w.shape.Lag) // the watch has yet to bring what was written
	}
}

func (w *World) looked(a *agent, r *request, good bool) {
	now := a.clock(w.now)
	switch {
	case !good:
		w.again(a)
		return
	case r.lock != a.seen:
		a.seen, a.first = r.lock, now
	}
	after := turn
	if w.rules.dawdling {
		after = 3 * turn
	}
	free := r.lock.exists && (r.lock.holder < 0 || now-a.first >= after)
	if !free && r.lock.exists && !w.rules.lawless {
		w.again(a)
		return
	}
	a.phase = taking
	a.until = now + turn - margin
	w.send(a, request{verb: vTake, rev: r.lock.rev})
}

// again looks at the Lease again in a while, or withdraws without it.
func (w *World) again(a *agent) {
	a.until = 0
	if w.now-a.wants >= lonely && w.mustWithdraw(a) {
		a.alone, a.phase = true, reading
		w.send(a, request{verb: vRead})
		return
	}
	w.rest(a, w.between(lookAgain, lookAgain+lookAgain/2))
}

// mustWithdraw says that the own endpoint should go, as far as the watches show,
// and that this need not wait.
func (w *World) mustWithdraw(a *agent) bool {
	w.observe(a)
	facts, _ := w.facts(a)
	withdrawal := plan.Withdraw(&a.cfg, &a.self, &a.view, &facts)
	return len(withdrawal) > 0 && a.restraint.hold(w.now, withdrawal) == 0
}

func (w *World) took(a *agent, r *request, good bool) {
	switch {
	case !good && r.done && r.failed && w.rules.lawless:
	case !good, r.rev == 0: // one that was just made is good for the next turn only
		w.again(a)
		return
	}
	a.mine = r.lock.rev
	a.phase = reading
	w.send(a, request{verb: vRead})
}

func (w *World) read(a *agent, r *request, good bool) {
	if !good {
		if !a.alone {
			w.inVain(a, unanswered)
		}
		w.giveUp(a)
		return
	}
	w.store.view(&r.fresh, &a.view)
	if w.rules.trusting {
		var cached plan.View
		w.store.view(&a.cache, &cached)
		a.view.Leases = cached.Leases
	}
	if w.rules.distort != nil {
		w.rules.distort(w, &a.view)
	}
	facts, _ := w.facts(a)
	writes := w.shared(a, &facts)
	a.rounds++
	switch {
	case a.alone && len(writes) > 0:
	case len(writes) == 0 && !a.alone:
		a.wants = 0
		if a.rounds == 1 {
			w.inVain(a, vain)
		}
		w.giveUp(a)
		return
	case len(writes) == 0, a.restraint.hold(w.now, writes) > 0, !w.mayWrite(a):
		w.giveUp(a)
		return
	case a.rounds > 8:
		w.inVain(a, vain)
		w.giveUp(a)
		return
	}
	based := *r
	a.phase, a.plan, a.fresh = writing, writes, &based
	w.sendNext(a)
}

// mayWrite says that the turn is not over, or that none is needed.
func (w *World) mayWrite(a *agent) bool {
	return a.alone || w.rules.lawless || a.clock(w.now) < a.until
}

// wrote goes on with the plan. A write that found another version ends it, and
// everything is read anew; one without an answer ends the turn.
func (w *World) wrote(a *agent, r *request, good bool) {
	w.tried(a, r, good)
	switch {
	case a.phase == owning && good && len(a.plan) > 0:
		w.sendNext(a)
	case a.phase == owning && good:
		w.rest(a, 2*w.shape.Lag)
	case a.phase == owning:
		w.rest(a, w.between(300*time.Millisecond, 700*time.Millisecond))
	case !w.mayWrite(a), r.refused, !good && !(r.done && r.failed), a.alone && (!good || len(a.plan) == 0):
		w.giveUp(a) // who withdraws alone tries for the Lease before it does more
	case !good, len(a.plan) == 0:
		a.phase = reading
		w.send(a, request{verb: vRead})
	default:
		w.sendNext(a)
	}
}

// tried notes what came of a write. One that found another version is planned
// anew, and nothing of it waits.
func (w *World) tried(a *agent, r *request, good bool) {
	how := written
	switch {
	case r.refused:
		how = refused
	case !good && r.done && r.failed:
		return
	case !good:
		how = unanswered
	}
	a.restraint.note(w.now, &r.write, how, w.between)
	if w.rules.sulking && r.refused {
		a.restraint.find(keyOf(&r.write)).until = forever
	}
}

// inVain notes that what was to be done was not found to be necessary, or not
// read.
func (w *World) inVain(a *agent, how outcome) {
	for i := range a.due {
		a.restraint.note(w.now, &a.due[i], how, w.between)
	}
}

// giveUp ends the turn, and the Lease with it.
func (w *World) giveUp(a *agent) {
	if a.alone || a.clock(w.now) >= a.until {
		w.rest(a, w.between(lookAgain/2, lookAgain))
		return
	}
	a.phase, a.until = returning, 0
	w.send(a, request{verb: vReturn, rev: a.mine})
}

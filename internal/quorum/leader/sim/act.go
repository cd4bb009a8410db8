package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
)

// decide runs the real decision of agent i, and acts on it.
func (w *World) decide(i int) {
	a := &w.agents[i]
	snap := w.arrange(i)
	state, plan := leader.Decide(w.cfg, a.state, snap)
	a.state = state
	if plan.Refused != a.refused {
		a.refused = plan.Refused
		if a.lead == int8(i) && plan.Refused != "" {
			w.trace("agent %s: stays, %s", w.name(i), plan.Refused)
		}
	}
	w.writeBack(i)
	switch {
	case plan.Move != nil && !a.acting:
		w.record(i, *plan.Move, snap)
	case a.acting, plan.Refused == leader.NotLeader, plan.Refused == leader.OwnUnreachable:
	case plan.Refused == leader.NobodyLost:
		w.decideLater(i, time.Second)
	default:
		w.decideLater(i, 200*time.Millisecond)
	}
}

// writeBack stores a record that only agents knew, once the store takes it.
func (w *World) writeBack(i int) {
	if rec := w.agents[i].state.Record(); rec.Seq > w.store.Seq && w.leads(i) && w.members[i].serving && !w.full() && !w.agents[i].acting {
		w.store = rec
	}
}

// record begins a move with what has to come first: its record.
func (w *World) record(i int, move leader.Move, snap leader.Snapshot) {
	a := &w.agents[i]
	a.acting, a.move = true, move
	a.act++
	w.truth.planned(w, i, move, snap)
	w.trace("agent %s: wants %s to lead: %s", w.name(i), w.name(index(move.Target)), move.Reason)
	w.after(w.between(5*time.Millisecond, 150*time.Millisecond), event{kind: evRecorded, a: int8(i), gen: a.act})
}

func (w *World) handleAct(e event, i int) {
	switch e.kind {
	case evRecorded:
		w.recorded(i)
	case evMove:
		w.callMove(i)
	case evMoved:
		w.returned(i)
	}
}

// recorded is the answer to the write of the record.
func (w *World) recorded(i int) {
	a, t := &w.agents[i], index(w.agents[i].move.Target)
	switch full := w.full(); {
	case full && w.agents[t].up && w.handsOn(i, t):
		w.agents[t].see(a.move.Record)
		w.nudge(t)
	case !full && w.leads(i) && w.members[i].serving && w.store.Seq < a.move.Record.Seq:
		w.store = a.move.Record
	default:
		w.giveUp(i, false)
		return
	}
	a.recordAt = w.now
	a.state = a.state.Started(a.clock(w), a.move)
	w.spread(i, a.move.Record)
	w.after(w.between(0, 300*time.Millisecond), event{kind: evMove, a: int8(i), gen: a.act})
}

// spread lets every agent that watches etcd see a record.
func (w *World) spread(i int, p leader.Penalty) {
	w.records = append(w.records, p)
	x := int32(len(w.records) - 1)
	for j := range w.n {
		if j != i && w.agents[j].up && w.storeTo(j) {
			w.after(w.between(10*time.Millisecond, 250*time.Millisecond), event{kind: evSeeRecord, a: int8(j), x: x})
		}
	}
}

// giveUp ends a move that certainly did not happen.
func (w *World) giveUp(i int, attempted bool) {
	a := &w.agents[i]
	a.acting = false
	a.act++
	stored := a.state.Record() == a.move.Record
	a.state = a.state.Failed(w.cfg, a.clock(w), a.move, attempted)
	w.trace("agent %s: the move to %s failed", w.name(i), w.name(index(a.move.Target)))
	if stored && w.leads(i) && w.members[i].serving && !w.full() && w.store == a.move.Record {
		w.store = a.move.Undo
		w.spread(i, a.move.Undo)
	}
	w.nudge(i)
}

// callMove looks once more at the own member and the target, then calls
// MoveLeader.
func (w *World) callMove(i int) {
	a, t := &w.agents[i], index(w.agents[i].move.Target)
	m, o := &w.members[i], &w.members[t]
	current := w.runs(i) && m.serving && m.leading && m.term == a.move.Term
	answers := w.opens(i, t) && w.runs(t) && o.serving && o.voter && !o.alarm && o.lead == int8(i) && o.term == m.term
	if answers && w.handsOn(i, t) && !w.shape.NoMesh {
		w.receive(i, w.writeRow(t))
	}
	if !current || !answers || w.now-a.recordAt > w.shape.Config.MoveWithin ||
		leader.Confirm(w.cfg, a.state, w.arrange(i), a.move) != "" {
		w.giveUp(i, false)
		return
	}
	m.movedAt = w.now
	w.truth.called(w, i, t)
	w.trace("agent %s: MoveLeader to %s", w.name(i), w.name(t))
	done := callDeadline
	if w.works(i, t) && o.synced {
		m.moving = true
		delay := w.between(5*time.Millisecond, 200*time.Millisecond)
		w.after(delay, event{kind: evTransfer, a: int8(i), b: int8(t), gen: uint32(m.term)})
		done = delay + 100*time.Millisecond
	}
	w.after(done, event{kind: evMoved, a: int8(i), gen: a.act})
}

// returned is the end of the call. That the own member still says it leads
// proves nothing: it may have slept through its successor's election. A write
// that it then commits in the same term does, for a leader takes no proposals
// while it waits for a transferee.
func (w *World) returned(i int) {
	a, m := &w.agents[i], &w.members[i]
	if !m.leading || m.term != a.move.Term {
		a.acting = false
		w.poll(i)
		return
	}
	if m.moving || !w.leads(i) || w.now-m.movedAt < electionTimeout {
		w.after(electionTimeout, event{kind: evMoved, a: int8(i), gen: a.act})
		return
	}
	w.giveUp(i, true)
}

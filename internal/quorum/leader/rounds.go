package leader

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// round is one pass: observe, decide, act.
func (a *Agent) round(ctx context.Context) {
	a.cond.set(condClock, a.steps.check(time.Now()), "the wall clock was stepped; no decision depends on it, but certificates and the leases of others do")
	a.readDecision(ctx)
	a.forget()
	snap := a.snapshot()
	a.mu.Lock()
	before := a.plan
	state, plan := Decide(a.cfg, a.state, snap)
	a.state, a.plan, a.snap, a.rounded = state, plan, snap, a.clock()
	a.mu.Unlock()
	a.tell(before, plan, snap)
	switch {
	case plan.Move != nil && !a.settings.DryRun:
		a.carryOut(ctx, *plan.Move)
		a.loops.decide.Nudge()
	case plan.Wait > 0 && plan.Wait < decideEvery:
		time.AfterFunc(plan.Wait, a.loops.decide.Nudge)
	}
}

// hungAfter is beyond the longest round: a move of 5 s with its checks and
// its taking back.
const hungAfter = 30 * time.Second

// watchLoop reports whether rounds still happen, for /healthz.
func (a *Agent) watchLoop(ctx context.Context, report func(error)) {
	for pause(ctx, time.Second) {
		a.mu.Lock()
		since := a.clock() - a.rounded
		a.mu.Unlock()
		if since > hungAfter {
			report(fmt.Errorf("no round for %s", short(since)))
		} else {
			report(nil)
		}
	}
}

// forget drops rows and connections of members that are gone.
func (a *Agent) forget() {
	peers, stood := a.obs.membership()
	if stood > membersEvery {
		return
	}
	members, urls := map[MemberID]bool{}, map[string]bool{}
	for _, p := range peers {
		members[MemberID(p.ID)] = true
		for _, url := range p.ClientURLs {
			urls[url] = true
		}
	}
	urls[a.settings.Etcd.Endpoints[0]] = true
	a.registry.keep(members)
	a.store.keep(urls)
}

// readDecision reads the record of the last move as soon as the own member
// leads in a new term: nothing moves before.
func (a *Agent) readDecision(ctx context.Context) {
	own := a.obs.current()
	if !own.Reachable || own.Leader != own.Member || own.Member == 0 {
		a.cond.set(condDecision, nil, "") // the agent beside the leader reads it
		return
	}
	if a.record.known(own.Term) {
		return
	}
	one, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	p, err := a.record.read(one, a.store, a.settings.Etcd.Endpoints[0], own.Term)
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, errNonsense) {
		a.cond.set(condDecision, err, "the record of the last move cannot be understood")
		p = Penalty{Seq: a.registry.newest().Seq, Value: maxPenalty}
	} else {
		a.cond.set(condDecision, err, "the record of the last move cannot be read; nothing is moved until it can")
	}
	a.registry.heardPenalty(p)
}

// snapshot is the world as this agent sees it now.
func (a *Agent) snapshot() Snapshot {
	own := a.ownRow()
	peers, stood := a.obs.membership()
	a.mu.Lock()
	quiet, slow := time.Duration(0), a.slow.length()
	now := a.clock()
	switch {
	case a.unmeasured:
		quiet = maxAge // a return waits for everything else, and the condition says so
	case a.quiet > 0:
		quiet = now - a.quiet
	}
	a.mu.Unlock()
	names := map[MemberID]string{}
	all := voters(peers)
	for _, v := range all {
		names[v.ID] = v.Name
	}
	own.Name = names[own.Member]
	return Snapshot{
		Now: now, Self: own.Member, Own: own, Rows: a.registry.at(now), Voters: all, VotersChanged: stood,
		Penalty: a.registry.newest(), PenaltyKnown: a.record.known(own.Term), QuietFor: quiet, SlowFor: slow,
		Unrecorded: a.obs.unrecorded(),
	}
}

// tell logs and counts a plan that differs from the one before.
func (a *Agent) tell(before, plan Plan, snap Snapshot) {
	a.stats.observe(a, snap, plan)
	if before.Refused == plan.Refused && before.Target == plan.Target && (before.Move == nil) == (plan.Move == nil) {
		return
	}
	a.stats.planned(plan)
	attrs := []any{keyCode, string(plan.Refused), keyTerm, snap.Own.Term}
	if plan.Target != 0 {
		attrs = append(attrs, "target", a.name(snap, plan.Target))
	}
	switch {
	case plan.Move != nil && a.settings.DryRun:
		a.log.Info("would move leadership (dry run)", keyFrom, a.name(snap, snap.Self), keyTo, a.name(snap, plan.Target), keyReason, plan.Move.Reason)
	case plan.Refused == NotLeader || plan.Refused == NobodyLost || plan.Move != nil:
		a.log.Debug("plan changed", attrs...)
	default:
		a.log.Info("leadership stays for now", attrs...)
	}
}

// carryOut moves leadership and takes in what came of it.
func (a *Agent) carryOut(ctx context.Context, move Move) {
	snap := a.snapshot()
	from, to := a.name(snap, snap.Self), a.name(snap, move.Target)
	a.log.Info("moving leadership", keyFrom, from, keyTo, to, keyTerm, move.Term, keyReason, move.Reason)
	m := &mover{
		own: a.own, ownURL: a.settings.Etcd.Endpoints[0], store: a.store, obs: a.obs,
		metrics: a.load, cfg: a.cfg, record: a.record,
		recorded: a.started, confirm: a.confirm,
	}
	r := m.move(ctx, move)
	if r.err == nil {
		a.stats.moved("ok")
		a.log.Info("leadership moved", keyFrom, from, keyTo, to, keyTook, ms(r.took), keyReason, move.Reason)
		a.obs.poll(ctx) // the next round must not see the old leader
		return
	}
	if ctx.Err() != nil {
		return
	}
	a.stats.moved("failed")
	a.log.Warn("move failed", keyFrom, from, keyTo, to, keyError, r.err.Error(), "attempted", r.attempted)
	a.takeBack(ctx, m, move, r)
}

// started takes in that the record of a move is durable: damping counts from now.
func (a *Agent) started(move Move) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = a.state.Started(a.clock(), move)
}

// confirm decides once more on what is known by now, with the own status read
// anew.
func (a *Agent) confirm(ctx context.Context, move Move) error {
	a.obs.poll(ctx)
	snap := a.snapshot()
	a.mu.Lock()
	defer a.mu.Unlock()
	if refusal := Confirm(a.cfg, a.state, snap, move); refusal != "" {
		return fmt.Errorf("no longer called for: %s", refusal)
	}
	return nil
}

// takeBack undoes the record of a move that certainly did not happen. After a
// call of MoveLeader that is proven by writing the record once more and being
// the leader of the same term afterwards: a leader takes no proposals during a
// transfer, so the transfer is over, and who follows another by then knows it.
// The record itself is written, for a follower's write is carried to the new
// leader and commits there. Where any of it fails the record stays, for
// waiting too long is the safe side.
func (a *Agent) takeBack(ctx context.Context, m *mover, move Move, r moveResult) {
	if errors.Is(r.err, errOvertaken) {
		return // the target is not to blame; the record is read again at once
	}
	if r.attempted && (!pause(ctx, settleAfterFail) || !a.rewrite(ctx, m, move.Record)) {
		return
	}
	if _, err := m.stillLeads(ctx, move); err != nil {
		return
	}
	if r.recorded && !a.rewrite(ctx, m, move.Undo) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = a.state.Failed(a.cfg, a.clock(), move, r.attempted)
}

// rewrite writes the record of a failed move, and reports whether it is durable.
func (a *Agent) rewrite(ctx context.Context, m *mover, p Penalty) bool {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := m.record.write(ctx, m.store, m.ownURL, p)
	if err != nil {
		a.log.Warn("the record of the failed move stays, and damps the next", keyError, err.Error())
	}
	return err == nil
}

func (a *Agent) name(snap Snapshot, id MemberID) string {
	for _, v := range snap.Voters {
		if v.ID == id && v.Name != "" {
			return v.Name
		}
	}
	return id.String()
}

// stepWatch notices steps of the wall clock by comparing it with the
// monotonic one.
type stepWatch struct {
	wall time.Time // without monotonic reading
	mono time.Time
	said time.Time
}

// stepLeast is a difference no slewing makes within a round.
const stepLeast = 5 * time.Second

func newStepWatch() *stepWatch {
	now := time.Now()
	return &stepWatch{wall: now.Round(0), mono: now}
}

// check returns an error for a minute after a step.
func (s *stepWatch) check(now time.Time) error {
	step := now.Round(0).Sub(s.wall) - now.Sub(s.mono)
	s.wall, s.mono = now.Round(0), now
	if step.Abs() >= stepLeast {
		s.said = now
		return fmt.Errorf("by %s; check that time synchronisation slews instead", step.Round(time.Second))
	}
	if !s.said.IsZero() && now.Sub(s.said) < time.Minute {
		return fmt.Errorf("within the last minute")
	}
	return nil
}

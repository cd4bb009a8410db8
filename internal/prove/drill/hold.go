package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/judge"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// baselineTries is how often an unclean baseline is tried: a shared machine
// may hiccup once, twice is a sign.
const baselineTries = 2

// baseline watches the unbroken cluster and says whether it was steady.
func (e *engine) baseline(ctx context.Context) bool {
	var doubts []string
	for range baselineTries {
		from := e.markBaseline()
		err := e.phase(ctx, "baseline", e.c.Phases.Baseline, func(ctx context.Context) error {
			return e.clock.pause(ctx, from.Add(e.c.Phases.Baseline))
		})
		if err != nil {
			e.trouble("interrupted during the baseline")
			return false
		}
		doubts = judge.Unsteady(e.c, e.since(), from, e.clock.now())
		if reason := e.astray(); reason != "" {
			doubts = append(doubts, reason)
			if err := e.forceLeaders(ctx); err != nil {
				doubts = append(doubts, err.Error())
			}
		}
		if len(doubts) == 0 {
			return true
		}
		e.log.Warn("baseline not clean", "first", doubts[0], "count", len(doubts))
	}
	for _, d := range doubts {
		e.trouble("%s", d)
	}
	return false
}

// hold injects the timetable and keeps it in force. The error is not nil when
// the hold ended early.
func (e *engine) hold(ctx context.Context) error {
	table := timetable(e.c.Faults, e.c.Phases.Hold)
	e.show.phase("inject", 0)
	err := e.perform(ctx, table[0])
	e.splitInjection()
	if err != nil {
		e.trouble("%v", err)
		return err
	}
	return e.phase(ctx, "hold", e.c.Phases.Hold, func(ctx context.Context) error {
		for _, a := range table[1:] {
			if err := e.clock.pause(ctx, e.run.Injected.Add(a.at)); err != nil {
				return e.interrupted(err)
			}
			if err := e.perform(ctx, a); err != nil {
				e.trouble("%v", err)
				return err
			}
		}
		return e.interrupted(e.clock.pause(ctx, e.run.Injected.Add(e.c.Phases.Hold)))
	})
}

// splitInjection tells the phase in which the first fault was applied from the
// one in which it was measured.
func (e *engine) splitInjection() {
	applied, end := e.clock.now(), e.clock.now()
	for _, c := range e.lab.Cuts() {
		if at := e.clock.at(c.Since); at.Before(applied) {
			applied = at
		}
	}
	e.run.Phases = append(e.run.Phases,
		record.Phase{Name: "inject", From: e.run.Injected, To: applied},
		record.Phase{Name: "verify", From: applied, To: end})
}

func (e *engine) interrupted(err error) error {
	if err != nil {
		e.trouble("interrupted while the fault was in force")
	}
	return err
}

func (e *engine) perform(ctx context.Context, a action) error {
	if a.undo {
		return e.undo(ctx, a)
	}
	return e.inject(ctx, a)
}

// inject journals the fault, applies it and has it measured.
func (e *engine) inject(ctx context.Context, a action) error {
	if err := e.w.Journal(e.clock.now(), "inject "+a.name()+": "+a.detail()); err != nil {
		return err
	}
	links, sites := a.struck(e.c)
	e.markInjection()
	e.run.Faults = append(e.run.Faults, record.Fault{
		Name: a.name(), Kind: a.kind(), Detail: a.detail(), From: e.clock.now(), Links: links, Sites: sites,
	})
	fault := &e.run.Faults[len(e.run.Faults)-1]
	if err := e.strike(ctx, a); err != nil {
		return fmt.Errorf("inject %s: %w", a.name(), err)
	}
	if len(a.cuts()) > 0 {
		if err := e.lab.Cut(ctx, a.cuts()...); err != nil {
			if errors.Is(err, lab.ErrNotInForce) {
				return fmt.Errorf("fault %s is not in force: %w", a.name(), err)
			}
			return fmt.Errorf("inject %s: %w", a.name(), err)
		}
	}
	if err := e.slowDown(ctx, a.step); err != nil {
		return fmt.Errorf("inject %s: %w", a.name(), err)
	}
	if err := e.powerOff(ctx, a.step.Off); err != nil {
		return fmt.Errorf("inject %s: %w", a.name(), err)
	}
	if err := e.slowDisks(ctx, a.step); err != nil {
		return fmt.Errorf("inject %s: %w", a.name(), err)
	}
	fault.Verified = true
	return nil
}

// powerOff kills what runs on nodes that are cut off already: nobody hears their
// processes end.
func (e *engine) powerOff(ctx context.Context, nodes []string) error {
	for _, node := range nodes {
		if e.powered(node) {
			continue // see blackout
		}
		for _, p := range e.c.ProcessesOn(node) {
			if p.Agent && !slices.Contains(e.agentProcesses(), p) {
				continue
			}
			if err := e.kill(ctx, p); err != nil {
				return fmt.Errorf("power off %s: %s: %w", node, p, err)
			}
		}
	}
	return nil
}

// markInjection makes this moment the origin of time, once. It comes after the
// journal is on disk, which takes milliseconds: a request sent meanwhile
// belongs to the unbroken cluster.
func (e *engine) markInjection() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run.Injected.IsZero() {
		e.run.Injected = e.clock.now()
	}
}

// strike hits the processes of a step. It comes before the cuts: a process
// dies at once, a cut takes a measurement to return. Each process is looked at
// afterwards, for a signal that was sent is not yet one that was felt.
func (e *engine) strike(ctx context.Context, a action) error {
	if err := e.blackout(ctx, a.step.Off); err != nil {
		return err
	}
	if err := e.claims(ctx, a.step); err != nil {
		return err
	}
	for _, t := range a.step.Kill {
		if err := e.each(t, func(p scenario.Process) error { return e.kill(ctx, p) }); err != nil {
			return err
		}
	}
	for _, t := range a.step.Stop {
		if err := e.each(t, func(p scenario.Process) error { return e.stop(ctx, p) }); err != nil {
			return err
		}
	}
	for _, t := range a.step.Pause {
		if err := e.each(t, func(p scenario.Process) error { return e.pause(ctx, p) }); err != nil {
			return err
		}
	}
	for _, t := range a.step.Release {
		if err := e.each(t, func(p scenario.Process) error { return e.release(ctx, p) }); err != nil {
			return err
		}
	}
	for _, node := range a.step.Drain {
		if err := e.drain(ctx, node); err != nil {
			return err
		}
	}
	if err := e.strikePods(ctx, a.step); err != nil {
		return err
	}
	return e.detach(ctx, a.step.Unready)
}

// detach takes apiservers from their etcd, all at once, and measures that their
// /readyz says so.
func (e *engine) detach(ctx context.Context, targets []string) error {
	for _, do := range []func(*lab.APIServer) error{
		func(a *lab.APIServer) error { return a.Detach(ctx) },
		func(a *lab.APIServer) error { return a.AwaitUnready(ctx) },
	} {
		for _, t := range targets {
			if err := e.each(t, func(p scenario.Process) error { return do(e.apiservers[p.Site]) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// each applies f to every process that target names; agents only in a run that
// has them.
func (e *engine) each(target string, f func(scenario.Process) error) error {
	procs, err := e.c.Resolve(target)
	if err != nil {
		return err
	}
	for _, p := range procs {
		if p.Agent && !slices.Contains(e.agentProcesses(), p) {
			continue
		}
		if err := f(p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// undo takes one fault back.
func (e *engine) undo(ctx context.Context, a action) error {
	if err := e.w.Journal(e.clock.now(), "undo "+a.name()); err != nil {
		return err
	}
	now := e.clock.now()
	for i := range e.run.Faults {
		if f := &e.run.Faults[i]; f.Name == a.name() && f.To.IsZero() {
			f.To = now
		}
	}
	if err := e.forget(a.step.Off); err != nil {
		return fmt.Errorf("undo %s: %w", a.name(), err)
	}
	if cuts := a.cuts(); len(cuts) > 0 {
		names := make([]string, len(cuts))
		for i, c := range cuts {
			names[i] = c.Name
		}
		if err := e.lab.Heal(ctx, names...); err != nil {
			return fmt.Errorf("heal %s: %w", a.name(), err)
		}
	}
	if err := e.quicken(ctx, a.step); err != nil {
		return fmt.Errorf("heal %s: %w", a.name(), err)
	}
	return e.revive(ctx, a.step)
}

// revive starts or continues the processes of a step: members, then the
// apiservers that need them, then agents.
func (e *engine) revive(ctx context.Context, s scenario.Step) error {
	if err := e.unclaims(ctx, s); err != nil {
		return err
	}
	for _, node := range s.Drain {
		if err := e.uncordon(ctx, node); err != nil {
			return err
		}
	}
	if err := e.revivePods(ctx, s); err != nil {
		return err
	}
	for _, t := range s.Unready {
		if err := e.each(t, func(p scenario.Process) error { return e.apiservers[p.Site].Attach(ctx) }); err != nil {
			return err
		}
	}
	if err := e.cureDisks(ctx, s); err != nil {
		return err
	}
	for _, t := range s.Pause {
		if err := e.each(t, e.resume); err != nil {
			return err
		}
	}
	ended := slices.Concat(s.Kill, s.Stop, s.Off)
	if !e.agents {
		ended = append(ended, s.Release...)
	}
	for _, rank := range []int{0, 1, 2} {
		if err := e.startAll(ctx, ended, rank); err != nil {
			return err
		}
	}
	return nil
}

// startAll starts the processes of one rank. Members are launched together and
// waited for then: the first of three knows no leader before the second runs.
func (e *engine) startAll(ctx context.Context, targets []string, rank int) error {
	var members []*lab.Member
	for _, t := range targets {
		err := e.each(t, func(p scenario.Process) error {
			switch {
			case startRank(p) != rank, e.ofPair(p):
				return nil
			case rank == 0 && e.forced():
				return e.force(ctx, p)
			case rank == 0 && e.c.HasPair():
				return e.members[p].Launch(ctx) // one of two has no leader
			case rank == 0:
				members = append(members, e.members[p])
				return e.members[p].Launch(ctx)
			}
			return e.start(ctx, p)
		})
		if err != nil {
			return err
		}
	}
	for _, m := range members {
		if err := m.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startRank is the order in which processes start.
func startRank(p scenario.Process) int {
	switch {
	case p.Agent:
		return 2
	case p.IsAPIServer():
		return 1
	}
	return 0
}

func (e *engine) start(ctx context.Context, p scenario.Process) error {
	if p.Agent {
		return e.startAgent(ctx, p)
	}
	if e.serverOf(p).Child() != nil {
		return nil
	}
	return e.serverOf(p).Start(ctx)
}

// healWithin bounds the heal; apiservers start within seconds, one by one.
const healWithin = time.Minute

// heal undoes whatever is still in force. It runs even after an interrupt.
func (e *engine) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healWithin)
	defer cancel()
	e.keepStatus(ctx)
	e.noteNeighbours(ctx)
	e.run.Healed = e.clock.now()
	var errs []error
	for _, a := range timetable(e.c.Faults, e.c.Phases.Hold) {
		if !a.undo && e.inForce(a) {
			errs = append(errs, e.undo(ctx, a))
		}
	}
	return errors.Join(errs...)
}

func (e *engine) inForce(a action) bool {
	for _, f := range e.run.Faults {
		if f.Name == a.name() && f.To.IsZero() {
			return true
		}
	}
	return false
}

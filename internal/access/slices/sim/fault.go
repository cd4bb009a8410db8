package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// Action is what a Fault does.
type Action uint8

const (
	Kill       Action = iota // the apiserver of A ends at once
	Stop                     // in an orderly way
	Start                    // it starts; P decides if with its own reconciler: > 0 yes, < 0 no, 0 as before
	Hang                     // it answers nobody
	Resume                   // it does again
	Isolate                  // the machine of A is cut from all others
	Rejoin                   // it is not any more
	Fail                     // the machine goes down with everything on it
	Recover                  // it comes up again
	KillAgent                // the agent ends at once
	StartAgent               // it starts
	Pause                    // the agent stands still for For
	CutAPI                   // the agent reaches no apiserver
	HealAPI                  // it does again
	Freeze                   // what its watches bring stands still for For
	Refuse                   // the API refuses writes of the agent for For: P 0 any, 1 to its own slices, 2 to others', 3 to all else
	Relabel                  // the Node of A gets zone Zone
	Populate                 // the zone Zone gets a node that is no control plane, P > 0, or loses them
	Tamper                   // somebody puts a hand in our objects of A, in the way of P
	Collect                  // the identity Lease of an apiserver that is gone is deleted
	Part                     // the node of A and the apiserver of node P do not reach each other, nor the other way round, for For
)

var actionNames = [...]string{
	"kill", "stop", "start", "hang", "resume", "isolate", "rejoin", "fail", "recover", "kill-agent", "start-agent", "pause",
	"cut-api", "heal-api", "freeze", "refuse", "relabel", "populate", "tamper", "collect", "part",
}

func (a Action) String() string { return actionNames[a] }

// Fault is something done to the world.
type Fault struct {
	Do   Action
	A    int
	For  time.Duration
	Zone string
	P    int
}

// Inject does f after d.
func (w *World) Inject(d time.Duration, f Fault) {
	w.faults = append(w.faults, f)
	w.after(d, event{kind: evFault, x: int32(len(w.faults) - 1)})
}

// apply does f now.
func (w *World) apply(f Fault) {
	w.traceFault(f)
	switch {
	case f.Do <= Resume:
		w.applyServer(f)
	case f.Do <= Recover:
		w.applyMachine(f)
	case f.Do <= Refuse:
		w.applyAgent(f)
	case f.Do <= Populate:
		w.applyNodes(f)
	case f.Do == Tamper:
		w.tamper(f)
	case f.Do == Part:
		w.part(f.A, f.P, f.For)
	case !w.ready(f.A):
		w.store.drop(firstIdentity + object(f.A))
		w.spread()
	}
	w.refresh()
}

func (w *World) applyServer(f Fault) {
	m := &w.machines[f.A]
	switch f.Do {
	case Kill, Stop:
		w.stopServing(f.A, f.Do == Stop)
	case Start:
		m.serving, m.hung = m.up, false
		if f.P != 0 {
			m.reconciles = f.P > 0
		}
	case Hang, Resume:
		m.hung = f.Do == Hang
	}
}

func (w *World) applyMachine(f Fault) {
	m := &w.machines[f.A]
	switch f.Do {
	case Isolate, Rejoin:
		m.isolated = f.Do == Isolate
	case Fail:
		m.up = false
		w.stopServing(f.A, false)
		w.endAgent(f.A)
	case Recover:
		if !m.up {
			m.up, m.serving = true, true
			w.bootAgent(f.A, w.between(0, 5*time.Second))
		}
	}
}

func (w *World) applyAgent(f Fault) {
	a := &w.agents[f.A]
	switch f.Do {
	case KillAgent:
		w.endAgent(f.A)
	case StartAgent:
		if w.machines[f.A].up && !a.up {
			w.bootAgent(f.A, 0)
		}
	case Pause:
		a.stopped = max(a.stopped, w.now+f.For)
	case CutAPI, HealAPI:
		a.cut = f.Do == CutAPI
		if a.cut {
			w.expect(a)
		}
	case Freeze:
		a.frozen = max(a.frozen, w.now+f.For)
	case Refuse:
		a.refused, a.refusal = w.now+f.For, f.P
	}
}

func (w *World) applyNodes(f Fault) {
	w.judge.moved = w.now
	if f.Do == Populate {
		w.workers[f.Zone] = f.P
	} else {
		w.machines[f.A].zone = f.Zone
		a := &w.agents[f.A]
		w.after(w.between(0, 2*time.Second), event{kind: evZone, a: int8(f.A), life: a.life})
	}
	w.putNodes()
}

// tamper is what people and other programs do to our objects.
func (w *World) tamper(f Fault) {
	w.judge.tampered = w.now
	o := firstSlice + object(f.A*families)
	if w.shape.Dual && f.P%2 == 1 {
		o++
	}
	s := w.store.slice(o)
	switch {
	case f.P < 12 && s != nil:
		w.tamperSlice(o, *s, f.P/2)
	case f.P == 12 && w.store.kubernetes() != nil:
		w.store.drop(objCombined)
	case f.P == 13 && w.store.kubernetes() != nil:
		c := *w.store.kubernetes()
		c.Members = nil
		w.store.putCombined(c)
	case f.P == 14:
		w.store.lock = record{holder: -1}
	case f.P == 15:
		w.store.drop(firstAgent + object(f.A))
	case f.P == 16:
		w.store.drop(objEndpoints)
	case f.P == 17:
		w.store.putEndpoints(plan.Endpoints{Odd: true})
	}
	w.spread()
}

func (w *World) tamperSlice(o object, s plan.Slice, how int) {
	switch how {
	case 0, 1:
		w.store.drop(o)
		return
	case 2:
		s.Ready = !s.Ready
	case 3:
		s.Hints = nil
	case 4:
		s.Zone, s.Hints = "", nil
	case 5:
		s.Odd, s.Address = true, ""
	}
	w.store.putSlice(o, s)
}

func (w *World) traceFault(f Fault) {
	if w.Trace == nil {
		return
	}
	line := "· " + f.Do.String()
	if f.Do != Populate {
		line += " " + name(f.A)
	}
	if f.Zone != "" {
		line += " " + f.Zone
	}
	if f.P != 0 {
		line += fmt.Sprintf(" (%d)", f.P)
	}
	if f.For > 0 {
		line += " for " + f.For.String()
	}
	w.trace("%s", line)
}

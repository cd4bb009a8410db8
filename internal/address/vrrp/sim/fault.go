package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// Action is a kind of fault.
type Action uint8

// What can happen, in the words of the transcripts. A and B are nodes.
const (
	Cut     Action = iota // nothing passes between A and B, either way
	CutOne                // nothing passes from A to B
	Lossy                 // adverts between A and B are lost with chance P
	Slow                  // adverts between A and B take For longer
	Heal                  // the links between A and B are well
	Isolate               // A is cut from all
	Rejoin                // A's links are well
	Kill                  // A's process is gone at once
	Start                 // A has a process, if it had none
	Freeze                // A's process is stopped
	Thaw                  // and goes on
	Suspend               // A's machine stands still, its clock goes on
	Resume                // and goes on
	Stop                  // A's process is asked to exit
	Release               // A's process is asked to hand over
	Sicken                // A's health check fails
	Cure                  // and succeeds
	Weight                // A's priority becomes P
)

var actionNames = [...]string{
	"cut", "cutone", "lossy", "slow", "heal", "isolate", "rejoin", "kill", "start", "freeze", "thaw",
	"suspend", "resume", "stop", "release", "sicken", "cure", "weight",
}

// Fault is something that is done to the world.
type Fault struct {
	Do   Action
	A, B int
	// Plane is the link it happens on, -1 for all of them.
	Plane int
	P     float64
	For   time.Duration
}

// Inject lets a fault happen after so much time.
func (w *World) Inject(after time.Duration, f Fault) {
	w.faults = append(w.faults, f)
	w.queue.push(event{at: w.now + after, kind: evFault, x: int32(len(w.faults) - 1)})
}

func (w *World) apply(f Fault) {
	if w.Trace != nil {
		w.tracef("· %s %s", actionNames[f.Do], w.names(f))
	}
	w.truth.Faults++
	if f.Do <= Rejoin {
		w.rewire(f)
	} else {
		w.afflict(f)
	}
	w.judge()
}

func (w *World) names(f Fault) string {
	if f.Do <= Heal {
		return w.name(f.A) + "-" + w.name(f.B)
	}
	return w.name(f.A)
}

// rewire changes links.
func (w *World) rewire(f Fault) {
	w.truth.disruptions++
	for plane := range w.shape.Planes {
		if f.Plane >= 0 && plane != f.Plane {
			continue
		}
		for i := range w.n {
			for j := range w.n {
				if w.touches(f, i, j) {
					w.change(&w.links[plane][i][j], f)
				}
			}
		}
	}
}

// touches says whether a fault is about the way from i to j.
func (w *World) touches(f Fault, i, j int) bool {
	switch {
	case i == j:
		return false
	case f.Do == Isolate || f.Do == Rejoin:
		return i == f.A || j == f.A
	case f.Do == CutOne:
		return i == f.A && j == f.B
	}
	return i == f.A && j == f.B || i == f.B && j == f.A
}

func (w *World) change(l *link, f Fault) {
	switch f.Do {
	case Cut, CutOne, Isolate:
		l.cut = true
	case Lossy:
		l.loss = f.P
	case Slow:
		l.slow = f.For
	case Heal, Rejoin:
		l.cut, l.loss, l.slow = false, 0, 0
	}
	w.soil(l)
}

// afflict changes a node.
func (w *World) afflict(f Fault) {
	n := &w.nodes[f.A]
	switch f.Do {
	case Kill, Freeze, Suspend:
		w.strike(f)
	case Start:
		if !n.alive && !n.suspended {
			w.truth.disruptions++
			w.start(f.A)
		}
	case Thaw:
		if n.frozen {
			n.frozen = false
			w.awaken(f.A)
		}
	case Resume:
		if n.suspended {
			n.suspended = false
			w.awaken(f.A)
		}
	default:
		// What a process is told, it is told only while it runs.
		if n.runs() {
			w.tell(f)
			w.wake(f.A)
		}
	}
}

// strike takes the process of a node away, for a while or for good.
func (w *World) strike(f Fault) {
	n := &w.nodes[f.A]
	if !n.runs() {
		return
	}
	w.expectSuccessor(f.A)
	w.truth.disruptions++
	switch f.Do {
	case Kill:
		n.alive = false
	case Freeze:
		n.frozen = true
	case Suspend:
		n.suspended = true
	}
	n.waking = false
	n.struck = w.now
	for plane := range w.shape.Planes {
		// One that has said that it goes may be succeeded before its gate
		// closes: it is frozen in the middle of a hand-over. So may one that
		// is left over of two.
		n.alone[plane] = w.sole(f.A, plane) && n.group.Member(plane).State() == vrrp.Active && w.truth.dual[plane] <= w.now-w.silence(n)
		if n.holds[plane] && n.gate[plane] > w.now {
			w.queue.push(event{at: n.gate[plane], kind: evGate, a: int8(f.A)})
		}
	}
}

// awaken lets a process that stood still go on.
func (w *World) awaken(id int) {
	w.truth.disruptions++
	n := &w.nodes[id]
	n.running, n.away = w.now, w.now-n.struck
	w.wake(id)
}

// tell has the shell call the machines.
func (w *World) tell(f Fault) {
	n := &w.nodes[f.A]
	now := n.clock(w.now)
	w.truth.disruptions++
	switch f.Do {
	case Stop:
		n.leaving = true
		w.perform(f.A, n.group.Stop(now))
	case Release:
		w.perform(f.A, n.group.Release(now))
	case Sicken, Cure:
		n.sick = f.Do == Sicken
		n.started = w.now
		w.perform(f.A, n.group.Fault(now, 0, n.sick))
	case Weight:
		if !n.cfg.Owner {
			n.priority, n.weighed = uint8(f.P), w.now
			n.peak = max(n.peak, n.priority)
		}
		w.perform(f.A, n.group.SetPriority(now, uint8(f.P)))
	}
}

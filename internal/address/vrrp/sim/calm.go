package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// calm ends the faults. Either every link is well, or the nodes fall into
// parts that hear nothing of each other and everything among themselves:
// only then is it clear what ought to be.
func (w *World) calm() {
	w.queue.drop(evFault)
	part := [most]int{}
	if w.rng.IntN(3) == 0 {
		for i := range w.n {
			part[i] = w.rng.IntN(2)
		}
	}
	for i := range w.n {
		for j := range w.n {
			do := Heal
			if part[i] != part[j] {
				do = Cut
			}
			if i < j {
				w.apply(Fault{Do: do, A: i, B: j, Plane: -1})
			}
		}
		w.apply(Fault{Do: Resume, A: i})
		w.apply(Fault{Do: Thaw, A: i})
	}
	w.Run(w.settling())
	moves := w.truth.Moves
	for range 8 {
		w.Run(w.slowest() / 2)
		w.checkCalm(&part)
	}
	if w.truth.Moves != moves {
		w.breach("calm, and still %d changes of state", w.truth.Moves-moves)
	}
}

func (w *World) slowest() time.Duration {
	d := time.Duration(0)
	for i := range w.n {
		d = max(d, w.nodes[i].interval())
	}
	return d
}

// settling is how long it takes until nothing more changes: delays, a
// hand-over, a preemption and a dispute, one after the other.
func (w *World) settling() time.Duration {
	d := 24*w.slowest() + 4*time.Second
	for i := range w.n {
		c := &w.nodes[i].cfg
		d = max(d, 24*w.slowest()+4*time.Second+2*c.StartDelay+2*c.PreemptDelay+2*c.Linger)
	}
	return d
}

// checkCalm wants exactly one holder in each part that has a node which can.
func (w *World) checkCalm(part *[most]int) {
	for plane := range w.shape.Planes {
		for p := range 2 {
			w.checkPart(plane, p, part)
		}
	}
}

func (w *World) checkPart(plane, p int, part *[most]int) {
	holder, able := -1, 0
	for i := range w.n {
		n := &w.nodes[i]
		if part[i] != p {
			continue
		}
		if n.runs() && !n.sick && !n.leaving {
			able++
		}
		active := n.alive && n.group.Member(plane).State() == vrrp.Active
		if active != n.answers(plane, w.now) {
			w.breach("calm, plane %d: %s is active: %t, and answers: %t", plane, w.name(i), active, !active)
		}
		if active && holder >= 0 {
			w.breach("calm, plane %d: %s and %s both hold", plane, w.name(holder), w.name(i))
		}
		if active {
			holder = i
		}
	}
	if able > 0 && holder < 0 {
		w.breach("calm, plane %d: nobody of %d holds in part %d", plane, able, p)
	}
}

package sim

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

const (
	most       = 5 // nodes
	mostPlanes = 2 // links that every node is on, one per member of its group
	never      = time.Duration(1) << 62
)

// Shape is what stays the same through a schedule.
type Shape struct {
	// Nodes has a configuration per node; VRID, addresses and Address are
	// filled in.
	Nodes []vrrp.Config
	// Planes is how many links each node is on, and so how many virtual
	// routers move together there.
	Planes int
	// Delay is the longest way of an advert, Late the longest time until a
	// process that is runnable runs.
	Delay, Late time.Duration
	// Drift is how fast each node's clock runs, 0.99 to 1.01.
	Drift []float64
}

// World is nodes, the links between them, and what truly happens. It is made
// once and reset for every schedule.
type World struct {
	// Trace is called for what a reader of a story wants to know.
	Trace func(at time.Duration, line string)
	// spoil takes a rule away that the judge does not know of; see the test
	// that wants it to notice.
	spoil sabotage

	shape  Shape
	rng    *rand.Rand
	now    time.Duration // true time
	queue  queue
	faults []Fault
	n      int
	nodes  [most]node
	links  [mostPlanes][most][most]link
	truth  truth
}

// sabotage is what may be wrong with the nodes.
type sabotage struct {
	config func(*vrrp.Config)      // of the machines alone
	lost   func(priority int) bool // adverts that never arrive
	late   func(*Shape) time.Duration
	gates  time.Duration // how long the dead-man leaves the kernel alone
}

// link carries adverts one way, in order.
type link struct {
	cut  bool
	loss float64
	slow time.Duration
	// last is when the latest advert on it arrives.
	last time.Duration
	// clean is since when every advert on it arrives, and in time; never
	// while it does not.
	clean time.Duration
	// late is when the last advert arrived that was slow; never while it is
	// slow.
	late time.Duration
}

// NewWorld returns a world to Reset.
func NewWorld() *World { return &World{} }

// Reset starts over. Without a random source every delay is the middle of its
// range.
func (w *World) Reset(s Shape, rng *rand.Rand) {
	w.shape, w.rng, w.now, w.n = s, rng, 0, len(s.Nodes)
	w.queue.reset()
	w.faults = w.faults[:0]
	w.links = [mostPlanes][most][most]link{}
	w.truth.reset(s.Planes)
	for i := range w.n {
		w.nodes[i].reset(w, i, s.Nodes[i])
	}
}

func (w *World) name(i int) string { return string(rune('a' + i)) }

func address(node, plane int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2 + byte(plane), byte(node + 1)})
}

func virtual(plane int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2 + byte(plane), 100})
}

// between draws a duration.
func (w *World) between(least, most time.Duration) time.Duration {
	if w.rng == nil || most <= least {
		return (least + most) / 2
	}
	return least + time.Duration(w.rng.Int64N(int64(most-least)+1))
}

func (w *World) chance(p float64) bool { return p > 0 && w.rng != nil && w.rng.Float64() < p }

func (w *World) tracef(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(w.now, fmt.Sprintf(format, args...))
	}
}

// Run lets so much true time pass, or less if an invariant breaks.
func (w *World) Run(length time.Duration) {
	end := w.now + length
	for len(w.queue.heap) > 0 && w.queue.heap[0].at <= end && w.truth.Broken == "" {
		e := w.queue.pop()
		w.now = e.at
		w.handle(&e)
	}
	w.now = end
	w.judge()
}

func (w *World) handle(e *event) {
	switch e.kind {
	case evFault:
		w.apply(w.faults[e.x])
	case evArrive:
		w.arrive(e)
	case evRun:
		w.run(int(e.a))
	case evTimer:
		if n := &w.nodes[e.a]; e.gen == n.timerGen {
			w.wake(int(e.a))
		}
	case evGate:
		w.judge()
	case evDeadline:
		w.checkDeadline(e)
	}
}

// transmit sends an advert to all who are connected.
func (w *World) transmit(from, plane int, priority uint8) {
	for to := range w.n {
		l := &w.links[plane][from][to]
		if to == from || l.cut || w.chance(l.loss) {
			continue
		}
		at := w.now + w.between(w.shape.Delay/10, w.shape.Delay) + l.slow
		l.last = max(at, l.last+1)
		w.queue.push(event{at: l.last, kind: evArrive, a: int8(from), b: int8(to), plane: int8(plane), x: int32(priority)})
	}
}

// arrive puts an advert into the socket of a node, if there is one.
func (w *World) arrive(e *event) {
	n := &w.nodes[e.b]
	if w.spoil.lost != nil && w.spoil.lost(int(e.x)) {
		return
	}
	if !n.alive || n.suspended || len(n.socket) == cap(n.socket) {
		return
	}
	n.socket = append(n.socket, packet{from: e.a, plane: e.plane, priority: uint8(e.x)})
	w.wake(int(e.b))
}

// clear says whether adverts have been getting through since a moment.
func (l *link) clear(since time.Duration) bool { return l.clean <= since }

// soil notes that a link has changed: it is clean again once everything slow
// has arrived, or not at all.
func (w *World) soil(l *link) {
	l.clean = never
	switch {
	case l.slow > 0 && !l.cut:
		l.late = never
	case l.late == never:
		l.late = max(w.now, l.last)
	}
	if !l.cut && l.loss == 0 && l.slow == 0 {
		l.clean = max(w.now, l.last)
	}
}

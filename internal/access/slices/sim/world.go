package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

const (
	never   = time.Duration(-1 << 62)
	forever = time.Duration(1 << 62)
)

// Shape is what a world starts as.
type Shape struct {
	// Zones is the zone of each control-plane node.
	Zones []string
	// Workers are the zones of nodes that are no control plane.
	Workers  []string
	Settings plan.Settings
	// Dual gives every node an IPv6 address too.
	Dual bool
	// Ports are those of the apiservers; none is 6443 for all.
	Ports []int32
	// Differ gives agents different settings, where they may.
	Differ bool
	// Reconcile starts every apiserver with its own reconciler.
	Reconcile bool
	// Lost is the share of requests that are lost, half of them after they were
	// done; Late of those that are done long after their caller gave up.
	Lost, Late float64
	// Lag is how long news takes at most through a watch that works.
	Lag time.Duration
}

// World is one simulated cluster with its agents.
type World struct {
	now   time.Duration
	queue queue
	rng   *rand.Rand // nil: every delay is the middle of its range, and all clocks agree
	shape Shape
	n     int
	rules rules
	// cfg is what agents work by; the judge works by shape.Settings. They are
	// equal except where a test takes a rule away to see that it is missed.
	cfg plan.Settings

	store    store
	machines [most]machine
	agents   [most]agent
	workers  map[string]int // zone: nodes that are not control plane
	masters  masters
	parted   [most][most]parting
	requests []request
	faults   []Fault
	judge    judge

	// Trace, when set, gets one line per change.
	Trace func(at time.Duration, line string)
}

// NewWorld returns an empty world; Reset fills it. A world is reused from
// schedule to schedule to spare its memory.
func NewWorld() *World { return &World{} }

// Reset starts a new schedule: all machines run, and the agents are about to.
func (w *World) Reset(shape Shape, rng *rand.Rand) {
	w.now, w.shape, w.rng, w.n, w.rules = 0, shape, rng, len(shape.Zones), rules{}
	w.queue.reset()
	w.store.reset()
	w.requests, w.faults = w.requests[:0], w.faults[:0]
	w.cfg, w.agents = shape.Settings, [most]agent{}
	w.workers, w.masters, w.parted = map[string]int{}, masters{}, [most][most]parting{}
	w.judge.reset()
	for i := range w.n {
		w.machines[i] = machine{up: true, serving: true, zone: shape.Zones[i], reconciles: shape.Reconcile}
	}
	for _, zone := range shape.Workers {
		w.workers[zone]++
	}
	w.store.putService(plan.Service{})
	w.putNodes()
	for i := range w.n {
		w.after(w.between(0, 10*time.Second), event{kind: evIdentity, a: int8(i)})
		w.after(w.between(0, 10*time.Second), event{kind: evReconcile, a: int8(i)})
		w.bootAgent(i, w.between(0, 15*time.Second))
	}
	w.after(tick, event{kind: evTick})
}

// Run lets d pass.
func (w *World) Run(d time.Duration) {
	end := w.now + d
	for len(w.queue.heap) > 0 && w.queue.heap[0].at <= end && w.judge.broken == "" {
		e := w.queue.pop()
		w.now = e.at
		w.handle(e)
	}
	w.now = end
}

func (w *World) handle(e event) {
	i := int(e.a)
	switch e.kind {
	case evFault:
		w.apply(w.faults[e.x])
	case evIdentity:
		w.renewIdentity(i)
	case evReconcile:
		w.reconcile(i)
	case evTick:
		w.look()
		w.after(tick, event{kind: evTick})
	case evContact: // also of an agent that has started since
		e.life = w.agents[i].life
		w.handleAgent(e, &w.agents[i])
	case evExec:
		w.exec(&w.requests[e.x])
	default:
		w.handleAgent(e, &w.agents[i])
	}
}

// handleAgent is what happens to an agent: not if it has ended since, and
// later if it is stopped.
func (w *World) handleAgent(e event, a *agent) {
	switch {
	case !a.up || a.life != e.life:
		return
	case a.stopped > w.now:
		e.at = a.stopped
		w.queue.push(e)
		return
	}
	switch e.kind {
	case evCheck:
		w.check(a)
	case evRenew:
		w.renew(a)
	case evDeliver:
		w.deliver(a)
	case evZone:
		a.self.Zone = w.machines[a.i].zone
		w.nudge(a)
	case evWake:
		if e.x == a.alarm {
			a.resting = 0
			w.nudge(a)
		}
	case evContact:
		w.contact(a)
	case evReply:
		w.reply(a, &w.requests[e.x])
	}
}

// after schedules an event d from now.
func (w *World) after(d time.Duration, e event) {
	e.at = w.now + d
	w.queue.push(e)
}

func (w *World) between(low, high time.Duration) time.Duration {
	switch {
	case high <= low:
		return low
	case w.rng == nil:
		return (low + high) / 2
	}
	return low + time.Duration(w.rng.Int64N(int64(high-low)))
}

func (w *World) chance(p float64) bool { return p > 0 && w.rng != nil && w.rng.Float64() < p }

// rate draws that of a clock, distance that between two nodes in milliseconds.
func (w *World) rate() float64 {
	if w.rng == nil {
		return 1
	}
	return 0.99 + 0.02*w.rng.Float64()
}

func (w *World) distance(i, j int) int {
	if w.rng == nil {
		return 10 * max(i-j, j-i)
	}
	return w.rng.IntN(60)
}

func (w *World) trace(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(w.now, fmt.Sprintf(format, args...))
	}
}

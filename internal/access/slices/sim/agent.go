package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// The agent's shell, as far as the plan depends on it.
const (
	// turn is how long the Lease is good for, margin how much earlier its holder
	// stops, lookAgain how long who does not get it waits.
	turn      = plan.TurnLasts
	margin    = turn / 10
	lookAgain = 300 * time.Millisecond
	// lonely is how long an owner tries to get the Lease before it withdraws
	// without.
	lonely = plan.AloneAfter
)

type phase uint8

const (
	idle    phase = iota
	owning        // writes its own
	looking       // reads the Lease
	taking        // asks for it
	reading       // reads everything anew
	writing       // writes what is everybody's
	returning
)

// agent is one process; everything but its machine's is lost when it ends.
type agent struct {
	i    int
	up   bool
	life uint32
	// cut: its own way to the API is gone.
	cut bool
	// stopped and frozen: until when its process, and its watches, stand still.
	stopped, frozen time.Duration
	// refused: until when the API refuses its writes, of the kind that refusal says.
	refused time.Duration
	refusal int
	// troubled: until when it knows of a request without an answer.
	troubled time.Duration
	// unwell is since when it knows that its apiserver is not ready; never is not.
	unwell time.Duration
	// apart is whom it last knew to be out of reach.
	apart  []string
	booted time.Duration
	rate   float64 // of its clock
	origin time.Duration

	cfg       plan.Settings
	self      plan.Self
	observer  *plan.Observer
	distances []plan.Distance
	cache     heads
	listed    bool
	expecting bool
	checking  bool
	view      plan.View
	alarm     int32
	wakes     time.Duration // when its timer runs out
	// busy: a renewed Lease may change what is decided, for somebody is late.
	busy    bool
	resting time.Duration // until when it waits after a failure, or for the Lease

	phase  phase
	alone  bool
	rounds int
	plan   []plan.Write
	fresh  *request      // the reading that the plan rests on
	due    []plan.Write  // what the watches showed to be necessary
	wants  time.Duration // since when it wants the Lease; 0 is not
	until  time.Duration // it holds the Lease, by its own clock
	mine   int           // the version of the Lease that is its own
	seen   record        // the Lease as it last saw it
	first  time.Duration // since when, by its own clock

	restraint restraint
}

// clock is the agent's own time.
func (a *agent) clock(now time.Duration) time.Duration {
	return a.origin + time.Duration(float64(now)*a.rate)
}

func (w *World) bootAgent(i int, d time.Duration) {
	old := w.agents[i]
	w.agents[i] = agent{
		i: i, up: true, life: old.life + 1, cut: old.cut, booted: w.now + d, unwell: never, cfg: w.settings(i), observer: plan.NewObserver(w.cfg),
		rate: w.rate(), origin: w.between(0, time.Hour), distances: old.distances,
		self: plan.Self{
			Node: name(i), Zone: w.machines[i].zone, Holder: name(i), Port: w.port(i),
			Addresses: []plan.Address{{Family: plan.IPv4, IP: addresses[i]}},
		},
	}
	a := &w.agents[i]
	if w.shape.Dual {
		a.self.Addresses = append(a.self.Addresses, plan.Address{Family: plan.IPv6, IP: addresses6[i]})
	}
	for j := range w.n {
		if a.distances == nil || len(a.distances) < w.n {
			a.distances = append(a.distances, plan.Distance{Node: name(j), Millis: w.distance(i, j)})
		}
	}
	e := event{a: int8(i), life: a.life}
	for _, k := range []kind{evRenew, evDeliver} {
		e.kind = k
		w.after(d+w.between(0, time.Second), e)
	}
	a.expecting = true
	w.recheck(a, d)
}

// settings are those of the agent of node i. Every other one knows a datapath
// that honours the older value only, and another order of witnesses.
func (w *World) settings(i int) plan.Settings {
	cfg := w.cfg
	if cfg.Traffic != "" {
		cfg.Honoured = []string{"PreferClose", "PreferSameZone"}
	}
	if w.shape.Differ && i%2 == 1 && cfg.Traffic != "" {
		cfg.Traffic, cfg.Honoured = "PreferClose", []string{"PreferClose"}
		cfg.Witnesses = []string{w.shape.Zones[0]}
	}
	return cfg
}

func (w *World) port(i int) int32 {
	if i < len(w.shape.Ports) {
		return w.shape.Ports[i]
	}
	return 6443
}

func (w *World) endAgent(i int) {
	w.agents[i].up = false
	w.agents[i].life++
}

// recheck lets the agent come to a verdict on its apiserver, after rise or fall.
func (w *World) recheck(a *agent, d time.Duration) {
	if a.up && !a.checking {
		a.checking = true
		w.after(d+w.between(time.Second, 3*time.Second), event{kind: evCheck, a: int8(a.i), life: a.life})
	}
}

func (w *World) recheckAll() {
	for i := range w.n {
		w.recheck(&w.agents[i], 0)
	}
}

func (w *World) check(a *agent) {
	a.checking = false
	was := a.self.Health
	a.self.Health = plan.Unready
	if w.ready(a.i) {
		a.self.Health = plan.Ready
	}
	if was != a.self.Health {
		a.unwell, a.apart = never, nil
		if a.self.Health == plan.Unready {
			a.unwell = w.now
			w.after(reachAfter, event{kind: evContact, a: int8(a.i), life: a.life})
		}
		w.trace("%s finds its apiserver ready: %t", name(a.i), a.self.Health == plan.Ready)
		a.resting = 0
		w.nudge(a)
	}
}

func (w *World) renew(a *agent) { w.send(a, request{verb: vRenew}) }

// renewed is what comes of it; a renewal without an answer is soon repeated.
func (w *World) renewed(a *agent, good bool) {
	d := time.Second
	if good {
		d = renewal + w.between(0, jitter)
	}
	w.after(d, event{kind: evRenew, a: int8(a.i), life: a.life})
}

// deliver brings the agent what its watches have.
func (w *World) deliver(a *agent) {
	switch {
	case a.frozen > w.now:
		w.after(a.frozen-w.now+w.between(0, w.shape.Lag), event{kind: evDeliver, a: int8(a.i), life: a.life})
		return
	case !w.answered(a.i): // connect again, and again
		w.after(w.between(300*time.Millisecond, 2*time.Second), event{kind: evDeliver, a: int8(a.i), life: a.life})
		return
	}
	news := !a.listed || a.cache.differ(&w.store.head)
	a.expecting, a.listed, a.cache = false, true, w.store.head
	w.observe(a)
	if news || a.busy || a.wants > 0 {
		a.resting = 0
		w.nudge(a)
		return
	}
	facts, _ := w.facts(a)
	if due := a.soon(&facts); due > 0 && (a.wakes <= w.now || a.wakes > w.now+due) {
		w.wake(a, due)
	}
}

// soon is when time alone may change what the agent knows; 0 is never.
func (a *agent) soon(facts *plan.Facts) time.Duration {
	if facts.Due == 0 {
		return 0
	}
	return time.Duration(float64(facts.Due)/a.rate) + time.Millisecond
}

// observe shows the agent's observer what its watches show.
func (w *World) observe(a *agent) {
	w.store.view(&a.cache, &a.view)
	if w.rules.distort != nil {
		w.rules.distort(w, &a.view)
	}
	a.observer.See(a.clock(w.now), &a.self, &a.view)
}

// wake sets the agent's one timer.
func (w *World) wake(a *agent, d time.Duration) {
	a.alarm++
	a.wakes = w.now + d
	w.after(d, event{kind: evWake, a: int8(a.i), life: a.life, x: a.alarm})
}

// rest makes the agent try again later, or when there is news.
func (w *World) rest(a *agent, d time.Duration) {
	a.phase = idle
	a.resting = w.now + d
	w.wake(a, d)
}

// nudge lets an idle agent look if there is something to do.
func (w *World) nudge(a *agent) {
	if a.phase != idle || !a.listed || a.resting > w.now {
		return
	}
	a.alone = false
	w.observe(a)
	facts, held := w.facts(a)
	own, wait := w.ownDue(a, &facts)
	wait = sooner(wait, held)
	if len(own) > 0 {
		a.phase, a.plan, a.fresh = owning, own, nil
		w.sendNext(a)
		return
	}
	a.due = w.shared(a, &facts)
	if len(a.due) == 0 {
		a.wants = 0
		if wait = sooner(wait, a.soon(&facts)); wait > 0 {
			w.wake(a, wait)
		}
		return
	}
	if a.wants == 0 {
		a.wants = w.now
	}
	if left := a.restraint.hold(w.now, a.due); left > 0 {
		w.wake(a, sooner(wait, left))
		return
	}
	a.phase, a.rounds = looking, 0
	w.send(a, request{verb: vLook})
}

// facts is what the agent knows, and when it may try again what it was refused.
func (w *World) facts(a *agent) (facts plan.Facts, held time.Duration) {
	facts = a.observer.Facts(a.clock(w.now))
	a.busy = len(facts.Quiet) > 0 || len(facts.Lapsed) > 0 || facts.Rival != ""
	facts.Held, held = a.restraint.held(w.now)
	facts.Unreached = w.unreached(a)
	return facts, held
}

// ownDue is what the agent writes without the Lease, but for what has to wait,
// and for how long that has to.
func (w *World) ownDue(a *agent, facts *plan.Facts) (due []plan.Write, wait time.Duration) {
	for _, o := range plan.Own(&a.cfg, &a.self, &a.view, facts) {
		if left := a.restraint.left(w.now, &o); left > 0 {
			wait = sooner(wait, left)
		} else {
			due = append(due, o)
		}
	}
	return due, wait
}

// sooner is the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// shared is the plan for the view that the agent has at hand.
func (w *World) shared(a *agent, facts *plan.Facts) []plan.Write {
	cfg := &a.cfg
	var all []plan.Write
	if a.alone {
		all = plan.Withdraw(cfg, &a.self, &a.view, facts)
	} else {
		all = plan.Shared(cfg, &a.self, &a.view, facts)
	}
	if w.rules.mangle != nil {
		all = w.rules.mangle(w, a, all)
	}
	return all
}

// sendNext sends the next write of the plan.
func (w *World) sendNext(a *agent) {
	next := a.plan[0]
	a.plan = a.plan[1:]
	w.send(a, request{verb: vWrite, write: next, rest: a.plan, held: w.heldUntil(a), alone: a.alone || a.phase == owning, based: a.fresh})
}

// heldUntil is the end of the agent's turn by the world's clock.
func (w *World) heldUntil(a *agent) time.Duration {
	return time.Duration(float64(a.until-a.origin) / a.rate)
}

package sim

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
)

const most = 5

// Shape is what a world starts as.
type Shape struct {
	Nodes  int
	Config lease.Config
	// Durations of nodes whose lease is not that of Config; 0 is that.
	Durations [most]time.Duration
	// Fast is the longest way to the API, and up to 30 ms of a datagram.
	Fast time.Duration
	// Lost is the share of datagrams that are lost, Unanswered that of requests
	// whose answer is.
	Lost, Unanswered float64
	// Lag is how long a watch takes at most.
	Lag time.Duration
}

// node is a machine with its kernel, its agent and its clock.
type node struct {
	i       int
	name    string
	up      bool
	life    uint32
	rate    float64 // of its clock
	offset  time.Duration
	machine *lease.Machine
	alarm   int32
	ready   bool
	frozen  time.Duration // its process stands still until then
	api     way
	gate    gate
	watched int32 // the last entry of the log that its watch brought
	behind  bool  // its watch could bring nothing when there was something
	stopped bool
}

// gate is what the kernel lets through, whatever becomes of the agent.
type gate struct {
	until     time.Duration // by true time
	lingering bool
	begun     time.Duration
	announced bool
}

// way is what comes of requests.
type way uint8

const (
	open   way = iota
	hang       // there is no answer, until it works again
	refuse     // there is an error at once
)

// World is some nodes, an API and the network between them.
type World struct {
	now   time.Duration
	queue queue
	rng   *rand.Rand // nil: every delay is the middle of its range, and all clocks agree
	shape Shape
	n     int
	nodes [most]node
	peers []lease.Peer

	api       way
	record    lease.Seen
	revision  uint64
	log       []lease.Seen
	requests  []request
	datagrams []datagram
	cut       [most][most]bool // datagrams from, to
	faults    []Fault
	judge     judge
	bent      rules

	// Trace, when set, gets one line per change.
	Trace func(at time.Duration, line string)
	// Wire has it get one per message and request, too.
	Wire bool
}

type datagram struct{ message ask.Message }

// rules are bent to see that the judge notices.
type rules struct {
	// answer changes what peers say.
	answer func(*ask.Message)
	// hold changes how long the kernel lets the address through.
	hold func(time.Duration) time.Duration
	// config changes what one node works by.
	config func(i int, c *lease.Config)
	// record changes what nodes see of the record.
	record func(*lease.Record)
	// deaf nodes are not told of their successors.
	deaf bool
}

// NewWorld returns an empty world; Reset fills it.
func NewWorld() *World { return &World{} }

// Reset starts a new schedule: all nodes are about to start.
func (w *World) Reset(shape Shape, rng *rand.Rand) {
	w.now, w.shape, w.rng, w.n = 0, shape, rng, shape.Nodes
	w.queue.reset()
	w.api, w.record, w.revision = open, lease.Seen{}, 0
	w.log, w.requests, w.datagrams, w.faults = w.log[:0], w.requests[:0], w.datagrams[:0], w.faults[:0]
	w.cut, w.judge, w.bent = [most][most]bool{}, judge{}, rules{}
	w.peers = nil
	for i := range w.n {
		w.peers = append(w.peers, lease.Peer{Name: names[i], Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 8947)})
	}
	for i := range w.n {
		w.nodes[i] = node{i: i, name: names[i], rate: w.rate(), offset: w.between(0, time.Hour), ready: true, life: w.nodes[i].life}
		w.after(w.between(0, time.Second), event{what: evStart, a: int8(i)})
	}
}

var names = [most]string{"a", "b", "c", "d", "e"}

// Run lets d pass.
func (w *World) Run(d time.Duration) {
	end := w.now + d
	for len(w.queue.heap) > 0 && w.queue.heap[0].at <= end && w.judge.broken == "" {
		e := w.queue.pop()
		w.now = max(w.now, e.at)
		w.handle(e)
	}
	w.now = end
}

func (w *World) handle(e event) {
	n := &w.nodes[e.a]
	switch e.what {
	case evFault:
		w.apply(w.faults[e.x])
		return
	case evExec:
		w.exec(e.x)
		return
	case evStart:
		w.start(n)
		return
	}
	switch {
	case !n.up || n.life != e.life:
		return
	case n.frozen > w.now:
		e.at = n.frozen
		w.queue.push(e)
		return
	}
	w.deliver(n, e)
}

// deliver is what happens to a process that runs.
func (w *World) deliver(n *node, e event) {
	now := n.clock(w.now)
	switch e.what {
	case evTick:
		if e.x == n.alarm {
			w.perform(n, n.machine.Tick(now))
		}
	case evReply, evTimeout:
		w.reply(n, &w.requests[e.x], e.what == evReply)
	case evWatch:
		w.watch(n, e.x)
	case evDatagram:
		w.perform(n, n.machine.Heard(now, w.datagrams[e.x].message))
	case evAnnounce:
		if n.gate.until > w.now && !n.gate.lingering {
			n.gate.announced = true
			w.perform(n, n.machine.Announced(now))
		}
	}
}

// clock is what a node's clock shows.
func (n *node) clock(at time.Duration) time.Duration {
	return n.offset + time.Duration(float64(at)*n.rate)
}

// moment is the true time at which a node's clock shows at, rounded up.
func (n *node) moment(at time.Duration) time.Duration {
	return time.Duration(float64(at-n.offset)/n.rate) + time.Microsecond
}

func (w *World) start(n *node) {
	if n.up {
		return
	}
	n.up, n.stopped, n.frozen = true, false, 0
	n.life++
	n.gate = gate{} // an earlier run's is cleared
	n.watched, n.behind = -1, false
	config := w.shape.Config
	config.Self, config.Peers, config.Incarnation = n.name, w.peers, uint64(n.life)<<8|uint64(n.i+1)
	if d := w.shape.Durations[n.i]; d != 0 {
		config.Duration, config.Renew, config.Margin = d, 0, 0
	}
	if w.bent.config != nil {
		w.bent.config(n.i, &config)
	}
	n.machine = lease.New(config)
	w.trace("%s starts", n.name)
	if !n.ready {
		w.perform(n, n.machine.SetReady(n.clock(w.now), false))
	}
	w.perform(n, n.machine.Tick(n.clock(w.now)))
}

// perform does what a machine wants, and sets its alarm.
func (w *World) perform(n *node, actions []lease.Action) {
	for i := range actions {
		w.do(n, &actions[i])
	}
	n.alarm++
	w.queue.push(event{at: max(w.now, n.moment(n.machine.Next())), what: evTick, a: int8(n.i), x: n.alarm, life: n.life})
}

func (w *World) do(n *node, a *lease.Action) {
	switch a.Do {
	case lease.Read, lease.Write:
		w.request(n, a)
	case lease.Send:
		w.send(n, a)
	case lease.Hold:
		w.hold(n, a)
	case lease.Release:
		w.trace("%s lets go: %s", n.name, a.Cause)
		w.judge.released(w, n, a.Cause)
		n.gate = gate{}
	case lease.Refused:
		w.trace("%s keeps the address: nobody to give it to", n.name)
	case lease.Stopped:
		w.trace("%s stops", n.name)
		n.stopped, n.up = true, false
		w.judge.stopped(w, n)
	}
}

// hold sets the kernel's timer. Between the decision and the kernel some time
// passes, and the timer is set for as long as it would have been then.
func (w *World) hold(n *node, a *lease.Action) {
	left := a.Until - n.clock(w.now)
	if w.bent.hold != nil {
		left = w.bent.hold(left)
	}
	late := w.between(0, w.duration(n)/50)
	until := w.now + time.Duration(float64(left)/n.rate) + late
	if a.Cause != "" {
		w.trace("%s holds: %s", n.name, a.Cause)
		n.gate = gate{begun: w.now}
		w.queue.push(event{at: w.now + w.between(0, 5*time.Millisecond), what: evAnnounce, a: int8(n.i), life: n.life})
	} else if a.Lingering && !n.gate.lingering {
		w.trace("%s has given it away", n.name)
	}
	w.judge.holds(w, n, a, until)
	n.gate.until, n.gate.lingering = until, a.Lingering
}

func (w *World) duration(n *node) time.Duration {
	if d := w.shape.Durations[n.i]; d != 0 {
		return d
	}
	return w.shape.Config.Duration
}

// send puts a datagram on the wire.
func (w *World) send(n *node, a *lease.Action) {
	m := a.Message
	if w.bent.answer != nil && m.Kind == ask.Answer {
		w.bent.answer(&m)
	}
	w.traffic("%s says to %s: %v, flags %05b", n.name, m.To, m.Kind, m.Flags)
	for j := range w.n {
		if names[j] != m.To || w.cut[n.i][j] || w.chance(w.shape.Lost) || !w.nodes[j].up {
			continue
		}
		if w.bent.deaf && m.Kind != ask.Question && m.Kind != ask.Answer {
			continue
		}
		w.datagrams = append(w.datagrams, datagram{message: m})
		w.queue.push(event{
			at: w.now + w.between(w.shape.Fast/50, min(w.shape.Fast, 30*time.Millisecond)), what: evDatagram,
			a: int8(j), x: int32(len(w.datagrams) - 1), life: w.nodes[j].life,
		})
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

// rate draws that of a clock: up to 1 % wrong.
func (w *World) rate() float64 {
	if w.rng == nil {
		return 1
	}
	return 0.99 + 0.02*w.rng.Float64()
}

func (w *World) trace(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(w.now, fmt.Sprintf(format, args...))
	}
}

func (w *World) traffic(format string, args ...any) {
	if w.Wire {
		w.trace(format, args...)
	}
}

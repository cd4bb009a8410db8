package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// packet is an advert in a socket.
type packet struct {
	from, plane int8
	priority    uint8
}

// node is a machine with a process that runs the real state machines, and a
// kernel that answers for the addresses.
type node struct {
	id    int
	cfg   vrrp.Config
	group *vrrp.Group

	// The process.
	alive     bool // there is one
	frozen    bool // it is stopped; its kernel goes on
	suspended bool // the whole machine stands, its clock does not
	leaving   bool // stopped in good order, and about to exit
	socket    []packet
	waking    bool          // an evRun is under way
	timerGen  uint32        // the evTimer that counts
	running   time.Duration // since when the process runs, true time
	started   time.Duration // since when it has been listening at all
	sick      bool          // its health check says so
	priority  uint8
	peak      uint8         // the highest of this process
	weighed   time.Duration // when the priority last changed

	// The clock: offset + rate × true time.
	rate   float64
	offset time.Duration

	// The kernel, per plane: the address is there, and the gate lets it speak
	// until a moment of true time.
	holds [mostPlanes]bool
	gate  [mostPlanes]time.Duration
	// struck is when the process was last taken away, and alone says whether
	// nobody else answered then.
	struck time.Duration
	alone  [mostPlanes]bool
	away   time.Duration // how long it was stopped the last time
	// changed is when the state last changed, true time.
	changed [mostPlanes]time.Duration
	// took is why it last began to answer.
	took [mostPlanes]vrrp.Cause
	// relieved says that a living holder was there when it last became active.
	relieved [mostPlanes]bool
	// met is when it last heard another hold the addresses.
	met [mostPlanes][most]time.Duration
}

const socketSize = 64 // adverts; what comes then is lost

func (n *node) reset(w *World, id int, cfg vrrp.Config) {
	socket := n.socket
	if socket == nil {
		socket = make([]packet, 0, socketSize)
	}
	*n = node{id: id, cfg: cfg, socket: socket[:0], rate: 1, timerGen: n.timerGen}
	if w.shape.Drift != nil {
		n.rate = w.shape.Drift[id]
	}
	n.offset = w.between(0, 1000*time.Second)
	w.start(id)
}

// clock is the time of the node's monotonic clock.
func (n *node) clock(at time.Duration) time.Duration {
	return n.offset + time.Duration(float64(at)*n.rate)
}

// truly is the true time at which the clock shows local, rounded up.
func (n *node) truly(local time.Duration) time.Duration {
	return time.Duration(float64(local-n.offset)/n.rate) + 2
}

// interval is the node's advert interval in true time.
func (n *node) interval() time.Duration { return time.Duration(float64(n.cfg.Interval) / n.rate) }

// runs says whether the process gets to run.
func (n *node) runs() bool { return n.alive && !n.frozen && !n.suspended }

// answers says whether the kernel answers for the address of a plane.
func (n *node) answers(plane int, at time.Duration) bool {
	return n.holds[plane] && at < n.gate[plane] && !n.suspended
}

// start begins a process, which clears what an earlier one left.
func (w *World) start(id int) {
	n := &w.nodes[id]
	machines := make([]*vrrp.Machine, w.shape.Planes)
	for plane := range machines {
		cfg := n.cfg
		cfg.VRID = uint8(plane + 1)
		cfg.Address, cfg.Addresses = address(id, plane), virtuals[plane]
		if w.spoil.config != nil {
			w.spoil.config(&cfg)
		}
		machines[plane] = vrrp.New(cfg)
	}
	group, err := vrrp.NewGroup(machines...)
	if err != nil {
		panic(err) // Planes is at least 1
	}
	n.group, n.alive, n.frozen, n.leaving, n.sick = group, true, false, false, false
	n.socket, n.waking = n.socket[:0], false
	n.priority, n.peak, n.running, n.started = n.cfg.Priority, n.cfg.Priority, w.now, w.now
	n.holds = [mostPlanes]bool{}
	w.perform(id, group.Start(n.clock(w.now)))
	w.arm(id)
}

// wake lets the process run soon, once.
func (w *World) wake(id int) {
	n := &w.nodes[id]
	if n.waking || !n.runs() {
		return
	}
	n.waking = true
	late := w.between(0, w.shape.Late)
	if w.spoil.late != nil {
		late += w.spoil.late(&w.shape)
	}
	w.queue.push(event{at: w.now + late, kind: evRun, a: int8(id)})
}

// run is one turn of the shell: everything in the socket, then the timer.
func (w *World) run(id int) {
	n := &w.nodes[id]
	if !n.waking || !n.runs() {
		return
	}
	n.waking = false
	now := n.clock(w.now)
	for _, p := range n.socket {
		from := &w.nodes[p.from]
		if p.priority > 0 {
			n.met[p.plane][p.from] = w.now
		}
		advert := from.group.Member(int(p.plane)).Advert(p.priority)
		w.perform(id, n.group.Receive(now, int(p.plane), advert, address(int(p.from), int(p.plane))))
	}
	n.socket = n.socket[:0]
	w.perform(id, n.group.Tick(now))
	if n.leaving && n.group.State() == vrrp.Initialize && !n.anyHolds() {
		w.tracef("%s exits", w.name(id))
		n.alive = false
		return
	}
	w.arm(id)
}

func (n *node) anyHolds() bool { return n.holds[0] || n.holds[1] }

// arm sets the timer to what the machines wait for.
func (w *World) arm(id int) {
	n := &w.nodes[id]
	n.timerGen++
	if at, ok := n.group.Next(); ok {
		w.queue.push(event{at: max(w.now, n.truly(at)), kind: evTimer, a: int8(id), gen: n.timerGen})
	}
}

// perform does what the machines ask for.
func (w *World) perform(id int, steps []vrrp.Step) {
	n := &w.nodes[id]
	for _, s := range steps {
		switch a := s.Action.(type) {
		case vrrp.Send:
			if n.holds[s.Member] {
				w.renew(n, s.Member)
			}
			w.truth.Sent++
			w.transmit(id, s.Member, a.Priority)
		case vrrp.Become:
			w.become(id, s.Member, a)
		case vrrp.Note:
			if w.Trace != nil && a.Kind != vrrp.NoteInterval {
				w.tracef("%s notes %s", w.label(id, s.Member), a.Kind)
			}
		}
	}
}

// renew opens the gate for three adverts.
func (w *World) renew(n *node, plane int) {
	n.gate[plane] = w.now + 3*n.interval() + w.spoil.gates
}

func (w *World) become(id, plane int, b vrrp.Become) {
	n := &w.nodes[id]
	w.tracef("%s: %s (%s)", w.label(id, plane), b.State, b.Cause)
	w.truth.Moves++
	held := n.holds[plane]
	n.holds[plane], n.changed[plane] = b.State.Holds(), w.now
	if !held {
		n.took[plane] = b.Cause
	}
	switch {
	case b.State == vrrp.Active:
		n.relieved[plane] = w.held(id, plane)
		w.renew(n, plane)
		w.checkTaking(id, plane, b.Cause)
	case b.State == vrrp.Yielding:
		w.truth.yields[plane][id] = yield{since: w.now, faults: w.truth.disruptions, sole: w.sole(id, plane)}
	case held:
		w.checkLeaving(id, plane, b.Cause)
	}
	w.judge()
}

// label names a node, with its plane if there are several.
func (w *World) label(id, plane int) string {
	if w.shape.Planes == 1 {
		return w.name(id)
	}
	return w.name(id) + string(rune('1'+plane))
}

package sim

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
)

// act is what a Fault does.
type act uint8

const (
	// Kill ends a process; its kernel goes on.
	Kill act = iota
	// Crash ends a machine; nothing answers from it.
	Crash
	// Start begins a process anew.
	Start
	// Freeze stops a process for For.
	Freeze
	// Path changes the way of A to the API, API that of everybody.
	Path
	API
	// Cut drops datagrams from A to B, Join lets them through.
	Cut
	Join
	// Unready and Ready say whether A could serve.
	Unready
	Ready
	// Release and Stop are an operator's.
	Release
	Stop
	// Delete removes the record.
	Delete
	// Name has everybody told that only the peers in Mask may hold it.
	Name
)

// Fault is one thing that happens to the world.
type Fault struct {
	Do   act
	A, B int
	Way  way
	For  time.Duration
	Mask int
}

// Inject schedules a fault.
func (w *World) Inject(at time.Duration, f Fault) {
	w.faults = append(w.faults, f)
	w.queue.push(event{at: at, what: evFault, x: int32(len(w.faults) - 1)})
}

func (w *World) apply(f Fault) {
	n := &w.nodes[f.A]
	switch f.Do {
	case Kill, Crash:
		w.trace("%s is killed", n.name)
		n.up = false
		if f.Do == Crash {
			n.gate = gate{}
		}
	case Start:
		w.start(n)
	case Freeze:
		w.trace("%s stands still for %s", n.name, f.For)
		n.frozen = max(n.frozen, w.now+f.For)
	case Path:
		w.trace("the API is %v to %s", f.Way, n.name)
		n.api = f.Way
		w.healed()
	case API:
		w.trace("the API is %v", f.Way)
		w.api = f.Way
		w.healed()
	case Cut, Join:
		w.cut[f.A][f.B] = f.Do == Cut
	case Delete:
		w.trace("the record is deleted")
		w.revision++
		w.record = lease.Seen{}
		w.tell()
	case Name:
		w.rename(f.Mask)
	default:
		w.command(n, f.Do)
	}
}

// command is what a machine is told.
func (w *World) command(n *node, do act) {
	if do == Unready || do == Ready {
		n.ready = do == Ready
	}
	if !w.runs(n) {
		return
	}
	now := n.clock(w.now)
	switch do {
	case Unready, Ready:
		w.trace("%s is ready: %v", n.name, n.ready)
		w.perform(n, n.machine.SetReady(now, n.ready))
	case Release:
		w.trace("%s is told to release", n.name)
		w.perform(n, n.machine.Release(now, ""))
	case Stop:
		w.trace("%s is told to stop", n.name)
		w.perform(n, n.machine.Stop(now))
	}
}

func (w way) String() string { return [...]string{"open", "hung", "refused"}[w] }

func (w *World) runs(n *node) bool { return n.up && n.frozen <= w.now }

// rename tells everybody who may hold the address, one after the other.
func (w *World) rename(mask int) {
	var all []lease.Peer
	for i := range w.n {
		if mask&(1<<i) != 0 {
			all = append(all, lease.Peer{Name: names[i], Address: w.peers[0].Address})
		}
	}
	if len(all) == 0 {
		return
	}
	w.trace("peers shall be %v", all)
	w.peers = slices.Clone(all)
	for i := range w.n {
		if n := &w.nodes[i]; w.runs(n) {
			w.perform(n, n.machine.SetPeers(n.clock(w.now), w.peers))
		}
	}
}

// heal mends everything.
func (w *World) heal() {
	w.api, w.cut, w.shape.Lost, w.shape.Unanswered = open, [most][most]bool{}, 0, 0
	w.rename(1<<w.n - 1)
	for i := range w.n {
		n := &w.nodes[i]
		n.api, n.ready = open, true
		n.frozen = min(n.frozen, w.now)
		if n.up {
			w.perform(n, n.machine.SetReady(n.clock(w.now), true))
			// Those who were not told of it while they stood still.
			w.perform(n, n.machine.SetPeers(n.clock(w.now), w.peers))
		}
		w.after(time.Millisecond, event{what: evStart, a: int8(i)})
		w.after(2*time.Second, event{what: evStart, a: int8(i)}) // who was about to stop
		// And who was about to stop while it stood still: what waited for it is
		// handed over at the end that its standing still had at first, up to four
		// leases from here.
		w.after(4*w.shape.Config.Duration+2*time.Second, event{what: evStart, a: int8(i)})
	}
	w.healed()
}

package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
)

// request is one on its way.
type request struct {
	node    int
	life    uint32
	id      uint64
	write   bool
	record  lease.Record
	version uint64
	settled bool // its caller has heard, or has given up
	outcome lease.Outcome
	seen    lease.Seen
}

func (w *World) request(n *node, a *lease.Action) {
	w.requests = append(w.requests, request{
		node: n.i, life: n.life, id: a.ID, write: a.Do == lease.Write, record: a.Record, version: a.Version,
	})
	x := int32(len(w.requests) - 1)
	w.judge.asked(a)
	w.traffic("%s sends request %d, a write: %v", n.name, a.ID, a.Do == lease.Write)
	timeout := time.Duration(float64(a.Timeout) / n.rate)
	w.after(timeout, event{what: evTimeout, a: int8(n.i), x: x, life: n.life})
	w.after(w.between(w.shape.Fast/50, w.shape.Fast), event{what: evExec, x: x})
}

// way is what becomes of a node's requests.
func (w *World) way(n *node) way { return max(w.api, n.api) }

// exec is a request that reaches the API.
func (w *World) exec(x int32) {
	r := &w.requests[x]
	n := &w.nodes[r.node]
	switch w.way(n) {
	case refuse:
		r.outcome = lease.Failed
		w.answer(x, n)
		return
	case hang:
		// It waits in some queue, and may be done long after its caller is gone.
		if w.chance(0.3) {
			return
		}
		w.after(w.between(50*time.Millisecond, 500*time.Millisecond), event{what: evExec, x: x})
		return
	}
	if r.settled && w.chance(0.5) {
		return // cancelled with its connection
	}
	r.outcome, r.seen = lease.Done, w.record
	if r.write {
		w.commit(r)
	}
	w.answer(x, n)
}

func (w *World) answer(x int32, n *node) {
	if w.chance(w.shape.Unanswered) {
		return
	}
	w.after(w.between(w.shape.Fast/50, w.shape.Fast), event{what: evReply, a: int8(n.i), x: x, life: w.requests[x].life})
}

// commit is compare-and-swap.
func (w *World) commit(r *request) {
	if r.version != w.record.Version {
		r.outcome, r.seen = lease.Conflict, lease.Seen{}
		return
	}
	w.judge.committed(w, &w.record.Record, r)
	w.put(r.record)
	r.seen = w.record
}

func (w *World) put(record lease.Record) {
	if o := w.record.Record; o.Holder != record.Holder || o.Given != record.Given || o.Fresh != record.Fresh {
		w.trace("the record says: holder %q, given %v, fresh %v, turn %d", record.Holder, record.Given, record.Fresh, record.Turn)
	}
	w.revision++
	w.record = lease.Seen{Record: record, Version: w.revision}
	w.tell()
}

// tell brings what the API has to the watches.
func (w *World) tell() {
	w.log = append(w.log, w.record)
	for i := range w.n {
		w.catchUp(&w.nodes[i])
	}
}

func (w *World) catchUp(n *node) {
	if !n.up {
		return
	}
	w.after(w.between(w.shape.Fast/50, w.shape.Lag), event{what: evWatch, a: int8(n.i), x: int32(len(w.log) - 1), life: n.life})
}

func (w *World) watch(n *node, x int32) {
	switch {
	case w.way(n) != open:
		n.behind = true
	case x > n.watched:
		n.watched = x
		w.perform(n, n.machine.News(n.clock(w.now), w.show(w.log[x])))
	}
}

// healed brings what watches have missed.
func (w *World) healed() {
	for i := range w.n {
		if n := &w.nodes[i]; n.behind && w.way(n) == open {
			n.behind = false
			w.catchUp(n)
		}
	}
}

func (w *World) show(s lease.Seen) lease.Seen {
	if w.bent.record != nil {
		w.bent.record(&s.Record)
	}
	return s
}

// reply is that the caller of a request hears of it, or gives up.
func (w *World) reply(n *node, r *request, heard bool) {
	if r.settled || heard && w.way(n) == hang {
		return
	}
	r.settled = true
	w.traffic("%s hears of its request %d: %v, %v", n.name, r.id, heard, r.outcome)
	now := n.clock(w.now)
	if !heard {
		w.perform(n, n.machine.Called(now, r.id, lease.Failed, lease.Seen{}))
		return
	}
	w.perform(n, n.machine.Called(now, r.id, r.outcome, w.show(r.seen)))
}

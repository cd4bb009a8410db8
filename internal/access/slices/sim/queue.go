package sim

import "time"

// kind says what an event does; see World.handle.
type kind uint8

const (
	evFault     kind = iota // x: fault
	evIdentity              // a: node whose apiserver renews its identity Lease
	evReconcile             // a: node whose apiserver reconciles the slice kubernetes
	evTick                  // the judge looks
	evCheck                 // a: agent whose check of its apiserver has come to a verdict
	evRenew                 // a: agent whose own Lease is due
	evDeliver               // a: agent whose watch brings news
	evContact               // a: node whose agent finds somebody in reach, or out of it
	evWake                  // a: agent whose timer ran out
	evZone                  // a: agent that learns the zone of its node
	evExec                  // x: request that reaches the store
	evReply                 // x: request whose caller hears of it, or gives up
)

// event is something that happens at a moment. One for an agent whose life has
// ended since is dropped; so is a wake whose serial is not the latest.
type event struct {
	at   time.Duration
	seq  uint32 // breaks ties in order of creation
	life uint32 // of agent a, for events of its own
	x    int32
	kind kind
	a    int8
}

func (e event) before(f event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

// queue is a binary heap of events, earliest first.
type queue struct {
	heap []event
	seq  uint32
}

func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	h, i := q.heap, len(q.heap)-1
	for i > 0 {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *queue) pop() event {
	h := q.heap
	top, last := h[0], len(h)-1
	h[0] = h[last]
	q.heap = h[:last]
	h = q.heap
	for i := 0; ; {
		least := 2*i + 1
		if least >= len(h) {
			return top
		}
		if right := least + 1; right < len(h) && h[right].before(h[least]) {
			least = right
		}
		if !h[least].before(h[i]) {
			return top
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func (q *queue) reset() { q.heap, q.seq = q.heap[:0], 0 }

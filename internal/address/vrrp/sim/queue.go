package sim

import "time"

// kind says what an event does; see World.handle.
type kind uint8

const (
	evFault    kind = iota // x: index of the fault
	evArrive               // an advert reaches a node: a from, b to, plane, x priority
	evRun                  // node a's process looks at its socket and its timer
	evTimer                // node a's timer is due; gen
	evGate                 // the dead-man of node a may have run out
	evDeadline             // somebody has to hold by now; gen is the count of faults
)

// event is something that happens at a moment. An event whose gen is not the
// generation it was made for any more has been cancelled.
type event struct {
	at    time.Duration
	seq   uint32 // breaks ties in order of creation
	gen   uint32
	x     int32
	kind  kind
	a, b  int8
	plane int8
}

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

// queue is a binary heap of events, earliest first. It is not
// container/heap, whose interface values would allocate for every event.
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
		if !h[i].before(&h[up]) {
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
	q.sift(0)
	return top
}

// sift moves the event at i down to where it belongs.
func (q *queue) sift(i int) {
	h := q.heap
	for {
		least := 2*i + 1
		if least >= len(h) {
			return
		}
		if right := least + 1; right < len(h) && h[right].before(&h[least]) {
			least = right
		}
		if !h[least].before(&h[i]) {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// drop removes the events of a kind.
func (q *queue) drop(k kind) {
	kept := q.heap[:0]
	for _, e := range q.heap {
		if e.kind != k {
			kept = append(kept, e)
		}
	}
	q.heap = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		q.sift(i)
	}
}

func (q *queue) reset() { q.heap, q.seq = q.heap[:0], 0 }

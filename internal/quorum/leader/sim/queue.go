package sim

import "time"

// kind says what an event does; see World.handle.
type kind uint8

const (
	evFault     kind = iota // a: index of the fault
	evElection              // a: member whose election timer ran out
	evStepDown              // a: leader whose CheckQuorum failed
	evJoin                  // a: member, b: leader it has heard from
	evCatchUp               // a: member that has the whole log again
	evTransfer              // a: leader, b: target that was told to campaign
	evThaw                  // a: member whose machine runs again
	evProbe                 // a: agent, b: member probed
	evStatus                // a: agent that polls its own member
	evPublish               // a: agent whose publishing interval ended
	evRow                   // a: agent that receives, x: row
	evDecide                // a: agent
	evRead                  // a: agent that reads the penalty record
	evSeeRecord             // a: agent, x: record that a watch delivers
	evRecorded              // a: agent whose record was written, or not
	evMove                  // a: agent that calls MoveLeader
	evMoved                 // a: agent whose call returned
)

// event is something that happens at a moment. An event whose gen is not the
// generation it was made for any more has been cancelled.
type event struct {
	at   time.Duration
	seq  uint32 // breaks ties in order of creation
	gen  uint32
	x    int32
	kind kind
	a, b int8
}

func (e event) before(f event) bool {
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
	h = h[:last]
	q.heap = h
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
		if right := least + 1; right < len(h) && h[right].before(h[least]) {
			least = right
		}
		if !h[least].before(h[i]) {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func (q *queue) reset() { q.heap, q.seq = q.heap[:0], 0 }

// restore makes a heap of events in any order.
func (q *queue) restore(events []event) {
	q.heap = events
	for i := len(events)/2 - 1; i >= 0; i-- {
		q.sift(i)
	}
}

package sim

import "time"

// what an event does; see World.handle.
type what uint8

const (
	evFault   what = iota // x: fault
	evWrite               // a client writes
	evBurst               // x: writes still to come
	evMessage             // a: member that receives, x: message
	evBoot                // a: member that has come up
	evExit                // a: member whose process ends
	evElect               // a: member whose election timer runs out
	evBeat                // a: leader
	evSync                // a: member, x: index that is on the disk, y: its term
	evAgent               // a: site whose agent is started
	evDie                 // a: site whose agent dies, x: 1 with its etcd
	evResume              // a: agent, x: task, y: serial of its wait
	evLand                // x: request that reaches the arbiter
	evAnswer              // a: agent, x: request that is answered
)

// event is something that happens at a moment. One for a process that has ended
// since is dropped; one for a process that stands still comes later.
type event struct {
	at   time.Duration
	seq  uint32 // breaks ties in order of creation
	life uint32
	x    int32
	y    uint32
	what what
	a    int8
}

func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// queue is a binary heap of events, earliest first. It is not container/heap,
// whose interface values would allocate for every event.
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

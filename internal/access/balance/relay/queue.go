package relay

import (
	"sync"
	"sync/atomic"
)

// queue holds the clients of one route that wait for a target, first come,
// first served, across loops.
type queue struct {
	// length is read without the lock by loops that look whether to stand in.
	length      atomic.Int32
	mu          sync.Mutex
	first, last *waiter
}

// waiter is a client's place in a queue.
type waiter struct {
	session    *session
	queue      *queue
	prev, next *waiter
	since      int64
}

func (q *queue) busy() bool { return q.length.Load() > 0 }

// push appends a waiter unless as many as limit wait already.
func (q *queue) push(w *waiter, limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if int(q.length.Load()) >= limit {
		return false
	}
	w.queue, w.prev = q, q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.length.Add(1)
	return true
}

// remove takes a waiter out; false when it is not in.
func (q *queue) remove(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.queue == nil {
		return false
	}
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queue, w.prev, w.next = nil, nil, nil
	q.length.Add(-1)
	return true
}

// head returns the session that is next, or nil.
func (q *queue) head() *session {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first == nil {
		return nil
	}
	return q.first.session
}

// wake lets the first client ask again. It passes the word on when it has been
// served, so one call serves all that can be.
func (q *queue) wake() {
	if !q.busy() {
		return
	}
	if s := q.head(); s != nil {
		s.loop.post(func(*loop) { s.retry() })
	}
}

// enqueue makes the session wait for a target below its limit.
func (s *session) enqueue() {
	o := s.opening
	if o.waiter.queue != nil {
		return
	}
	o.waiter.session, o.waiter.since = s, s.loop.now
	s.stage = stageQueued
	if !o.route.queue.push(&o.waiter, s.set.QueueLength) {
		s.refuse(QueueFull, nil)
		return
	}
	s.loop.engine.waiting.Add(1)
	s.arm(s.loop.now + int64(s.set.QueueTimeout))
	// A place may have come free between the question and now.
	o.route.queue.wake()
}

// retry asks for a target on behalf of the queue's first client.
func (s *session) retry() {
	if s.stage != stageQueued {
		return
	}
	o := s.opening
	if o.route.queue.head() != s {
		return
	}
	target, answer := s.pick()
	if answer == Wait {
		return
	}
	s.leaveQueue()
	defer o.route.queue.wake()
	if answer != Use {
		s.refuse(Refused, nil)
		return
	}
	s.startRace()
	s.dial(target)
	s.advance()
}

// leaveQueue is safe to call at any time.
func (s *session) leaveQueue() {
	if o := s.opening; o != nil && o.waiter.queue != nil && o.waiter.queue.remove(&o.waiter) {
		s.loop.engine.waiting.Add(-1)
	}
}

func (s *session) tickQueued(now int64) {
	until := s.opening.waiter.since + int64(s.set.QueueTimeout)
	if now >= until {
		s.refuse(QueueTimeout, nil)
		return
	}
	s.arm(until)
}

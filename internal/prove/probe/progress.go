package probe

import (
	"context"
	"slices"
	"sync"
	"time"
)

// progress matches what arrives on a stream with the samples that wait for it.
type progress struct {
	mu      sync.Mutex
	waiting []*waiter // in the order they were asked
	// owed is when the first of the waiters asked that nothing has arrived
	// since; zero while nothing is owed.
	owed time.Time
	// roundTrip is the shortest one seen, 0 before the first.
	roundTrip time.Duration
	err       error
}

type waiter struct {
	asked time.Time
	done  chan error
}

// ask registers a sample. It comes before the request is sent, so that no
// answer can come before it.
func (p *progress) ask() *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &waiter{asked: time.Now(), done: make(chan error, 1)}
	if p.err != nil {
		w.done <- p.err
		return w
	}
	if p.owed.IsZero() {
		p.owed = w.asked
	}
	p.waiting = append(p.waiting, w)
	return w
}

// wait returns nil when w is answered, the stream's error when it broke.
func (p *progress) wait(ctx context.Context, w *waiter) error {
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting = slices.DeleteFunc(p.waiting, func(o *waiter) bool { return o == w })
		return ctx.Err()
	}
}

// sign is evidence, valid at the given time, that the peer was there: every
// sample asked by then is answered.
func (p *progress) sign(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owed.After(at) {
		return
	}
	p.answer(func(w *waiter) bool { return !w.asked.After(at) })
}

// reply is an answer to one of the requests, without saying to which. Replies
// come in order, but a server may merge or drop some, so counting would drift.
// A reply therefore answers each request at least as old as the shortest round
// trip seen; a younger one cannot have been answered yet. If none is that old
// then the round trip has become shorter and the oldest request is meant.
func (p *progress) reply() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		p.owed = time.Time{}
		return
	}
	now := time.Now()
	oldest := p.waiting[0]
	if age := now.Sub(oldest.asked); p.roundTrip == 0 || age < p.roundTrip {
		p.roundTrip = age
	}
	p.answer(func(w *waiter) bool { return w == oldest || now.Sub(w.asked) >= p.roundTrip })
}

// answer completes the chosen waiters. Needs p.mu.
func (p *progress) answer(chosen func(*waiter) bool) {
	rest := p.waiting[:0]
	for _, w := range p.waiting {
		if chosen(w) {
			w.done <- nil
		} else {
			rest = append(rest, w)
		}
	}
	clear(p.waiting[len(rest):])
	p.waiting = rest
	p.owed = time.Time{}
	if len(rest) > 0 {
		p.owed = rest[0].asked
	}
}

// fail ends the stream: every waiter and every later one gets err.
func (p *progress) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	p.err = err
	for _, w := range p.waiting {
		w.done <- err
	}
	p.waiting = nil
}

// broken returns how the stream ended, errSilent when it has owed progress for
// longer than patience, or nil.
func (p *progress) broken(patience time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && !p.owed.IsZero() && time.Since(p.owed) > patience {
		return errSilent
	}
	return p.err
}

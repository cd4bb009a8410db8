package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errRetired is what a link's gone says when the peer announced the end of
// the connection in good order, and an attempt when its request was not sent
// for that reason: the sample redials and nobody failed.
var errRetired = errors.New("connection retired by peer")

// link is a connection that many samples share.
type link interface {
	comparable
	// gone says why the link can carry no further sample; nil while it can.
	gone() error
	close()
}

// kept holds one link and dials it anew when it is gone. Samples that find no
// link share one dial; a link found broken fails the sample that found it,
// because a client would have failed there too.
type kept[L link] struct {
	dial    func(context.Context) (L, error)
	timeout time.Duration

	mu      sync.Mutex
	current L
	flight  *dialling[L]
	closed  bool
	dials   sync.WaitGroup
}

// dialling is a dial in flight; link and err are set when done is closed.
type dialling[L link] struct {
	started time.Time
	done    chan struct{}
	link    L
	err     error
}

// get returns the link, dialling it within the kept timeout if need be.
func (k *kept[L]) get(ctx context.Context) (L, error) {
	var none L
	asked := time.Now()
	for {
		d, err := k.join()
		if err != nil {
			return none, err
		}
		select {
		case <-d.done:
		case <-ctx.Done():
			return none, ctx.Err()
		}
		// A dial that began before this sample may run out of its time while
		// the sample still has some; a definite answer holds for both.
		late := d.started.Before(asked) && Classify(d.err) == ClassTimeout
		if d.err == nil || !late || ctx.Err() != nil {
			return d.link, d.err
		}
	}
}

// join returns the current link as a finished dial, or the dial in flight, or
// a new one. Its error is how the current link broke.
func (k *kept[L]) join() (*dialling[L], error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var none L
	if k.flight != nil {
		return k.flight, nil
	}
	if k.current != none {
		err := k.current.gone()
		if err == nil {
			return &dialling[L]{done: closedChan, link: k.current}, nil
		}
		k.current.close()
		k.current = none
		if !errors.Is(err, errRetired) {
			return nil, fmt.Errorf("kept connection broke: %w", err)
		}
	}
	k.flight = &dialling[L]{started: time.Now(), done: make(chan struct{})}
	k.dials.Add(1)
	go k.run(k.flight)
	return k.flight, nil
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (k *kept[L]) run(d *dialling[L]) {
	defer k.dials.Done()
	ctx, cancel := context.WithTimeout(context.Background(), k.timeout)
	defer cancel()
	d.link, d.err = k.dial(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flight = nil
	if d.err == nil {
		k.current = d.link
		if k.closed {
			d.link.close()
		}
	}
	close(d.done)
}

// drop closes l if it is gone; the caller has just reported a failure on it,
// so the next sample redials instead of reporting the same break again.
func (k *kept[L]) drop(l L) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var none L
	if k.current == l && l.gone() != nil {
		k.current = none
		l.close()
	}
}

// close closes the link and waits for a dial in flight. No get may follow.
func (k *kept[L]) close() {
	k.mu.Lock()
	k.closed = true
	var none L
	if k.current != none {
		k.current.close()
	}
	k.mu.Unlock()
	k.dials.Wait()
}

package vip

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
)

// renewer gathers what publications renew in a moment, and does it together.
type renewer struct {
	// gather is how long it waits for more. It is taken off what is left of a lease
	// at its renewal, which is half of it.
	gather time.Duration
	failed func(*hold.Holder, error)
	wake   chan struct{} // of one

	mu      sync.Mutex
	pending map[*hold.Holder]time.Time
	// doing is held while Holders are renewed: whoever revokes waits, so that
	// nothing is renewed after that.
	doing sync.Mutex
}

// gatherPart of a lease is 100 ms of the default.
const gatherPart = 25

func newRenewer(lease time.Duration, failed func(*hold.Holder, error)) *renewer {
	return &renewer{gather: lease / gatherPart, failed: failed, wake: make(chan struct{}, 1), pending: map[*hold.Holder]time.Time{}}
}

// renew has a Holder hold until the deadline.
func (r *renewer) renew(h *hold.Holder, deadline time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[h] = deadline
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// revoke takes back what was asked for, and returns once none of it is under way.
func (r *renewer) revoke(h *hold.Holder) {
	r.doing.Lock()
	defer r.doing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, h)
}

// run renews until ctx ends.
func (r *renewer) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		pause(ctx, r.gather)
		r.flush()
	}
}

func (r *renewer) flush() {
	r.doing.Lock()
	defer r.doing.Unlock()
	r.mu.Lock()
	all := r.pending
	r.pending = map[*hold.Holder]time.Time{}
	r.mu.Unlock()
	for h, err := range hold.RenewTogether(all) {
		r.failed(h, err)
	}
}

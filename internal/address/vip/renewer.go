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
	wake   chan struct{} // of one

	mu      sync.Mutex
	pending map[*hold.Holder]renewal
	// doing is held while Holders are renewed: whoever revokes waits, so that
	// nothing is renewed after that.
	doing sync.Mutex
}

// renewal is until when a Holder may hold, and what is called if it has fallen mute.
type renewal struct {
	until  time.Time
	failed func(until time.Time, err error)
}

// gatherPart of a lease is 100 ms of the default.
const gatherPart = 25

func newRenewer(lease time.Duration) *renewer {
	return &renewer{gather: lease / gatherPart, wake: make(chan struct{}, 1), pending: map[*hold.Holder]renewal{}}
}

// renew has a Holder hold for longer.
func (r *renewer) renew(h *hold.Holder, to renewal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[h] = to
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
	r.pending = map[*hold.Holder]renewal{}
	r.mu.Unlock()
	until := map[*hold.Holder]time.Time{}
	for h, to := range all {
		until[h] = to.until
	}
	for h, err := range hold.RenewTogether(until) {
		all[h].failed(all[h].until, err)
	}
}

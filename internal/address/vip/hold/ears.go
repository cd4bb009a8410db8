package hold

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
)

// Hear opens a speaker and hears rivals until ctx ends or the interface is gone,
// which it returns. Call it again when one of that name is back; a new burst
// is announced then if the addresses are held.
func (h *Holder) Hear(ctx context.Context) error {
	speaker, err := announce.Open(announce.Options{
		Interface: h.config.Interface, Own: h.config.Own, As: h.as(),
		Router: forwards(h.config.Interface), Heard: h.heard,
	})
	if err != nil {
		return err
	}
	if err := speaker.Watch(h.config.Addresses); err != nil {
		return errors.Join(err, speaker.Close())
	}
	h.use(speaker)
	defer h.use(nil)
	h.Again()
	return speaker.Run(ctx)
}

func (h *Holder) use(s *announce.Speaker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.speaker != nil {
		h.earlier = sum(h.earlier, h.speaker.Counters())
	}
	h.speaker = s
}

func sum(a, b announce.Counters) announce.Counters {
	a.Requests += b.Requests
	a.Replies += b.Replies
	a.Advertisements += b.Advertisements
	a.Claims += b.Claims
	a.Probes += b.Probes
	a.Foul += b.Foul
	a.Unsent += b.Unsent
	return a
}

// heard answers a rival, and passes it on.
func (h *Holder) heard(x announce.Heard) {
	if x.Kind == announce.Claim {
		h.Again()
	}
	if h.config.Heard != nil {
		h.config.Heard(x)
	}
}

// ErrDeaf is returned by Probe before Hear has opened the interface.
var ErrDeaf = errors.New("the interface is not open yet")

// Probe asks whether a stranger has one of the addresses, and returns an
// *announce.InUse if so. Nothing may be held.
func (h *Holder) Probe(ctx context.Context, p announce.Probing) error {
	h.mu.Lock()
	speaker := h.speaker
	h.mu.Unlock()
	if speaker == nil {
		return ErrDeaf
	}
	answers := make(chan error, len(h.config.Addresses))
	for _, a := range h.config.Addresses {
		go func(a netip.Addr) { answers <- speaker.Probe(ctx, a, p) }(a)
	}
	var first error
	for range h.config.Addresses {
		if err := <-answers; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Mend adds the addresses again at once if they are held: somebody has taken one
// away.
func (h *Holder) Mend() error {
	h.ground.Lock()
	defer h.ground.Unlock()
	h.mu.Lock()
	open := h.held && time.Now().Before(h.until)
	if open {
		h.mended++
	}
	h.mu.Unlock()
	if !open {
		return nil
	}
	if err := h.refresh(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held && !h.yielding {
		h.schedule.Again(h.now())
		h.announce()
	}
	return nil
}

// Tally is what a Holder has done.
type Tally struct {
	Bursts, Mended, Renewals uint64
	announce.Counters
	// Held until the gate shuts unless it is renewed.
	Held bool
	Left time.Duration
}

// Tally returns the totals.
func (h *Holder) Tally() Tally {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := Tally{Bursts: h.bursts, Mended: h.mended, Renewals: h.renewals, Counters: h.earlier, Held: h.held}
	if h.speaker != nil {
		t.Counters = sum(t.Counters, h.speaker.Counters())
	}
	if h.held {
		t.Left = max(0, time.Until(h.until))
	}
	return t
}

package leader

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

// watch observes the link to one peer, over all of its peer URLs: etcd itself
// rotates among them, so the link is up while one answers.
type watch struct {
	id      MemberID
	name    string
	urls    []string
	probers []*etcd.Prober
	clock   func() time.Duration
	changed func() // called after the state of the link changed
	log     *slog.Logger

	mu      sync.Mutex
	tracker *tracker
	wrong   bool // something answers at the address, but not this member
	wrongAt time.Duration
	lastErr error
}

func newWatch(p etcd.Peer, timing probeTiming, files creds.Files, clock func() time.Duration, changed func(), log *slog.Logger) (*watch, error) {
	w := &watch{
		id: MemberID(p.ID), name: p.Name, urls: p.PeerURLs, clock: clock, changed: changed,
		log: log.With(keyPeer, p.Name), tracker: newTracker(timing),
	}
	for _, u := range p.PeerURLs {
		prober, err := etcd.NewProber(u, files)
		if err != nil {
			return nil, err
		}
		w.probers = append(w.probers, prober)
	}
	return w, nil
}

func (w *watch) same(p etcd.Peer) bool { return slices.Equal(w.urls, p.PeerURLs) && w.name == p.Name }

// run probes until ctx ends: steadily, and in a burst after a failure.
func (w *watch) run(ctx context.Context) {
	defer func() {
		for _, p := range w.probers {
			p.Close()
		}
	}()
	timing := w.tracker.timing
	tick := time.NewTicker(timing.Steady)
	defer tick.Stop()
	var fresh, identity time.Duration
	for {
		now := w.clock()
		useFresh := now-fresh >= timing.Fresh
		if useFresh {
			fresh = now
		}
		rtt, err := w.probe(ctx, useFresh)
		if ctx.Err() != nil {
			return
		}
		if useFresh {
			rtt = 0
		}
		w.note(func(t *tracker, now time.Duration) { t.steady(now, rtt, err == nil) }, err)
		if w.suspicious() {
			w.burst(ctx)
		}
		if err == nil && now-identity >= timing.Identity {
			identity = now
			w.identify(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe asks the peer URLs in order until one answers.
func (w *watch) probe(ctx context.Context, fresh bool) (rtt time.Duration, err error) {
	w.mu.Lock()
	timeout := w.tracker.timeout(fresh || w.tracker.state() == Down)
	w.mu.Unlock()
	for _, p := range w.probers {
		one, cancel := context.WithTimeout(ctx, timeout)
		rtt, err = p.Probe(one, fresh)
		cancel()
		if err == nil || ctx.Err() != nil {
			return rtt, err
		}
	}
	return 0, err
}

// burst sends the fresh probes that make a cut certain, spaced but
// overlapping, and counts their results in the order of sending.
func (w *watch) burst(ctx context.Context) {
	timing := w.tracker.timing
	type result struct {
		rtt time.Duration
		err error
	}
	results := make([]chan result, timing.Burst)
	for i := range results {
		results[i] = make(chan result, 1)
		go func() {
			if !pause(ctx, time.Duration(i)*timing.Spacing) {
				results[i] <- result{0, ctx.Err()}
				return
			}
			rtt, err := w.probe(ctx, true)
			results[i] <- result{rtt, err}
		}()
	}
	for _, c := range results {
		r := <-c
		if ctx.Err() != nil {
			return
		}
		w.note(func(t *tracker, now time.Duration) { t.record(now, r.err == nil) }, r.err)
	}
}

func (w *watch) identify(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.tracker.timing.Ceiling)
	defer cancel()
	known, err := w.probers[0].Identity(ctx, uint64(w.id))
	if err != nil {
		return // /raft/probing decides about the link; this only about who answers
	}
	w.mu.Lock()
	was := w.wrong
	w.wrong = !known
	if w.wrong && !was {
		w.wrongAt = w.clock()
	}
	w.mu.Unlock()
	if was != !known {
		w.log.Warn("peer address answers for another cluster", keyWrong, !known, keyRemedy, "check that the peer URL leads to this member")
		w.changed()
	}
}

// note applies one result and reports a change of state.
func (w *watch) note(apply func(*tracker, time.Duration), err error) {
	w.mu.Lock()
	before := w.tracker.state()
	apply(w.tracker, w.clock())
	view := w.tracker.view(w.clock())
	w.lastErr = err
	w.mu.Unlock()
	if before == view.State {
		return
	}
	attrs := []any{keyFrom, before.String(), keyTo, view.State.String(), keyLoss, view.Loss}
	if err != nil {
		attrs = append(attrs, keyError, err.Error())
	}
	w.log.Info("link changed", attrs...)
	w.changed()
}

func (w *watch) suspicious() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tracker.timing.Burst > 0 && w.tracker.suspicious()
}

// link is the published view. An address where another cluster answers is
// no link to this member.
func (w *watch) link() Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.tracker.view(w.clock())
	if w.wrong && l.State == Up {
		l.State, l.Since = Down, w.clock()-w.wrongAt
	}
	return l
}

// pause waits for d or the end of ctx; it reports whether d passed.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

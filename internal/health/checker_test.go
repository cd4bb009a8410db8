package health

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a Prober whose server a test sets.
type fake struct {
	mu     sync.Mutex
	result Result        // given after took
	took   time.Duration // Never: not before ctx ends
	lost   chan struct{}

	probes, running, closed atomic.Int32
}

func newFake(r Result, took time.Duration) *fake {
	return &fake{result: r, took: took, lost: make(chan struct{}, 1)}
}

func (f *fake) set(r Result, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.result, f.took = r, took
}

func (f *fake) Probe(ctx context.Context, fresh bool) Result {
	f.probes.Add(1)
	f.running.Add(1)
	defer f.running.Add(-1)
	f.mu.Lock()
	r, took := f.result, f.took
	f.mu.Unlock()
	r.Fresh = fresh
	if fresh {
		Report(ctx, Dialling)
		Report(ctx, Connected)
	}
	wait := time.After(min(took, time.Hour))
	select {
	case <-wait:
		return r
	case <-ctx.Done():
		return Result{Grade: Frozen, Reason: "ended", Fresh: fresh}
	}
}

func (f *fake) Lost() <-chan struct{} { return f.lost }
func (f *fake) Close()                { f.closed.Add(1) }

// bubble is a Checker that runs in a bubble of synctest.
type bubble struct {
	*Checker
	t       *testing.T
	fake    *fake
	inside  atomic.Int32
	changes chan Verdict
}

// check runs f with a Checker of Default timers, and ends it in good order.
func check(t *testing.T, p *fake, f func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{t: t, fake: p, changes: make(chan Verdict, 1000)}
		p.lost = make(chan struct{}, 1) // of this bubble
		b.Checker = NewChecker(p, Default(), func(v Verdict) {
			if b.inside.Add(1) != 1 {
				t.Error("changed is called concurrently")
			}
			b.changes <- v
			b.inside.Add(-1)
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.Run(ctx); close(done) }()
		f(b)
		cancel()
		<-done
		if p.closed.Load() != 1 || p.running.Load() != 0 {
			t.Errorf("after Run: closed %d times, %d probes running", p.closed.Load(), p.running.Load())
		}
	})
}

// next returns the next change, which must come within d.
func (b *bubble) next(d time.Duration) Verdict {
	b.t.Helper()
	select {
	case v := <-b.changes:
		return v
	case <-time.After(d):
		b.t.Fatalf("no change within %s; verdict %+v", d, b.Verdict())
		return Verdict{}
	}
}

// calm wants no change for d.
func (b *bubble) calm(d time.Duration) {
	b.t.Helper()
	select {
	case v := <-b.changes:
		b.t.Fatalf("changed: %+v", v)
	case <-time.After(d):
	}
}

func TestCheckerFollowsItsServer(t *testing.T) {
	check(t, newFake(Result{Grade: Ready, RTT: ms}, 2*ms), func(b *bubble) {
		if v := b.Verdict(); v.Grade != Unknown {
			t.Errorf("before the first check: %+v", v)
		}
		if v := b.next(10 * ms); v.Grade != Ready || v.At.IsZero() || v.At.After(time.Now()) {
			t.Errorf("first: %+v", v)
		}
		b.calm(time.Minute)
		if v := b.Verdict(); v.RTT != ms || v.Checks < 60 || v.Checks > 66 || v.Failures != 0 {
			t.Errorf("after a minute: %+v", v)
		}
		b.fake.set(Result{}, Never)
		if v := b.next(1300 * ms); !v.Suspect || v.Grade != Ready || v.Reason != "no answer for 250ms" {
			t.Errorf("frozen, first: %+v", v)
		}
		begun := time.Now()
		if v := b.next(760 * ms); v.Suspect || v.Grade != Frozen || !v.At.Equal(time.Now()) || v.At.Before(begun) {
			t.Errorf("frozen, then: %+v", v)
		}
		b.fake.set(Result{Grade: Ready, RTT: ms}, 2*ms)
		if v := b.next(time.Second); v.Grade != Ready {
			t.Errorf("back: %+v", v)
		}
	})
}

func TestCheckerTakesSigns(t *testing.T) {
	check(t, newFake(Result{Grade: Ready, RTT: ms}, 2*ms), func(b *bubble) {
		b.next(10 * ms)
		b.fake.set(Result{Grade: Refused, Reason: "connection refused"}, 0)
		b.fake.lost <- struct{}{}
		if v := b.next(ms); !v.Suspect || v.Reason != "the kept connection was lost" {
			t.Errorf("lost: %+v", v)
		}
		if v := b.next(ms); v.Grade != Refused {
			t.Errorf("refused: %+v", v)
		}
		b.fake.set(Result{Grade: Ready, RTT: ms}, 2*ms)
		b.next(time.Second)

		n := b.fake.probes.Load()
		for range 1000 {
			b.Evidence(ResetEarly)
			b.Evidence(DialRefused)
		}
		if v := b.next(ms); !v.Suspect {
			t.Errorf("evidence: %+v", v)
		}
		if v := b.next(10 * ms); v.Suspect || v.Grade != Ready {
			t.Errorf("evidence refuted: %+v", v)
		}
		if n := b.fake.probes.Load() - n; n != 1 {
			t.Errorf("%d probes for one storm", n)
		}
		b.Evidence(200) // not a kind
		<-time.After(250 * ms)
		n = b.fake.probes.Load()
		b.Nudge()
		synctest.Wait()
		if b.fake.probes.Load() != n+1 {
			t.Error("a nudge asks for no probe")
		}
		b.calm(time.Second)
	})
}

func TestCheckerEndsInTheMiddleOfAProbe(t *testing.T) {
	check(t, newFake(Result{}, Never), func(b *bubble) {
		b.calm(100 * ms)
		if b.fake.running.Load() != 1 {
			t.Errorf("%d probes running", b.fake.running.Load())
		}
	})
}

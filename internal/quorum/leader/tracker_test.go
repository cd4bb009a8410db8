package leader

import (
	"testing"
	"time"
)

const tick = 500 * time.Millisecond

// seen feeds n steady results and returns the time after them.
func seen(tr *tracker, at time.Duration, n int, ok bool) time.Duration {
	for range n {
		tr.steady(at, time.Millisecond, ok)
		at += tick
	}
	return at
}

func TestTrackerNeedsABurstToBeCertain(t *testing.T) {
	tr := newTracker(defaultTiming())
	if s := tr.view(0).State; s != Unknown {
		t.Fatalf("state %v before the first probe", s)
	}
	at := seen(tr, 0, tr.timing.Rise, true)
	if s := tr.view(at).State; s != Up {
		t.Fatalf("state %v after answers", s)
	}
	tr.steady(at, 0, false)
	if !tr.suspicious() {
		t.Fatal("one failure raises no suspicion")
	}
	if s := tr.view(at).State; s != Up {
		t.Fatalf("state %v after one failure", s)
	}
	for range tr.timing.Burst {
		at += tr.timing.Spacing
		tr.record(at, false)
	}
	if v := tr.view(at + time.Second); v.State != Down || v.Since != time.Second {
		t.Fatalf("after a failed burst: %+v", v)
	}
}

func TestTrackerBurstThatAnswersClearsSuspicion(t *testing.T) {
	tr := newTracker(defaultTiming())
	at := seen(tr, 0, tr.timing.Rise, true)
	tr.steady(at, 0, false)
	tr.record(at, true)
	if tr.suspicious() || tr.view(at).State != Up {
		t.Fatalf("still suspicious: %+v", tr.view(at))
	}
}

func TestTrackerComesUpOnlyAfterRise(t *testing.T) {
	timing := defaultTiming()
	tr := newTracker(timing)
	at := seen(tr, 0, timing.Fall, false)
	at = seen(tr, at, timing.Rise-1, true)
	if s := tr.view(at).State; s != Down {
		t.Fatalf("up after %d answers", timing.Rise-1)
	}
	at = seen(tr, at, 1, true)
	if v := tr.view(at); v.State != Up || v.Loss != 0 {
		t.Fatalf("after %d answers: %+v; the outage must not count as loss", timing.Rise, v)
	}
}

func TestTrackerSeesLossThatFallNeverSees(t *testing.T) {
	tr := newTracker(defaultTiming())
	at := seen(tr, 0, tr.timing.Rise, true)
	for i := range 60 {
		tr.steady(at, time.Millisecond, i%3 != 0)
		at += tick
	}
	v := tr.view(at)
	if v.State != Up || v.Loss < 0.25 || v.Loss > 0.4 {
		t.Fatalf("every third probe lost: %+v", v)
	}
}

func TestTrackerTimeoutFollowsTheRoundTrip(t *testing.T) {
	tr := newTracker(defaultTiming())
	if d := tr.timeout(false); d != tr.timing.Floor {
		t.Errorf("timeout %v before a round trip is known", d)
	}
	tr.steady(0, 86*time.Millisecond, true)
	tr.steady(tick, 0, true) // a fresh connection says nothing about the round trip
	if d := tr.timeout(false); d != 394*time.Millisecond {
		t.Errorf("timeout %v at 86 ms", d)
	}
	if d := tr.timeout(true); d <= tr.timeout(false) {
		t.Errorf("a fresh connection needs longer, got %v", d)
	}
	tr.steady(2*tick, 10*time.Second, true)
	if d := tr.timeout(true); d != tr.timing.Ceiling {
		t.Errorf("timeout %v above the ceiling", d)
	}
}

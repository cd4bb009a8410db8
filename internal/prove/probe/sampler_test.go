package probe

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// runSampler samples in a bubble until stop has passed, and returns what was
// delivered.
func runSampler(t *testing.T, p Path, stop time.Duration, attempt func(context.Context) outcome, deliver func(Sample)) []Sample {
	t.Helper()
	var got []Sample
	s := newSampler(&p, attempt, clock{time.Now()}, func(s Sample) {
		got = append(got, s)
		if deliver != nil {
			deliver(s)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), stop)
	defer cancel()
	s.run(ctx, time.Now(), 0)
	return got
}

func checkSequence(t *testing.T, samples []Sample) {
	t.Helper()
	for i, s := range samples {
		if s.Seq != uint64(i) {
			t.Fatalf("sample %d has Seq %d", i, s.Seq)
		}
	}
}

func TestTicksDoNotWaitForAHangingTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Path{Name: "p", Interval: 100 * time.Millisecond, Timeout: time.Second}
		var flying, most atomic.Int64
		start := time.Now()
		got := runSampler(t, p, 5*time.Second-time.Millisecond, func(ctx context.Context) outcome {
			most.Store(max(most.Load(), flying.Add(1)))
			defer flying.Add(-1)
			<-ctx.Done()
			return outcome{err: ctx.Err()}
		}, nil)
		if len(got) != 50 {
			t.Fatalf("%d samples in 5 s, want 50", len(got))
		}
		checkSequence(t, got)
		for i, s := range got {
			want := start.Add(time.Duration(i) * p.Interval)
			if !s.Scheduled.Equal(want) || s.Lag() != 0 || s.Latency() != time.Second || s.Class != ClassTimeout {
				t.Fatalf("sample %d: scheduled %v late, lag %v, latency %v, class %q", i, s.Scheduled.Sub(want), s.Lag(), s.Latency(), s.Class)
			}
		}
		if most.Load() > int64(p.limit()) {
			t.Errorf("%d in flight, limit %d", most.Load(), p.limit())
		}
	})
}

func TestStopWaitsForSamplesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Path{Name: "p", Interval: 100 * time.Millisecond, Timeout: time.Second}
		start := time.Now()
		got := runSampler(t, p, 250*time.Millisecond, func(context.Context) outcome {
			time.Sleep(800 * time.Millisecond)
			return outcome{}
		}, nil)
		if len(got) != 3 || !got[2].OK {
			t.Fatalf("got %+v, want 3 good samples", got)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("run returned after %v, want 1s", took)
		}
	})
}

func TestSamplesAreDeliveredInSendOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Path{Name: "p", Interval: 100 * time.Millisecond, Timeout: time.Second}
		var n atomic.Int64
		got := runSampler(t, p, 2*time.Second, func(context.Context) outcome {
			if n.Add(1)%3 == 0 {
				time.Sleep(700 * time.Millisecond)
			}
			return outcome{}
		}, nil)
		checkSequence(t, got)
	})
}

func TestABlockedSinkLosesTicksNotMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Path{Name: "p", Interval: 100 * time.Millisecond, Timeout: time.Second}
		hours := 0
		got := runSampler(t, p, 2*time.Hour, func(context.Context) outcome { return outcome{} }, func(Sample) {
			if hours == 0 {
				time.Sleep(time.Hour)
			}
			hours++
		})
		tally := NewTally("p", 0, 0)
		for _, s := range got {
			tally.Add(s)
		}
		if lost := tally.Summary().Lost; lost < 34_000 || len(got) < 36_000 {
			t.Errorf("%d samples, %d ticks lost; want the hour's 36000 lost but for the queue, and the second hour whole", len(got), lost)
		}
	})
}

func TestOnceTakesOneSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Path{Name: "p", Interval: time.Second, Timeout: time.Second}
		n := 0
		s := newSampler(&p, func(context.Context) outcome { return outcome{} }, clock{time.Now()}, func(Sample) { n++ })
		s.run(t.Context(), time.Now(), 1)
		if n != 1 {
			t.Errorf("%d samples", n)
		}
	})
}

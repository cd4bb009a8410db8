package loop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// run runs a loop in a bubble for d and returns when its body was called,
// counted from the start, and what was logged.
func run(t *testing.T, d time.Duration, l *Loop, body func(ctx context.Context, call int) error) (calls []time.Duration, log string) {
	t.Helper()
	var out bytes.Buffer
	l.Log = slog.New(slog.NewTextHandler(&out, nil))
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	err := l.Run(ctx, func(ctx context.Context) error {
		calls = append(calls, time.Since(start))
		return body(ctx, len(calls))
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run returned %v", err)
	}
	return calls, out.String()
}

func seconds(ss ...float64) []time.Duration {
	var ds []time.Duration
	for _, s := range ss {
		ds = append(ds, time.Duration(s*float64(time.Second)))
	}
	return ds
}

func TestPeriodCountsFromTheEndOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, log := run(t, 7*time.Second, &Loop{Period: time.Second}, func(context.Context, int) error {
			<-time.After(time.Second)
			return nil
		})
		if want := seconds(0, 2, 4, 6); !slices.Equal(calls, want) || log != "" {
			t.Errorf("called at %v, want %v; log %q", calls, want, log)
		}
	})
}

func TestNudgesCoalesceAndAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Loop{Period: 10 * time.Second}
		time.AfterFunc(3*time.Second, l.Nudge) // while waiting
		calls, _ := run(t, 9*time.Second, l, func(_ context.Context, call int) error {
			if call == 1 { // during a run
				l.Nudge()
				l.Nudge()
			}
			return nil
		})
		if want := seconds(0, 0, 3); !slices.Equal(calls, want) {
			t.Errorf("called at %v, want %v", calls, want)
		}
	})
}

func TestBackoffDoublesAndLogsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Loop{Name: "leader", Period: 2 * time.Second, Backoff: Backoff{time.Second, 4 * time.Second}}
		calls, log := run(t, 16*time.Second, l, func(_ context.Context, call int) error {
			if call <= 5 {
				return errors.New("no leader")
			}
			return nil
		})
		if want := seconds(0, 1, 3, 7, 11, 15); !slices.Equal(calls, want) {
			t.Errorf("called at %v, want %v", calls, want)
		}
		if strings.Count(log, "no leader") != 1 || !strings.Contains(log, "works again") || !strings.Contains(log, "failures=5 after=15s") {
			t.Errorf("log:\n%s", log)
		}
	})
}

func TestNudgeCannotMakeAFailureBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Loop{Period: time.Minute, Backoff: Backoff{time.Second, time.Minute}}
		calls, _ := run(t, 3500*time.Millisecond, l, func(context.Context, int) error {
			l.Nudge()
			return errors.New("down")
		})
		if want := seconds(0, 1, 2, 3); !slices.Equal(calls, want) {
			t.Errorf("called at %v, want %v", calls, want)
		}
	})
}

func TestPanicIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, log := run(t, 90*time.Millisecond*4, &Loop{Period: 100 * time.Millisecond}, func(_ context.Context, call int) error {
			if call <= 2 {
				panic("index out of range")
			}
			return nil
		})
		if len(calls) != 3 {
			t.Errorf("called at %v", calls)
		}
		if strings.Count(log, "panic: index out of range") != 1 || !strings.Contains(log, "loop_test.go") {
			t.Errorf("log:\n%s", log)
		}
	})
}

func TestJitterOnlyLengthens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, _ := run(t, time.Hour, &Loop{Period: time.Second, Jitter: 0.5}, func(context.Context, int) error { return nil })
		spread := map[time.Duration]bool{}
		for i := 1; i < len(calls); i++ {
			d := calls[i] - calls[i-1]
			if d < time.Second || d > 1500*time.Millisecond {
				t.Fatalf("wait of %s", d)
			}
			spread[d.Round(100*time.Millisecond)] = true
		}
		if len(spread) < 5 {
			t.Errorf("waits hardly differ: %v", spread)
		}
	})
}

func TestEndOfContextEndsTheBodyQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log := run(t, time.Second, &Loop{Period: time.Second}, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if log != "" {
			t.Errorf("log %q", log)
		}
	})
}

func TestBackoffDoesNotOverflow(t *testing.T) {
	b := Backoff{time.Second, time.Hour}
	if got := b.after(1 << 30); got != time.Hour {
		t.Errorf("got %s", got)
	}
}

package loop

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"
)

// Backoff is the wait after failures: Min after the first, then doubled up to Max.
type Backoff struct {
	Min, Max time.Duration
}

// after returns the wait after the given number of failures in a row, from 1.
func (b Backoff) after(failures int) time.Duration {
	wait := b.Min
	for ; failures > 1 && wait < b.Max; failures-- {
		wait *= 2
	}
	return min(wait, b.Max)
}

// Loop calls a body again and again. The fields are set before Run and not
// changed afterwards. The zero value of an optional field takes the default
// that it names.
type Loop struct {
	// Name stands in log lines: "leader", "slices".
	Name string
	// Log is required.
	Log *slog.Logger
	// Period is the time from the end of a run to the start of the next.
	// Required; panics in Run when it is not positive.
	Period time.Duration
	// Jitter spreads agents that were started together: each wait is longer
	// by a random share of Period between 0 and Jitter. 0 means none.
	Jitter float64
	// Backoff is taken instead of Period after a failure. Zero means from
	// Period/10 (at least 100 ms) to 10 times Period, so that a passing
	// failure costs less than a period and a lasting one a tenth of the load.
	Backoff Backoff

	once  sync.Once
	nudge chan struct{}
}

func (l *Loop) init() {
	l.once.Do(func() { l.nudge = make(chan struct{}, 1) })
}

// Nudge asks for a run now. It never blocks and may be called from anywhere,
// before, during and after Run.
func (l *Loop) Nudge() {
	l.init()
	select {
	case l.nudge <- struct{}{}:
	default: // one is waiting already
	}
}

// Run calls body at once and then as the fields say, until ctx ends; it
// returns the cause. An error of the body that comes with the end of ctx is
// not logged.
func (l *Loop) Run(ctx context.Context, body func(context.Context) error) error {
	if l.Period <= 0 {
		panic("loop: Period is not positive")
	}
	l.init()
	backoff := l.Backoff
	if backoff == (Backoff{}) {
		backoff = Backoff{max(l.Period/10, 100*time.Millisecond), 10 * l.Period}
	}
	f := failing{name: l.Name, log: l.Log}
	for ctx.Err() == nil {
		err := guarded(ctx, body)
		if ctx.Err() != nil {
			break
		}
		f.note(ctx, err)
		if err == nil {
			l.wait(ctx, 0, l.Period)
		} else {
			l.wait(ctx, backoff.Min, backoff.after(f.count))
		}
	}
	return context.Cause(ctx)
}

// wait returns after about d, or after a nudge but not before floor, or when
// ctx ends.
func (l *Loop) wait(ctx context.Context, floor, d time.Duration) {
	d += time.Duration(rand.Float64() * l.Jitter * float64(l.Period))
	if floor > 0 && !sleep(ctx, nil, min(floor, d)) {
		return
	}
	sleep(ctx, l.nudge, d-min(floor, d))
}

// sleep reports whether ctx is still alive after d or a receive from early.
func sleep(ctx context.Context, early <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-ctx.Done():
		return false
	}
	return true
}

// panicked is a panic of the body as an error.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func guarded(ctx context.Context, body func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	return body(ctx)
}

// failing remembers a row of failures, so that each is logged once.
type failing struct {
	name  string
	log   *slog.Logger
	count int
	last  string
	since time.Time
}

func (f *failing) note(ctx context.Context, err error) {
	switch {
	case err == nil && f.count > 0:
		f.log.InfoContext(ctx, "loop works again", "loop", f.name, "failures", f.count, "after", time.Since(f.since).Round(time.Millisecond))
		f.count, f.last = 0, ""
	case err != nil:
		if f.count == 0 {
			f.since = time.Now()
		}
		f.count++
		if text := err.Error(); text != f.last {
			f.last = text
			f.logError(ctx, err)
		}
	}
}

func (f *failing) logError(ctx context.Context, err error) {
	attrs := []any{"loop", f.name, "error", err}
	if p, ok := err.(*panicked); ok {
		attrs = append(attrs, "stack", string(p.stack))
	}
	f.log.ErrorContext(ctx, "loop failed; trying again", attrs...)
}

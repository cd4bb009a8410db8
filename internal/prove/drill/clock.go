package drill

import (
	"context"
	"time"
)

// clock reads wall-clock time from one monotonic origin, so that a step of the
// system's clock during a run does not bend its record.
type clock struct{ origin time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() time.Time { return c.at(time.Now()) }

// at brings a time that was read elsewhere in this process to the clock.
func (c clock) at(t time.Time) time.Time { return c.origin.Add(t.Sub(c.origin)) }

// pause waits until t or the end of ctx.
func (c clock) pause(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(t.Sub(c.now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// until polls ready every 50 ms until it holds; false when patience or ctx end
// first.
func until(ctx context.Context, patience time.Duration, ready func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

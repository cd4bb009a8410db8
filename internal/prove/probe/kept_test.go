package probe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fakeLink is a link whose end the test decides.
type fakeLink struct {
	err    error
	closed bool
}

func (l *fakeLink) gone() error { return l.err }
func (l *fakeLink) close()      { l.closed = true }

func TestKeptSharesOneDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		k := &kept[*fakeLink]{timeout: time.Second, dial: func(context.Context) (*fakeLink, error) {
			dials.Add(1)
			time.Sleep(300 * time.Millisecond)
			return &fakeLink{}, nil
		}}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := k.get(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if dials.Load() != 1 {
			t.Errorf("%d dials", dials.Load())
		}
		k.close()
	})
}

// A sample that joins a dial shortly before that runs out of time has most of
// its own time left, and gets another dial.
func TestKeptGivesALateSampleItsOwnDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		k := &kept[*fakeLink]{timeout: time.Second, dial: func(ctx context.Context) (*fakeLink, error) {
			if dials.Add(1) == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &fakeLink{}, nil
		}}
		go func() { _, _ = k.get(t.Context()) }()
		time.Sleep(900 * time.Millisecond)
		start := time.Now()
		if _, err := k.get(t.Context()); err != nil || time.Since(start) != 100*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		k.close()
	})
}

func TestKeptRefusalHoldsForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		k := &kept[*fakeLink]{timeout: time.Second, dial: func(context.Context) (*fakeLink, error) {
			dials.Add(1)
			time.Sleep(50 * time.Millisecond)
			return nil, syscall.ECONNREFUSED
		}}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, err := k.get(t.Context()); Classify(err) != ClassRefused {
					t.Errorf("got %v", err)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		if dials.Load() != 1 {
			t.Errorf("%d dials", dials.Load())
		}
	})
}

func TestKeptReportsABreakOnceAndRedials(t *testing.T) {
	links := []*fakeLink{{}, {}}
	dials := 0
	k := &kept[*fakeLink]{timeout: time.Second, dial: func(context.Context) (*fakeLink, error) {
		dials++
		return links[dials-1], nil
	}}
	defer k.close()
	if _, err := k.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	links[0].err = syscall.ECONNRESET
	if _, err := k.get(t.Context()); Classify(err) != ClassReset || !links[0].closed {
		t.Errorf("broken link: got %v, closed %v", err, links[0].closed)
	}
	if l, err := k.get(t.Context()); err != nil || l != links[1] {
		t.Errorf("after the break: got %v", err)
	}
}

func TestKeptRedialsARetiredLinkWithoutFailure(t *testing.T) {
	first := &fakeLink{}
	next := first
	k := &kept[*fakeLink]{timeout: time.Second, dial: func(context.Context) (*fakeLink, error) { return next, nil }}
	defer k.close()
	if _, err := k.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.err, next = errRetired, &fakeLink{}
	if l, err := k.get(t.Context()); err != nil || l != next || !first.closed {
		t.Errorf("got %v, %v, closed %v", l, err, first.closed)
	}
}

func TestKeptClosesALinkDialledTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLink{}
		k := &kept[*fakeLink]{timeout: time.Second, dial: func(context.Context) (*fakeLink, error) {
			time.Sleep(500 * time.Millisecond)
			return l, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := k.get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		k.close()
		if !l.closed {
			t.Error("link left open")
		}
	})
}

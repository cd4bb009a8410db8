package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAtMostOneHolds runs contenders whose clocks run at different rates through
// slow requests, lost answers, long pauses and deletions, and looks at every
// moment when one of them may have changed its mind.
func TestAtMostOneHolds(t *testing.T) {
	seeds := 25
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { contend(t, rand.New(rand.NewPCG(uint64(seed), 1))) })
		})
	}
}

func contend(t *testing.T, random *rand.Rand) {
	s := newStore(t)
	var mu sync.Mutex
	chance := func(n int) bool { mu.Lock(); defer mu.Unlock(); return random.IntN(n) == 0 }
	upTo := func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(d)))
	}
	var quiet atomic.Bool
	trouble := func(*http.Request) error {
		switch {
		case quiet.Load():
		case chance(5):
			return errors.New("lost")
		case chance(3):
			time.Sleep(upTo(4 * time.Second))
		}
		return nil
	}
	s.trouble(trouble, trouble)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var locks []*Lock
	for i := range 3 {
		l := s.lock(t, string(rune('a'+i)))
		begin, rate := time.Now(), 0.95+float64(upTo(101))/1000
		l.now = func() time.Time { return begin.Add(time.Duration(float64(time.Since(begin)) * rate)) }
		locks = append(locks, l)
		group.Go(func() {
			for ctx.Err() == nil {
				_, _ = l.Acquire(ctx)
				pause := 1000*time.Millisecond + upTo(3*time.Second)
				if !quiet.Load() && chance(10) {
					pause += upTo(20 * time.Second)
				}
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
				if !quiet.Load() && chance(15) {
					_ = l.Release(ctx)
				}
			}
		})
	}
	holders := 0
	for step := range 20000 {
		time.Sleep(25 * time.Millisecond)
		now := []string{}
		for _, l := range locks {
			if l.Held() {
				now = append(now, l.Identity)
			}
		}
		if len(now) > 1 {
			t.Errorf("step %d: %v hold it", step, now)
			break
		}
		holders += len(now)
		if !quiet.Load() && chance(4000) {
			s.remove()
		}
		if step == 18000 {
			quiet.Store(true)
		}
		if step > 18000+1600 && len(now) == 0 { // 40 s
			t.Errorf("step %d: nobody holds it", step)
			break
		}
	}
	if holders < 2000 {
		t.Errorf("held in %d of 20000 moments only", holders)
	}
	cancel()
	group.Wait()
	time.Sleep(10 * time.Second) // the server's own
}

package lease

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// attempt makes one and checks its outcome.
func attempt(t *testing.T, l *Lock, want bool) {
	t.Helper()
	held, err := l.Acquire(t.Context())
	if err != nil || held != want || l.Held() != want {
		t.Fatalf("%s: held %v, %v; want %v", l.Identity, held, err, want)
	}
}

// first gives the Lease to l, which creates it and waits.
func first(t *testing.T, l *Lock) {
	t.Helper()
	attempt(t, l, false)
	time.Sleep(l.Duration)
	attempt(t, l, true)
}

func TestALeaseThatWasMissingIsHeldAfterTheTimeOfWhoeverHadIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		a, b := s.lock(t, "a"), s.lock(t, "b")
		first(t, a)
		if got := a.Until(); time.Until(got) != 9*time.Second {
			t.Errorf("held for %v", time.Until(got))
		}
		s.remove() // by somebody who did not know
		attempt(t, b, false)
		if s.holder() != "b" || !a.Held() {
			t.Error("a cannot know yet")
		}
		if err := b.Release(t.Context()); !errors.Is(err, ErrNotHeld) || s.holder() != "b" {
			t.Errorf("b passed on what it did not have: %v", err)
		}
		attempt(t, b, false)
		time.Sleep(5 * time.Second)
		attempt(t, a, false)
		attempt(t, b, false)
		time.Sleep(5*time.Second - time.Millisecond)
		if b.Held() {
			t.Error("b holds it too early")
		}
		time.Sleep(time.Millisecond)
		if !b.Held() {
			t.Error("b does not hold it")
		}
	})
}

func TestALeaseIsTakenOnlyWhenItWasNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		a, b := s.lock(t, "a"), s.lock(t, "b")
		first(t, a)
		for range 10 {
			attempt(t, b, false)
			time.Sleep(3 * time.Second)
			attempt(t, a, true)
		}
		if b.Holder() != "a" {
			t.Errorf("b thinks that %s holds it", b.Holder())
		}
		attempt(t, b, false) // and a dies
		time.Sleep(9 * time.Second)
		if a.Held() {
			t.Error("a still believes")
		}
		attempt(t, b, false)
		time.Sleep(time.Second)
		attempt(t, b, true)
		attempt(t, a, false)
		if err := a.Renew(t.Context()); !errors.Is(err, ErrNotHeld) {
			t.Errorf("renewed: %v", err)
		}
		if s.object["spec"].(map[string]any)["leaseTransitions"] != 2.0 {
			t.Errorf("%v", s.object)
		}
	})
}

func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		a, b := s.lock(t, "a"), s.lock(t, "b")
		first(t, a)
		if err := a.Release(t.Context()); err != nil || a.Held() || s.holder() != nil {
			t.Errorf("%v; held by %v", err, s.holder())
		}
		attempt(t, b, true)
		if err := a.Release(t.Context()); !errors.Is(err, ErrNotHeld) || s.holder() != "b" {
			t.Errorf("released what is another's: %v", err)
		}
	})
}

// An answer is lost: the write may have been done or not.
func TestALostAnswerIsNoRenewal(t *testing.T) {
	for name, done := range map[string]bool{"done": true, "not done": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t)
				a := s.lock(t, "a")
				first(t, a)
				until := a.Until()
				time.Sleep(3 * time.Second)
				lose := func(r *http.Request) error {
					if r.Method == http.MethodPatch {
						return errors.New("lost")
					}
					return nil
				}
				if done {
					s.trouble(nil, lose)
				} else {
					s.trouble(lose, nil)
				}
				if held, err := a.Acquire(t.Context()); !held || err == nil || !a.Until().Equal(until) {
					t.Errorf("held %v until %v, %v", held, a.Until(), err)
				}
				s.trouble(nil, nil)
				attempt(t, a, true)
				if a.Until().Sub(until) != 3*time.Second {
					t.Errorf("held until %v", a.Until().Sub(until))
				}
			})
		})
	}
}

// What takes long counts from when it was sent.
func TestTimeRunsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		a := s.lock(t, "a")
		first(t, a)
		s.trouble(nil, func(*http.Request) error { time.Sleep(2 * time.Second); return nil })
		attempt(t, a, true)
		if left := time.Until(a.Until()); left != 7*time.Second {
			t.Errorf("left %v", left)
		}
	})
}

func TestOthersMayWriteOtherFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		a := s.lock(t, "a")
		first(t, a)
		s.mu.Lock()
		s.replace("metadata", map[string]any{"labels": map[string]any{"team": "x"}})
		s.touch()
		s.mu.Unlock()
		attempt(t, a, true)
		if s.object["metadata"].(map[string]any)["labels"] == nil {
			t.Errorf("lost the labels: %v", s.object)
		}
	})
}

func TestContextEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStore(t).lock(t, "a")
		first(t, a)
		start := time.Now()
		ctx, cancel := a.Context(t.Context())
		defer cancel()
		<-ctx.Done()
		if time.Since(start) != 9*time.Second || !errors.Is(context.Cause(ctx), ErrNotHeld) {
			t.Errorf("after %v: %v", time.Since(start), context.Cause(ctx))
		}
		free, cancelFree := a.Context(t.Context())
		defer cancelFree()
		if free.Err() == nil {
			t.Error("a context without the lease")
		}
	})
}

func TestKeepPassesTheLeaseOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		start := time.Now()
		told := make(chan string, 100)
		keep := func(l *Lock) context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			go l.Keep(ctx, func(held bool) {
				if held {
					told <- l.Identity
				} else {
					told <- "not " + l.Identity
				}
			}, func(err error) {
				if err != nil {
					t.Log(time.Since(start), l.Identity, err)
				}
			})
			return cancel
		}
		a, b := s.lock(t, "a"), s.lock(t, "b")
		endA := keep(a)
		if got := <-told; got != "a" || time.Since(start) > 10500*time.Millisecond {
			t.Fatalf("%s after %v", got, time.Since(start))
		}
		endB := keep(b)
		defer func() { endB(); synctest.Wait() }()
		time.Sleep(time.Minute)
		if !a.Held() || b.Held() {
			t.Fatal("a lost it")
		}
		endA()
		released := time.Now()
		if got := <-told; got != "not a" {
			t.Fatal(got)
		}
		if got := <-told; got != "b" || time.Since(released) > 4*time.Second {
			t.Fatalf("%s after %v", got, time.Since(released))
		}
		// Cut off, b stops by itself.
		s.trouble(func(*http.Request) error { return errors.New("cut") }, nil)
		cut := time.Now()
		if got := <-told; got != "not b" || time.Since(cut) > 9*time.Second {
			t.Fatalf("%s after %v", got, time.Since(cut))
		}
		s.trouble(nil, nil)
		if got := <-told; got != "b" {
			t.Fatal(got)
		}
	})
}

func TestKeepAsksSeldomWhereItMayNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		l := s.lock(t, "a")
		refused := 0
		l.Client = func() (*kubeapi.Client, error) {
			refused++
			return nil, &kubeapi.StatusError{Code: http.StatusForbidden}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		l.Keep(ctx, func(bool) {}, func(error) {})
		if refused < 9 || refused > 12 {
			t.Errorf("asked %d times in five minutes", refused)
		}
	})
}

// An API that fails, or refuses the Lease for a reason of its own, is not asked
// at two times a second for ever by those who wait for it.
func TestKeepHurriesOnlyWhileTheLeaseIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		l := s.lock(t, "a")
		first(t, l)
		client, _ := l.Client()
		var asked atomic.Int32
		var well atomic.Bool
		l.Client = func() (*kubeapi.Client, error) {
			if asked.Add(1); !well.Load() {
				return nil, &kubeapi.StatusError{Code: http.StatusUnprocessableEntity}
			}
			return client, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		won, done := make(chan struct{}, 9), make(chan struct{})
		go func() {
			l.Keep(ctx, func(now bool) {
				if now && well.Load() {
					won <- struct{}{}
				}
			}, func(error) {})
			close(done)
		}()
		time.Sleep(l.Duration)
		if n := asked.Swap(0); n < 12 || n > 34 {
			t.Errorf("asked %d times while time was running out", n)
		}
		time.Sleep(5 * time.Minute)
		if n := asked.Load(); n > 100 { // a round is 3.3 s
			t.Errorf("asked %d times in five minutes", n)
		}
		well.Store(true)
		healed := time.Now()
		if <-won; time.Since(healed) > 4*time.Second {
			t.Errorf("held %v after the API was well again", time.Since(healed))
		}
		cancel()
		<-done
	})
}

// The holder's clock is slow, the contender's fast, and the holder is cut off
// right after it renewed.
func TestClocksMayRunAtDifferentRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		a, b := s.lock(t, "a"), s.lock(t, "b")
		begin := time.Now()
		at := func(rate float64) func() time.Time {
			return func() time.Time { return begin.Add(time.Duration(float64(time.Since(begin)) * rate)) }
		}
		a.now, b.now = at(0.953), at(1.047)
		attempt(t, a, false)
		time.Sleep(11 * time.Second)
		attempt(t, a, true)
		for start := time.Now(); !b.Held(); time.Sleep(10 * time.Millisecond) {
			if _, err := b.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			if a.Held() && b.Held() {
				t.Fatalf("both hold it after %v", time.Since(start))
			}
			if time.Since(start) > 10*time.Second {
				t.Fatal("b does not get it")
			}
		}
	})
}

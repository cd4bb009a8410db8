package probe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// answered reports whether w has its answer.
func answered(w *waiter) bool { return len(w.done) == 1 }

func TestAReplyAnswersWhatItCanHaveAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &progress{}
		first := p.ask()
		time.Sleep(40 * time.Millisecond)
		p.reply() // the round trip is 40 ms
		lost := p.ask()
		time.Sleep(100 * time.Millisecond)
		second := p.ask()
		time.Sleep(40 * time.Millisecond)
		third := p.ask()
		time.Sleep(5 * time.Millisecond)
		p.reply()
		if !answered(first) || !answered(lost) || !answered(second) {
			t.Errorf("left waiting: first %v, lost %v, second %v", answered(first), answered(lost), answered(second))
		}
		if answered(third) {
			t.Error("a request younger than the round trip counts as answered")
		}
	})
}

func TestAShorterRoundTripIsLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &progress{}
		p.ask()
		time.Sleep(300 * time.Millisecond)
		p.reply()
		w := p.ask()
		time.Sleep(10 * time.Millisecond)
		p.reply()
		if !answered(w) || p.roundTrip != 10*time.Millisecond {
			t.Errorf("answered %v, round trip %v", answered(w), p.roundTrip)
		}
	})
}

func TestASignAnswersWhatWasAskedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &progress{}
		early := p.ask()
		time.Sleep(time.Second)
		at := time.Now()
		time.Sleep(time.Second)
		late := p.ask()
		p.sign(at)
		if !answered(early) || answered(late) {
			t.Errorf("early %v, late %v", answered(early), answered(late))
		}
	})
}

func TestProgressEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &progress{}
		w := p.ask()
		p.fail(errClosed)
		p.fail(errors.New("later"))
		if err := p.wait(t.Context(), w); !errors.Is(err, errClosed) {
			t.Errorf("waiter got %v", err)
		}
		if err := p.wait(t.Context(), p.ask()); !errors.Is(err, errClosed) {
			t.Errorf("later waiter got %v", err)
		}
	})
}

func TestAStreamIsGivenUpForSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &progress{}
		time.Sleep(time.Hour) // nobody asked: nothing is owed
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := p.wait(ctx, p.ask()); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		if err := p.broken(10 * time.Second); err != nil {
			t.Errorf("given up at the limit: %v", err)
		}
		time.Sleep(time.Millisecond)
		if err := p.broken(10 * time.Second); !errors.Is(err, errSilent) {
			t.Errorf("after 10 s of silence: %v", err)
		}
		p.sign(time.Now())
		if err := p.broken(10 * time.Second); err != nil {
			t.Errorf("after a sign of life: %v", err)
		}
	})
}

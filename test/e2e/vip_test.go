package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// slack is what a busy machine of two cores may add to a bar.
const slack = 400 * time.Millisecond

// three starts three of ours, of which the first is the best, and waits until it
// holds the address.
func three(t *testing.T) *wire {
	w := newWire(t, 3)
	for i := 1; i <= 3; i++ {
		w.start(i, router(i), "")
	}
	w.await("somebody holds the address", 10*time.Second, func() bool { return w.on(1) || w.on(2) || w.on(3) })
	w.await("one machine answers", 10*time.Second, func() bool { return w.client.last() != 0 })
	w.awaitHolder(w.client.last())
	return w
}

// others than i, in order.
func (w *wire) successor(i int) int {
	if i == 1 {
		return 2
	}
	return 1
}

func (w *wire) expect(what string, got seen, gap, both time.Duration) {
	w.t.Helper()
	w.t.Logf("%s: gap %s (%d lost), two at once %s, answered by %v", what, got.gap.Round(100*time.Microsecond), got.lost, got.both.Round(100*time.Microsecond), got.by)
	if got.gap > gap {
		w.t.Errorf("%s: no answer for %s, at most %s expected", what, got.gap, gap)
	}
	if got.both > both {
		w.t.Errorf("%s: two answered at once for %s, at most %s expected", what, got.both, both)
	}
}

// oneAdvert and a round trip, on a busy machine: how long two may answer at once.
const oneAdvert = 100*time.Millisecond + 20*time.Millisecond

func TestVIPHolderDies(t *testing.T) {
	w := three(t)
	holder := w.client.last()
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		begun := time.Now()
		w.kill(holder, how)
		w.await("another answers", 5*time.Second, func() bool { return w.client.last() != holder })
		next := w.client.last()
		w.await("the address is gone from the machine whose agent is dead", 2500*time.Millisecond+slack, func() bool { return !w.on(holder) })
		w.expect(fmt.Sprint(how), w.client.since(begun), 330*time.Millisecond+slack, oneAdvert)
		w.awaitHolder(next)
		// It comes back, or is continued, and takes nothing back.
		begun = time.Now()
		if how == syscall.SIGKILL {
			w.start(holder, router(holder), "")
		} else {
			w.kill(holder, syscall.SIGCONT)
		}
		w.await("it is back", 5*time.Second, func() bool {
			s, err := w.status(holder)
			return err == nil && s.State == "backup"
		})
		<-time.After(time.Second)
		w.awaitHolder(next)
		w.expect(fmt.Sprint("after ", how), w.client.since(begun), 50*time.Millisecond+slack/4, 0)
		holder = next
	}
}

func TestVIPHandOver(t *testing.T) {
	w := three(t)
	for _, how := range []string{"release", "SIGTERM"} {
		holder := w.client.last()
		begun := time.Now()
		if how == "release" {
			if err := w.release(holder); err != nil {
				t.Fatal(err)
			}
		} else {
			w.stop(holder)
		}
		w.await("another answers", 5*time.Second, func() bool { return w.client.last() != holder })
		w.awaitHolder(w.client.last())
		w.expect(how, w.client.since(begun), 5*time.Millisecond+slack/4, oneAdvert)
		if how == "SIGTERM" {
			w.start(holder, router(holder), "")
		}
	}
}

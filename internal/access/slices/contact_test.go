package slices

import (
	"context"
	"log/slog"
	stdslices "slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// ways are which addresses accept connections.
type ways struct {
	mu    sync.Mutex
	open  map[string]bool
	tried int
}

func (w *ways) set(address string, open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[address] = open
}

func (w *ways) tries() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tried
}

func TestContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ways{open: map[string]bool{"a1": true, "c1": true, "c2": true}}
		c := newContact(slog.New(slog.DiscardHandler))
		c.dial = func(_ context.Context, address string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.tried++
			return w.open[address]
		}
		ctx, cancel := context.WithCancel(t.Context())
		var changes atomic.Int32
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.run(ctx, func() map[string][]string { return map[string][]string{"a": {"a1"}, "c": {"c1", "c2"}} }, func() { changes.Add(1) })
		}()
		after := func(d time.Duration, wantChanges int32, want ...string) {
			t.Helper()
			pause(t.Context(), d)
			synctest.Wait()
			if got := c.unreached(); !stdslices.Equal(got, want) || changes.Load() != wantChanges {
				t.Errorf("unreached %v after %d changes, want %v after %d", got, changes.Load(), want, wantChanges)
			}
		}
		after(time.Minute, 0)
		if w.tries() != 0 {
			t.Errorf("%d tries while nobody asks", w.tries())
		}
		w.set("a1", false)
		w.set("c1", false) // the other address is enough
		c.seek(true)
		after(time.Millisecond, 0)
		after(reachEvery, 1, "a")
		w.set("c2", false)
		after(reachEvery, 1, "a")
		w.set("c2", true) // one failure is none
		after(reachEvery, 1, "a")
		w.set("a1", true)
		after(reachEvery, 2)
		w.set("a1", false)
		after(2*reachEvery, 3, "a")
		c.seek(false)
		after(reachEvery, 3)
		before := w.tries()
		after(time.Minute, 3)
		if w.tries() != before {
			t.Errorf("%d tries after nobody asks", w.tries()-before)
		}
		c.seek(true)
		after(time.Hour, 4, "a")
		// Less often after a while, for each is a line in somebody's log.
		if most := 3 * int(time.Hour/reachLater+20); w.tries()-before > most {
			t.Errorf("%d tries in an hour, want at most %d", w.tries()-before, most)
		}
		cancel()
		<-ended
	})
}

func TestDependent(t *testing.T) {
	own := plan.Slice{Name: "kubernetes-b1", Owner: plan.Ours, Node: "b1", Zone: "b", Ready: true}
	gone, beside := own, own
	gone.Ready = false
	beside.Name, beside.Node = "kubernetes-b2", "b2"
	foreign := beside
	foreign.Owner = plan.Foreign
	for name, c := range map[string]struct {
		zone   string
		health plan.Health
		slices []plan.Slice
		want   bool
	}{
		"ready":                      {"b", plan.Ready, []plan.Slice{own}, false},
		"unready, not yet out":       {"b", plan.Unready, []plan.Slice{own}, true},
		"ready again, not yet in":    {"b", plan.Ready, []plan.Slice{gone}, true},
		"another of the zone":        {"b", plan.Unready, []plan.Slice{gone, beside}, false},
		"another that is not ours":   {"b", plan.Unready, []plan.Slice{gone, foreign}, true},
		"no zone":                    {"", plan.Unready, []plan.Slice{own}, false},
		"nothing known of one's own": {"b", plan.Unknown, []plan.Slice{gone}, false},
	} {
		self := plan.Self{Node: "b1", Zone: c.zone, Health: c.health}
		if got := dependent(&self, &plan.View{Slices: c.slices}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

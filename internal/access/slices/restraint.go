package slices

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

const (
	// mostWait bounds the waits between tries of the same write. One try costs
	// two writes of the short Lease and one more; with a renewal in 10 s that
	// makes 0.2 writes a second.
	mostWait = 30 * time.Second
	// mostRefused bounds them where only a person can help.
	mostRefused = time.Minute
	// mostUnanswered bounds them where nothing answered: the next server may, the
	// API was not burdened, and what waits may be a withdrawal.
	mostUnanswered = 600 * time.Millisecond
	// lullAfter ends a row of tries: what is written again later than twice the
	// wait and this is new.
	lullAfter = 2 * time.Second
)

// restraint spaces the tries of a write that is planned again and again: because
// it fails, because somebody changes back what it wrote, or because the watches
// lag behind. Each wait is half the time that the row of tries has lasted, so a
// fault of 2 s costs 1 s more, and one that lasts costs a try in mostWait. It is
// of the loop's goroutine.
type restraint struct {
	rows map[string]*row
}

// row is tries of one write.
type row struct {
	first, last, until time.Time
	tries              int
	done               bool // the last one succeeded
	// once says that some have. The first that does begins the row anew: what kept
	// the others from it has passed, and if it is undone that is another trouble.
	once bool
	// ends is the slice that it was to make unready, and the API refused that.
	ends string
}

// note takes in a try of a write that ended now, and returns how many there have
// been in the row.
func (r *restraint) note(now time.Time, key string, least, most time.Duration, done bool) int {
	if r.rows == nil {
		r.rows = map[string]*row{}
	}
	each := r.rows[key]
	if each == nil || each.over(now) || done && !each.once {
		r.forget(now)
		each = &row{first: now}
		r.rows[key] = each
	}
	wait := min(max(now.Sub(each.first)/2, least), most)
	each.tries, each.last, each.done, each.once = each.tries+1, now, done, each.once || done
	each.until = now.Add(wait + rand.N(wait/5+1))
	return each.tries
}

func (o *row) over(now time.Time) bool {
	return now.Sub(o.last) > 2*o.until.Sub(o.last)+lullAfter
}

func (r *restraint) forget(now time.Time) {
	for key, each := range r.rows {
		if each.over(now) {
			delete(r.rows, key)
		}
	}
}

// left is how long a write has to wait; 0 is not at all.
func (r *restraint) left(now time.Time, key string) time.Duration {
	if each := r.rows[key]; each != nil {
		return max(each.until.Sub(now), 0)
	}
	return 0
}

// hold is how long a plan has to wait: until one of its writes need not. What
// comes after a write that failed does not count, for nothing is done after one
// that fails: it would have the failing one tried at once, again and again.
func (r *restraint) hold(now time.Time, writes []plan.Write) time.Duration {
	var least time.Duration
	for i := range writes {
		key := keyOf(&writes[i])
		left := r.left(now, key)
		if left == 0 {
			return 0
		}
		if least == 0 || left < least {
			least = left
		}
		if r.undone(key) == 0 {
			return least
		}
	}
	return least
}

// held are the slices that were to become unready, which was refused and is not to
// be tried again yet, and when the first of them is.
func (r *restraint) held(now time.Time) (names []string, least time.Duration) {
	for _, each := range r.rows {
		left := each.until.Sub(now)
		if each.ends == "" || each.done || left <= 0 {
			continue
		}
		names = append(names, each.ends)
		if least == 0 || left < least {
			least = left
		}
	}
	slices.Sort(names)
	return names, least
}

// undone is how often a write has been done that is planned again; 0 where the
// last try failed.
func (r *restraint) undone(key string) int {
	if each := r.rows[key]; each != nil && each.done {
		return each.tries
	}
	return 0
}

// keyOf is what a write makes of which object. Versions are not part of it, and
// neither is what leans on a slice: it names versions.
func keyOf(w *plan.Write) string {
	what := *w
	what.Why, what.Takes = "", false
	what.Slice.Version, what.Slice.Lean, what.Slice.Odd = "", "", false
	what.Combined.Version, what.Combined.Odd, what.Service = "", false, plan.Service{}
	what.Endpoints.Version, what.Endpoints.Odd = "", false
	return fmt.Sprintf("%v", what)
}

// bounds are the shortest and the longest wait after an outcome.
func bounds(err error) (least, most time.Duration) {
	switch code := kubeapi.Code(err); {
	case err != nil && code == 0:
		return retryMin, mostUnanswered
	case code == http.StatusTooManyRequests || conflict(err):
	case code >= 400 && code < 500:
		return tick, mostRefused
	}
	return retryMin, mostWait
}

// changedBack is what to say of writes that were done and are planned again.
func changedBack(w *plan.Write, times int) string {
	what := "EndpointSlice"
	switch w.Op {
	case plan.PatchService:
		what = "trafficDistribution of Service"
	case plan.CreateEndpoints, plan.UpdateEndpoints:
		what = "Endpoints"
	}
	return fmt.Sprintf("%s %s/%s was written %d times and each time changed back: find out who does that (a policy of admission, "+
		"another controller, an API that does not know a field); it is tried again ever more rarely", what, plan.Namespace, nameOf(w), times)
}

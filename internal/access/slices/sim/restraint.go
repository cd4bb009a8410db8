package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// outcome is what came of a write, as far as the next try depends on it.
type outcome uint8

const (
	written    outcome = iota
	vain               // it was not found to be necessary
	unanswered         // it may have been done
	refused            // and somebody else, or later, may fare better
)

// The shell's bounds between two tries of the same write.
const (
	leastWait      = 150 * time.Millisecond
	mostWait       = 30 * time.Second
	mostUnanswered = 600 * time.Millisecond
	lullAfter      = 2 * time.Second
)

// restraint spaces the tries of a write as the shell does, by the same rules:
// each wait is half the time that the row of its tries has lasted. What else is
// to be written need not wait for it.
type restraint struct{ rows []row }

// row is tries of one write.
type row struct {
	key                string
	first, last, until time.Duration
	done               bool // the last one succeeded
	once               bool // some have; the first that does begins the row anew
	// ends is the slice that it was to make unready, and the store refused that.
	ends string
}

func (o *row) over(now time.Duration) bool { return now-o.last > 2*(o.until-o.last)+lullAfter }

func (r *restraint) find(key string) *row {
	for i := range r.rows {
		if r.rows[i].key == key {
			return &r.rows[i]
		}
	}
	return nil
}

// note takes in a try that ended now; jitter is up to a fifth of the wait.
func (r *restraint) note(now time.Duration, w *plan.Write, how outcome, jitter func(low, high time.Duration) time.Duration) {
	key := keyOf(w)
	o := r.find(key)
	switch {
	case o == nil:
		r.rows = append(r.rows, row{key: key, first: now})
		o = &r.rows[len(r.rows)-1]
	case o.over(now), how == written && !o.once:
		*o = row{key: key, first: now}
	}
	most := mostWait
	if how == unanswered {
		most = mostUnanswered
	}
	wait := min(max((now-o.first)/2, leastWait), most)
	o.last, o.until, o.done = now, now+wait+jitter(0, wait/5+1), how == written
	o.once = o.once || o.done
	if how == refused && w.Takes && w.Slice.Name != "" && !w.Slice.Ready {
		o.ends = w.Slice.Name
	}
}

// left is how long a write has to wait; 0 is not at all.
func (r *restraint) left(now time.Duration, w *plan.Write) time.Duration {
	if len(r.rows) == 0 {
		return 0
	}
	if o := r.find(keyOf(w)); o != nil {
		return max(o.until-now, 0)
	}
	return 0
}

// hold is how long a plan has to wait: until one of its writes need not, or one
// that failed, after which nothing is done.
func (r *restraint) hold(now time.Duration, writes []plan.Write) time.Duration {
	var least time.Duration
	for i := range writes {
		left := r.left(now, &writes[i])
		if left == 0 {
			return 0
		}
		least = sooner(least, left)
		if !r.find(keyOf(&writes[i])).done {
			return least
		}
	}
	return least
}

// held are the slices that were to become unready, which was refused and is not to
// be tried again yet, and when the first of them is.
func (r *restraint) held(now time.Duration) (names []string, least time.Duration) {
	for i := range r.rows {
		if o := &r.rows[i]; o.ends != "" && !o.done && o.until > now {
			names, least = append(names, o.ends), sooner(least, o.until-now)
		}
	}
	return names, least
}

// keyOf is what a write makes of which object: neither versions are part of it,
// nor what leans on a slice, which names versions.
func keyOf(w *plan.Write) string {
	s := &w.Slice
	switch {
	case s.Name != "":
		return fmt.Sprint(w.Op, s.Name, s.Address, s.Port, s.Zone, s.Hints, s.Ready, s.UnreadyBy, s.ReadyFrom)
	case w.Op == plan.PatchService:
		return fmt.Sprint(w.Op, w.Traffic)
	}
	return fmt.Sprint(w.Op, w.Combined.Probe, w.Combined.Members, w.Endpoints.Targets)
}

package zonal

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

const (
	// repeatMin and repeatMax are between writes of the same to the same object,
	// doubled from one to the next. The first repetition is free: a person who
	// spoils what was just written is corrected at once.
	repeatMin, repeatMax = time.Second, 5 * time.Minute
	// lateMin follows a write for which somebody was faster, doubled as well: the
	// watch tells the new state in less.
	lateMin = 200 * time.Millisecond
	// deniedWait follows a 403: only a person can mend it.
	deniedWait = 30 * time.Second
	// calmFor is how long an object has to stay right until its past is forgotten,
	// and twice the wait before its next write where that is longer.
	calmFor = 30 * time.Second
	// stubborn is after how many writes of the same, 7 s or more apart in all,
	// something else is said to change it back.
	stubborn = 5
)

// restraint remembers writes, so that none is repeated at the speed of the API
// where it does not last: a webhook that changes a mirror, a controller that
// fights for it, a policy that refuses it. It is about what is wanted, not about
// an object: a Service that changes is followed at once.
type restraint map[target]*record

type target struct {
	kind Kind
	name Key
	verb Verb
}

// record is about one write that was made.
type record struct {
	action Action
	want   string // what was written, but for the version that it was based on
	tries  int    // in a row
	writes int    // of them those that the API took
	last   time.Time
	next   time.Time // not before
	calm   time.Time // since when nothing is to be written; zero: something is
	// version is what the object had after the last write; vain says that it was
	// wrong even so.
	version string
	vain    bool
	// err is why the API refused the last write.
	err error
}

func (a *Action) target() target { return target{a.Kind, a.Name, a.Verb} }

// want identifies what an action is to bring about.
func (a *Action) want() string {
	body := maps.Clone(a.Body)
	if metadata, ok := body["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "resourceVersion")
		body["metadata"] = metadata
	}
	data, _ := json.Marshal(body) // which the API is sent as well
	return string(data)
}

// based is the version that a patch is of.
func (a *Action) based() string {
	metadata, _ := a.Body["metadata"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	return version
}

// admit returns which of all that is to be done may be done now.
func (r restraint) admit(actions []Action, now time.Time) (may []Action) {
	planned := map[target]bool{}
	for _, a := range actions {
		planned[a.target()] = true
		if rec := r[a.target()]; rec != nil && !rec.free(&a, now) {
			continue
		} else if rec != nil && (rec.want != a.want() || rec.rested(now)) {
			delete(r, a.target())
		}
		may = append(may, a)
	}
	for t, rec := range r {
		switch {
		case planned[t]:
			rec.calm = time.Time{}
		case rec.calm.IsZero():
			rec.calm = now
		case rec.rested(now):
			delete(r, t)
		}
	}
	return may
}

// free says that the action, planned now, need not wait for the record's sake.
func (rec *record) free(a *Action, now time.Time) bool {
	if rec.want != a.want() || rec.rested(now) {
		return true
	}
	if rec.version != "" && rec.version == a.based() && !rec.vain {
		rec.vain, rec.next = true, later(rec.next, rec.last.Add(repeatMin))
	}
	return !now.Before(rec.next)
}

// rested says that the object has been right for long enough.
func (rec *record) rested(now time.Time) bool {
	return !rec.calm.IsZero() && now.Sub(rec.calm) >= rec.quiet()
}

func (rec *record) quiet() time.Duration { return max(calmFor, 2*rec.next.Sub(rec.last)) }

// note remembers the outcome of an action, and the version of the object after it.
func (r restraint) note(a Action, version string, err error, now time.Time) {
	rec := r[a.target()]
	if rec == nil {
		rec = &record{want: a.want()}
		r[a.target()] = rec
	}
	rec.action, rec.last, rec.version, rec.calm = a, now, "", time.Time{}
	rec.tries++
	wait := time.Duration(0)
	switch {
	case errors.Is(err, errLate):
		wait = doubled(lateMin, rec.tries-1)
	case kubeapi.Code(err) == http.StatusForbidden:
		rec.err, wait = err, deniedWait
	case err != nil:
		rec.err, wait = err, doubled(repeatMin, rec.tries-1)
	default:
		rec.err, rec.version = nil, version
		if rec.writes++; rec.tries > 1 {
			wait = doubled(repeatMin, rec.tries-2)
		}
	}
	rec.next = now.Add(wait)
}

func doubled(d time.Duration, times int) time.Duration {
	return min(repeatMax, d<<min(times, 16))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wake is when there may be something to do though nothing happens; zero is never.
func (r restraint) wake(now time.Time) (at time.Time) {
	for _, rec := range r {
		next := rec.next
		if !rec.calm.IsZero() {
			next = rec.calm.Add(rec.quiet())
		}
		if next.After(now) && (at.IsZero() || next.Before(at)) {
			at = next
		}
	}
	return at
}

// troubles are why Services do not get what they ask for, and the error of a right
// that is missing.
func (r restraint) troubles() (all map[Key]Refusal, denied error) {
	all = map[Key]Refusal{}
	for _, rec := range r {
		real := rec.action.Real
		switch {
		case rec.err != nil && rec.calm.IsZero():
			all[real] = Refusal{Reason: "WriteRefused", Message: rec.err.Error()}
			if kubeapi.Code(rec.err) == http.StatusForbidden && (denied == nil || rec.err.Error() < denied.Error()) {
				denied = rec.err
			}
		case (rec.vain || rec.writes >= stubborn) && all[real].Reason != "WriteRefused":
			all[real] = rec.action.changedBack()
		}
	}
	return all, denied
}

// changedBack names what does not stay as it is written. It says the same each
// time, so that it is told once.
func (a *Action) changedBack() Refusal {
	what := fmt.Sprintf("%s of %s %s", a.Why, a.Kind, a.Name)
	switch a.Verb {
	case Create:
		what = fmt.Sprintf("%s %s is removed after each time it is made", a.Kind, a.Name)
	case Delete:
		what = fmt.Sprintf("%s %s comes back after each time it is deleted", a.Kind, a.Name)
	default:
		what += " is changed back after each write"
	}
	return Refusal{Reason: "ChangedBack", Message: what + "; find the webhook, policy or controller that does it (--show-managed-fields tells who writes) and except names ending in " + suffix}
}

package slices

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
)

// permit gives the context that a write may take place in.
type permit func(context.Context) (context.Context, context.CancelFunc, error)

// perform makes writes in order, up to the first that fails: those that follow
// may take away what it was to add.
func (a *agent) perform(ctx context.Context, s *sight, writes []plan.Write, permits ...permit) error {
	for i := range writes {
		if err := a.write(ctx, s, &writes[i], permits); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) write(ctx context.Context, s *sight, w *plan.Write, permits []permit) error {
	for _, p := range permits {
		within, cancel, err := p(ctx)
		if err != nil {
			return err
		}
		defer cancel()
		ctx = within
	}
	err := a.actor.perform(ctx, s, w)
	a.stats.wrote(w.Op, err)
	tries := a.tried(w, err)
	if err != nil {
		return &writeError{op: w.Op, name: objectOf(w), tries: tries, err: err}
	}
	if tries == 1 {
		a.problems.set(codeWrite, objectOf(w), "")
	}
	if w.Why != "" && tries <= mostSaid {
		a.tell(w)
	}
	return nil
}

// objectOf names what a write is about so that no two objects are confused:
// several have the name of the Service.
func objectOf(w *plan.Write) string {
	switch w.Op {
	case plan.PatchService:
		return "service/" + nameOf(w)
	case plan.CreateEndpoints, plan.UpdateEndpoints:
		return "endpoints/" + nameOf(w)
	}
	return nameOf(w)
}

// mostSaid is how often the same write is told of while it is made again and
// again; then it is a problem, and told of as one.
const mostSaid = 2

// tried notes that a write was tried, and returns how often in a row. One that
// was planned on an old version is planned anew.
func (a *agent) tried(w *plan.Write, err error) int {
	if conflict(err) {
		return 0
	}
	least, most := bounds(err)
	tries := a.restraint.note(a.clock(), keyOf(w), least, most, err == nil)
	if w.Takes && w.Slice.Name != "" && !w.Slice.Ready && kubeapi.Code(err) > 0 {
		a.restraint.rows[keyOf(w)].ends = w.Slice.Name
	}
	return tries
}

func (a *agent) tell(w *plan.Write) {
	about := "slice " + nameOf(w)
	switch w.Op {
	case plan.PatchService:
		about = "Service " + nameOf(w)
	case plan.CreateEndpoints, plan.UpdateEndpoints:
		about = "Endpoints " + nameOf(w)
	}
	a.log.Info("wrote", keyObject, about, keyWhy, w.Why)
	a.record(kubeapi.Normal, camel(w.Op.String()), about+": "+w.Why)
}

// writeError is a write that failed or may have.
type writeError struct {
	op    plan.Op
	name  string
	tries int // in a row
	err   error
}

func (e *writeError) Error() string { return fmt.Sprintf("%s %s: %v", e.op, e.name, e.err) }
func (e *writeError) Unwrap() error { return e.err }

func isWrite(err error) bool {
	_, is := errors.AsType[*writeError](err)
	return is
}

// conflict says that somebody else was faster: nothing is wrong, and what is
// there now was read or will be shown.
func conflict(err error) bool {
	code := kubeapi.Code(err)
	return code == http.StatusConflict || code == http.StatusNotFound
}

// mostTries is how often a write may get no answer before a person hears of it:
// where the API is out of reach the watches tell of that.
const mostTries = 5

// excuse turns an error into what the loop should make of it: nil and another
// look where it is no trouble, a problem where a person has to know. A write that
// failed is tried again when it may be.
func (a *agent) excuse(err error) error {
	if conflict(err) || errors.Is(err, lease.ErrNotHeld) {
		a.wake(retryMin)
		return nil
	}
	if right, text := denied(err); text != "" {
		a.problems.set(codeDenied, right, text)
		a.wake(tick)
		return nil // only a person can mend it
	}
	w, ok := errors.AsType[*writeError](err)
	if !ok {
		return err
	}
	a.wake(retryMin)
	switch code := kubeapi.Code(err); {
	case code >= 400 && code < 500:
		a.problems.set(codeWrite, w.name, "the API refuses: "+w.Error()+": see what it says is wrong (a policy of admission, a quota?); it is tried again every minute")
	case code > 0 || w.tries >= mostTries:
		a.problems.set(codeWrite, w.name, "the API does not do it: "+w.Error()+": see the log of the apiserver, and of the webhook if it names one; it is tried again ever more rarely")
	}
	return nil
}

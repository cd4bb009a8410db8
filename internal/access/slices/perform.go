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
	if err != nil {
		return &writeError{op: w.Op, name: nameOf(w), err: err}
	}
	a.problems.set(codeWrite, nameOf(w), "")
	if w.Why != "" {
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
	return nil
}

// writeError is a write that failed or may have.
type writeError struct {
	op   plan.Op
	name string
	err  error
}

func (e *writeError) Error() string { return fmt.Sprintf("%s %s: %v", e.op, e.name, e.err) }
func (e *writeError) Unwrap() error { return e.err }

// conflict says that somebody else was faster: nothing is wrong, and what is
// there now was read or will be shown.
func conflict(err error) bool {
	code := kubeapi.Code(err)
	return code == http.StatusConflict || code == http.StatusNotFound
}

// refused says that the API will not do it until a person has changed something.
func refused(err error) bool {
	code := kubeapi.Code(err)
	return code == http.StatusForbidden || code == http.StatusUnprocessableEntity
}

// excuse turns an error into what the loop should make of it: nil and another
// look where it is no trouble, a problem where a person has to know.
func (a *agent) excuse(err error) error {
	if conflict(err) || errors.Is(err, lease.ErrNotHeld) {
		a.again(retryMin)
		return nil
	}
	if right, text := denied(err); text != "" {
		a.problems.set(codeDenied, right, text)
		return nil // only a person can mend it; the next tick tries again
	}
	if w, ok := errors.AsType[*writeError](err); ok && kubeapi.Code(err) >= 400 && kubeapi.Code(err) < 500 {
		a.problems.set(codeWrite, w.name, "the API refuses: "+w.Error())
		if refused(err) {
			return nil
		}
	}
	return err
}

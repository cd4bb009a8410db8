package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// refusal is an answer of the API that is no good one.
type refusal struct {
	code int
	what string
}

func (r *refusal) Error() string { return r.what }

func refusedWith(err error, code int) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.code == code
}

// ask sends a request as the administrator. Out may be nil.
func (l *Lab) ask(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var body []byte
	kind := "application/json"
	if method == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	code, answer, err := l.server.Request(ctx, method, path, kind, body)
	if err != nil {
		return err
	}
	if code/100 != 2 {
		return &refusal{code, fmt.Sprintf("%s %s: %d: %.300s", method, path, code, answer)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// create makes an object, its namespace and kind before it, and gives it its status.
// One that every cluster has is changed.
func (l *Lab) create(ctx context.Context, o Object) error {
	if err := l.prepare(ctx, o); err != nil {
		return err
	}
	err := l.ask(ctx, http.MethodGet, o.path(), nil, nil)
	switch {
	case err == nil:
		err = l.ask(ctx, http.MethodPatch, o.path(), o, nil)
	case refusedWith(err, http.StatusNotFound):
		err = l.ask(ctx, http.MethodPost, o.collection(), o, nil)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", o, err)
	}
	if o.Text("kind") == "Node" && o.Get("spec", "taints") == nil { // each begins with one, and no kubelet takes it away here
		if err := l.ask(ctx, http.MethodPatch, o.path(), Object{"spec": map[string]any{"taints": nil}}, nil); err != nil {
			return fmt.Errorf("make %s ready: %w", o, err)
		}
	}
	if status := o["status"]; status != nil && !o.resource().custom {
		if err := l.ask(ctx, http.MethodPatch, o.path()+"/status", Object{"status": status}, nil); err != nil {
			return fmt.Errorf("give %s its status: %w", o, err)
		}
	}
	return nil
}

// prepare makes what an object needs to be taken.
func (l *Lab) prepare(ctx context.Context, o Object) error {
	r := o.resource()
	if name := o.Text("metadata", "namespace"); r.namespaced && !l.namespaces[name] {
		namespace := Object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}
		if err := l.ask(ctx, http.MethodPost, namespace.collection(), namespace, nil); err != nil && !refusedWith(err, http.StatusConflict) {
			return fmt.Errorf("create %s: %w", namespace, err)
		}
		l.namespaces[name] = true
	}
	key := r.plural + "." + r.group
	if !r.custom || l.defined[key] {
		return nil
	}
	d := o.definition()
	if err := l.ask(ctx, http.MethodPost, d.collection(), d, nil); err != nil && !refusedWith(err, http.StatusConflict) {
		return fmt.Errorf("define %s: %w", key, err)
	}
	if err := await(ctx, func() error { return l.ask(ctx, http.MethodGet, o.collection(), nil, nil) }); err != nil {
		return fmt.Errorf("await kind %s: %w", key, err)
	}
	l.defined[key] = true
	return nil
}

// seeded makes all objects, and returns how to take them away again. That is to be
// done also where an error is returned.
func (l *Lab) seeded(ctx context.Context, all []Object) (undo func(context.Context) error, err error) {
	var undos []func(context.Context) error
	undo = func(ctx context.Context) error {
		var errs []error
		for _, u := range slices.Backward(undos) {
			errs = append(errs, u(ctx))
		}
		return errors.Join(errs...)
	}
	for _, o := range all {
		var before Object
		if err := l.prepare(ctx, o); err != nil {
			return undo, err
		}
		switch err := l.ask(ctx, http.MethodGet, o.path(), nil, &before); {
		case err == nil:
			delete(before["metadata"].(map[string]any), "resourceVersion")
			undos = append(undos, func(ctx context.Context) error { return l.ask(ctx, http.MethodPut, o.path(), before, nil) })
		case refusedWith(err, http.StatusNotFound):
			undos = append(undos, func(ctx context.Context) error {
				err := l.ask(ctx, http.MethodDelete, o.path()+"?gracePeriodSeconds=0", nil, nil)
				if refusedWith(err, http.StatusNotFound) {
					return nil
				}
				return err
			})
		default:
			return undo, err
		}
		if err := l.create(ctx, o); err != nil {
			return undo, err
		}
	}
	return undo, nil
}

// patience bounds the waiting for anything of the lab.
const patience = 30 * time.Second

// await asks until there is no error. What was wrong last is in the error.
func await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

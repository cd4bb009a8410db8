package zonal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// api is what is written with; a *kubeapi.Client.
type api interface {
	Get(ctx context.Context, path string, query url.Values) ([]byte, error)
	Create(ctx context.Context, path string, body []byte) ([]byte, error)
	Patch(ctx context.Context, path string, body []byte) ([]byte, error)
	Delete(ctx context.Context, path string, must kubeapi.Preconditions) error
}

// errLate says that the world is another than the one decided upon; the next
// pass sees it.
var errLate = errors.New("changed meanwhile")

func collection(kind Kind, namespace string) string {
	group := "/api/v1"
	if kind == Slices {
		group = "/apis/discovery.k8s.io/v1"
	}
	if namespace != "" {
		group += "/namespaces/" + url.PathEscape(namespace)
	}
	return group + "/" + string(kind)
}

func path(kind Kind, name Key) string {
	return collection(kind, name.Namespace) + "/" + url.PathEscape(name.Name)
}

// perform does one action and notes in v what the API made of it. It returns
// errLate where somebody was faster.
func perform(ctx context.Context, c api, v *view, a Action) error {
	switch a.Verb {
	case Create:
		return create(ctx, c, v, a)
	case Patch:
		return patch(ctx, c, v, a)
	}
	return remove(ctx, c, v, a)
}

func create(ctx context.Context, c api, v *view, a Action) error {
	for _, name := range a.Free {
		if err := free(ctx, c, v, name); err != nil {
			return err
		}
	}
	body, err := json.Marshal(a.Body)
	if err != nil {
		return err
	}
	data, err := c.Create(ctx, collection(a.Kind, a.Name.Namespace), body)
	if kubeapi.Code(err) == http.StatusConflict {
		if a.Kind == Slices {
			if err := free(ctx, c, v, a.Name); err != nil {
				return err
			}
		}
		return errLate
	}
	if err != nil {
		return err
	}
	return v.note(a.Kind, data)
}

// free looks whether a slice's name is taken by somebody else, and notes it.
func free(ctx context.Context, c api, v *view, name Key) error {
	data, err := c.Get(ctx, path(Slices, name), nil)
	if kubeapi.Code(err) == http.StatusNotFound {
		v.setTaken(name, false)
		return nil
	}
	if err != nil {
		return err
	}
	var s Slice
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read endpointslice %s: answer is not the expected JSON", name)
	}
	if s.ours() {
		v.setTaken(name, false)
		return v.note(Slices, data)
	}
	v.setTaken(name, true)
	return errLate
}

func patch(ctx context.Context, c api, v *view, a Action) error {
	body, err := json.Marshal(a.Body)
	if err != nil {
		return err
	}
	data, err := c.Patch(ctx, path(a.Kind, a.Name), body)
	switch kubeapi.Code(err) {
	case http.StatusNotFound:
		v.gone(a.Kind, a.Name, a.based())
		return errLate
	case http.StatusConflict:
		return errLate
	}
	if err != nil {
		return err
	}
	return v.note(a.Kind, data)
}

// remove deletes after it has looked at the Service itself: the view may be of a
// server that lags behind.
func remove(ctx context.Context, c api, v *view, a Action) error {
	if a.Why == unwanted || a.Why == astray {
		right, err := confirm(ctx, c, a)
		if err != nil {
			return err
		}
		if !right {
			return errLate
		}
	}
	err := c.Delete(ctx, path(a.Kind, a.Name), kubeapi.Preconditions{UID: a.UID, ResourceVersion: a.Version})
	switch kubeapi.Code(err) {
	case http.StatusConflict:
		return errLate
	case http.StatusNotFound:
		err = nil
	}
	if err == nil {
		v.drop(a.Kind, a.Name)
	}
	return err
}

func confirm(ctx context.Context, c api, a Action) (right bool, err error) {
	real, err := read(ctx, c, a.Real)
	if err != nil {
		return false, err
	}
	mirror, err := read(ctx, c, a.Real.plus(suffix))
	if err != nil {
		return false, err
	}
	return stillUnwanted(a, real, mirror), nil
}

// read returns a Service, nil when there is none.
func read(ctx context.Context, c api, name Key) (*Service, error) {
	data, err := c.Get(ctx, path(Services, name), nil)
	if kubeapi.Code(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s Service
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("read service %s: answer is not the expected JSON", name)
	}
	return &s, nil
}

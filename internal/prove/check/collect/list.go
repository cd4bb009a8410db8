package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

const (
	// pageSize is kubectl's own; smaller ones are tried where an answer is too large.
	pageSize = 500
	maxItems = 250_000
)

// list reads one collection page by page into files of the sink. A collection that
// could not be read whole is unknown.
func (c *collector) list(ctx context.Context, r Resource) error {
	state := string(r.Kind)
	if r.Kind == fact.Custom {
		state = "custom/" + r.Group
	}
	version, err := c.served(ctx, r)
	if err == nil && version == "" {
		c.m.States[state] = source.Stated{State: fact.Absent.String()}
		return nil
	}
	if err == nil {
		err = c.pages(ctx, r, version)
	}
	var sunk *sinkError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &sunk):
		return sunk.err
	case kubeapi.Code(err) == http.StatusNotFound && r.Kind == fact.Custom:
		return nil // the group has no such resource
	case err != nil:
		c.unknown(state, err)
		return nil
	}
	if _, ok := c.m.States[state]; !ok {
		c.m.States[state] = source.Stated{State: fact.Present.String()}
	}
	return nil
}

// served is the version to ask for; "" for a group that the cluster does not have.
func (c *collector) served(ctx context.Context, r Resource) (string, error) {
	if r.Version != "" {
		return r.Version, nil
	}
	if v, ok := c.groups[r.Group]; ok {
		return v, nil
	}
	data, err := c.api.Get(ctx, "/apis/"+r.Group, nil)
	if kubeapi.Code(err) == http.StatusNotFound {
		c.groups[r.Group] = ""
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var g struct {
		Preferred struct {
			Version string `json:"version"`
		} `json:"preferredVersion"`
	}
	if err := json.Unmarshal(data, &g); err != nil || g.Preferred.Version == "" {
		return "", fmt.Errorf("group %s names no version", r.Group)
	}
	c.groups[r.Group] = g.Preferred.Version
	return g.Preferred.Version, nil
}

// sinkError is an error of who takes the files, which ends everything.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

type listPage struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

func (c *collector) pages(ctx context.Context, r Resource, version string) error {
	path := "/api/v1/" + r.Resource
	apiVersion := version
	if r.Group != "" {
		path, apiVersion = "/apis/"+r.Group+"/"+version+"/"+r.Resource, r.Group+"/"+version
	}
	next, items, size := "", 0, pageSize
	for n := 1; ; n++ {
		p, err := c.page(ctx, path, next, &size)
		if err != nil {
			return err
		}
		if items += len(p.Items); items > maxItems || len(p.Items) == 0 && p.Metadata.Continue != "" {
			return fmt.Errorf("more than %d objects, or pages without any; is this a Kubernetes API?", maxItems)
		}
		if err := c.put(r, apiVersion, n, p.Items); err != nil {
			return err
		}
		if next = p.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// page reads one page; size shrinks until an answer fits.
func (c *collector) page(ctx context.Context, path, next string, size *int) (p listPage, err error) {
	for {
		query := url.Values{"limit": {strconv.Itoa(*size)}}
		if next != "" {
			query.Set("continue", next)
		}
		data, err := c.api.Get(ctx, path, query)
		if errors.Is(err, kubeapi.ErrTooLarge) && *size > 1 {
			*size = max(1, *size/4)
			continue
		}
		if err != nil {
			return p, err
		}
		if err := json.Unmarshal(data, &p); err != nil {
			return p, errors.New("the answer is no list")
		}
		return p, nil
	}
}

func (c *collector) put(r Resource, apiVersion string, n int, items []json.RawMessage) error {
	if len(items) == 0 {
		return nil
	}
	var b bytes.Buffer
	for _, item := range items {
		line, err := clean(item, apiVersion, r.ObjectKind)
		if err != nil {
			return err
		}
		c.seen.object(r.ObjectKind, line)
		b.Write(line)
	}
	name := "objects/" + r.Resource
	if r.Kind == fact.Custom {
		name += "." + r.Group
	}
	if r.Kind == fact.Webhooks {
		name = "objects/webhookconfigurations." + r.Resource
	}
	if err := c.sink.File(fmt.Sprintf("%s.%d.ndjson", name, n), b.Bytes()); err != nil {
		return &sinkError{err}
	}
	return nil
}

package collect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// API is what is asked of a cluster: package kubeapi's client, or a recording.
type API interface {
	Get(ctx context.Context, path string, query url.Values) ([]byte, error)
}

// Sink takes the files of a bundle: a source.Writer or a source.Feed.
type Sink interface {
	File(name string, data []byte) error
}

// collector gathers one cluster.
type collector struct {
	api  API
	sink Sink
	m    source.Manifest
	// groups are the versions preferred of groups outside Kubernetes, once asked
	// for: "" for one that is not there.
	groups map[string]string
	seen   addresses
}

// Cluster reads a cluster into sink and returns what the bundle says of itself. An
// error means that nothing could be read, or that sink would not take it. Server is
// the URL by which the API is asked; it is probed like the addresses found. A nil
// probe asks none.
func Cluster(ctx context.Context, api API, server string, sink Sink, probe Prober) (source.Manifest, error) {
	c := &collector{api: api, sink: sink, groups: map[string]string{}}
	if u, err := url.Parse(server); err == nil && u.Scheme == "https" {
		c.seen.add(u.Hostname(), cmp.Or(u.Port(), "443"), RoleKubeconfig)
	}
	c.m = source.Manifest{Version: source.Version, Collected: time.Now().UTC().Truncate(time.Second), States: map[string]source.Stated{}}
	if err := c.version(ctx); err != nil {
		return c.m, err
	}
	for _, r := range Resources {
		if err := c.list(ctx, r); err != nil {
			return c.m, err
		}
	}
	c.custom()
	if err := c.configMaps(ctx); err != nil {
		return c.m, err
	}
	return c.m, c.probe(ctx, probe)
}

// custom sums up the groups outside Kubernetes: all of them known, or not.
func (c *collector) custom() {
	sum := source.Stated{State: fact.Present.String()}
	for _, r := range Resources {
		if s := c.m.States["custom/"+r.Group]; r.Kind == fact.Custom && s.State == fact.Unknown.String() {
			sum = source.Stated{State: s.State, Why: r.Group + ": " + s.Why}
		}
	}
	c.m.States[string(fact.Custom)] = sum
}

// version asks for the server's version; who cannot even do that reads nothing.
func (c *collector) version(ctx context.Context) error {
	data, err := c.api.Get(ctx, "/version", nil)
	if err != nil {
		return fmt.Errorf("read cluster: %w", err)
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(data, &v); err != nil || v.GitVersion == "" {
		return fmt.Errorf("read cluster: /version has no gitVersion; is this a Kubernetes API?")
	}
	c.m.Server = v.GitVersion
	return nil
}

// configMaps reads those that are named.
func (c *collector) configMaps(ctx context.Context) error {
	read := 0
	for _, m := range ConfigMaps {
		key := "configmaps/" + m.Namespace + "/" + m.Name
		data, err := c.api.Get(ctx, "/api/v1/namespaces/"+m.Namespace+"/configmaps/"+m.Name, nil)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case kubeapi.Code(err) == http.StatusNotFound:
			c.m.States[key] = source.Stated{State: fact.Absent.String()}
			read++
			continue
		case err != nil:
			c.unknown(key, err)
			continue
		}
		read++
		line, err := clean(data, "v1", "ConfigMap")
		if err != nil {
			c.unknown(key, err)
			continue
		}
		c.seen.configMap(line)
		if err := c.sink.File("objects/configmaps."+m.Namespace+"."+m.Name+".ndjson", line); err != nil {
			return err
		}
	}
	if read == len(ConfigMaps) {
		c.m.States[string(fact.ConfigMaps)] = source.Stated{State: fact.Present.String()}
	}
	return nil
}

func (c *collector) unknown(key string, err error) {
	c.m.States[key] = source.Stated{State: fact.Unknown.String(), Why: reason(err)}
}

// reason is an error in few words.
func reason(err error) string {
	switch kubeapi.Code(err) {
	case http.StatusForbidden:
		return "forbidden; grant deploy/check-role.yaml"
	case http.StatusUnauthorized:
		return "unauthorized; the credentials are not accepted"
	}
	return strings.TrimSpace(err.Error())
}

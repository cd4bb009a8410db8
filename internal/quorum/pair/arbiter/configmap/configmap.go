package configmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"
)

// dataKey is the key of the ConfigMap's data that holds the object.
const dataKey = "record"

// Place is where an object is: configmap://NAMESPACE/NAME?kubeconfig=FILE&context=NAME.
type Place struct {
	Namespace, Name string
	// Kubeconfig and Context say who asks; without them it is the service account
	// of the pod.
	Kubeconfig, Context string
}

// Names of DNS labels and subdomains, which those of namespaces and ConfigMaps are; the
// latter leaves room for what the self-test puts behind it.
var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,228}[a-z0-9])?$`)
)

// Parse reads the URL of a Place.
func Parse(u url.URL) (Place, error) {
	p := Place{Namespace: u.Host, Name: strings.TrimPrefix(u.Path, "/")}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return p, fmt.Errorf("url: query: %w", err)
	}
	for k, v := range q {
		if k != "kubeconfig" && k != "context" || len(v) != 1 {
			return p, fmt.Errorf("url: %s=%s; known are kubeconfig and context, each once", k, strings.Join(v, ","))
		}
	}
	if !label.MatchString(p.Namespace) || !subdomain.MatchString(p.Name) || u.User != nil || u.Fragment != "" {
		return p, fmt.Errorf("url: namespace %q and name %q; write configmap://NAMESPACE/NAME?kubeconfig=FILE", p.Namespace, p.Name)
	}
	p.Kubeconfig, p.Context = q.Get("kubeconfig"), q.Get("context")
	return p, nil
}

// Object is a store.Store in one ConfigMap.
type Object struct {
	place  Place
	access *access
}

// access is the way to the API, shared by objects of one cluster.
type access struct {
	kubeconfig, context string

	mu      sync.Mutex
	cluster *kubeapi.Cluster
}

func (a *access) client() (*kubeapi.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cluster == nil {
		a.cluster = &kubeapi.Cluster{Kubeconfig: a.kubeconfig, Context: a.context}
	}
	return a.cluster.Client()
}

// renew has the kubeconfig read again: package kubeapi does so by itself where a server
// does not know who asks, but not where it knows and refuses.
func (a *access) renew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cluster = nil
}

var _ store.Store = (*Object)(nil)

// New prepares the object at p, and reads the credentials once.
func New(p Place) (*Object, error) {
	a := &access{kubeconfig: p.Kubeconfig, context: p.Context}
	if _, err := a.client(); err != nil {
		if errors.Is(err, kubeapi.ErrNotInCluster) {
			return nil, fmt.Errorf("url: no kubeconfig, and %w; add ?kubeconfig=FILE", err)
		}
		return nil, fmt.Errorf("url: kubeconfig: %w", err)
	}
	return &Object{place: p, access: a}, nil
}

// Name names the ConfigMap.
func (o *Object) Name() string {
	name := "configmap " + o.place.Namespace + "/" + o.place.Name
	if o.place.Kubeconfig != "" {
		name += " of " + o.place.Kubeconfig
	}
	return name
}

// Key is the last part of the key in etcd, /registry/configmaps/NAMESPACE/NAME.
func (o *Object) Key() string { return o.place.Name }

// Close has nothing to do: idle connections end by themselves within a minute.
func (o *Object) Close() error { return nil }

// Beside shares the connections of o.
func (o *Object) Beside(suffix string) (store.Store, error) {
	next := *o
	next.place.Name += suffix
	return &next, nil
}

// configMap is what matters of one.
type configMap struct {
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Metadata   metadata          `json:"metadata"`
	Data       map[string]string `json:"data"`
}

type metadata struct {
	Name            string `json:"name,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

func (o *Object) collection() string {
	return "/api/v1/namespaces/" + o.place.Namespace + "/configmaps"
}

func (o *Object) path() string { return o.collection() + "/" + o.place.Name }

// Read gets the ConfigMap.
func (o *Object) Read(ctx context.Context) ([]byte, store.Version, error) {
	client, err := o.access.client()
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	}
	body, err := o.get(ctx, client)
	if gone(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", o.refusal(err, store.ErrUnreachable)
	}
	c, err := decode(body)
	if err != nil {
		return nil, "", err
	}
	data, ok := c.Data[dataKey]
	if !ok {
		return nil, "", fmt.Errorf("%w: %s has no key %q, so it is another's; name one that is not there yet", store.ErrUnfit, o.Name(), dataKey)
	}
	return []byte(data), store.Version(c.Metadata.ResourceVersion), nil
}

// get asks a second time where the first was without answer for a third of the time: a
// connection that was kept may have died unnoticed.
func (o *Object) get(ctx context.Context, client *kubeapi.Client) ([]byte, error) {
	first, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		first, cancel = context.WithTimeout(ctx, time.Until(deadline)/3)
	}
	defer cancel()
	// Without a resourceVersion in the query the answer is the most recent.
	body, err := client.Get(first, o.path(), nil)
	if err == nil || kubeapi.Code(err) != 0 || ctx.Err() != nil {
		return body, err
	}
	client.Close()
	return client.Get(ctx, o.path(), nil)
}

func decode(body []byte) (configMap, error) {
	var c configMap
	if err := json.Unmarshal(body, &c); err != nil || c.Kind != "ConfigMap" || c.Metadata.ResourceVersion == "" {
		return c, fmt.Errorf("%w: the answer is no ConfigMap; is this a Kubernetes API?", store.ErrUnreachable)
	}
	return c, nil
}

// gone reports that the API itself, not something in front of it, says there is none.
func gone(err error) bool {
	se, ok := errors.AsType[*kubeapi.StatusError](err)
	return ok && se.Code == http.StatusNotFound && se.Reason == "NotFound"
}

// Swap creates the ConfigMap, or patches the one key of the version given.
func (o *Object) Swap(ctx context.Context, was store.Version, data []byte) (store.Version, error) {
	client, err := o.access.client()
	if err != nil {
		return "", fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	next := configMap{Metadata: metadata{ResourceVersion: string(was)}, Data: map[string]string{dataKey: string(data)}}
	var body []byte
	if was == "" {
		next.APIVersion, next.Kind, next.Metadata.Name = "v1", "ConfigMap", o.place.Name
		body, err = o.send(ctx, client.Create, o.collection(), next)
	} else {
		body, err = o.send(ctx, client.Patch, o.path(), next)
	}
	if err == nil {
		c, err := decode(body)
		if err != nil {
			return "", nil //nolint:nilerr // it was made; a read tells the version
		}
		return store.Version(c.Metadata.ResourceVersion), nil
	}
	switch code := kubeapi.Code(err); {
	case code == http.StatusConflict:
		return "", store.ErrLost
	case was != "" && gone(err):
		return "", fmt.Errorf("%w: it is not there any more", store.ErrLost)
	case code >= 500, code == http.StatusRequestTimeout, code == 0 && connected.Load():
		return "", o.refusal(err, store.ErrUnknown)
	}
	return "", o.refusal(err, store.ErrUnreachable)
}

func (o *Object) send(ctx context.Context, call func(context.Context, string, []byte) ([]byte, error), path string, c configMap) ([]byte, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return call(ctx, path, b)
}

func (o *Object) refusal(err, kind error) error {
	switch kubeapi.Code(err) {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: %w; renew the kubeconfig's credentials", store.ErrDenied, err)
	case http.StatusForbidden:
		o.access.renew()
		return fmt.Errorf("%w: %w; grant get, create and patch on ConfigMaps of namespace %s", store.ErrDenied, err, o.place.Namespace)
	}
	return fmt.Errorf("%w: %w", kind, err)
}

package zonal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

const (
	zoneLabel    = "topology.kubernetes.io/zone"
	controlLabel = "node-role.kubernetes.io/control-plane"
)

// observer keeps a view up to date.
type observer struct {
	connect    func() (*kubeapi.Client, error)
	view       *view
	namespaces []string // "" alone is all
	// report is told whether something can be read; nil says that it can.
	report func(what string, err error)

	mu sync.Mutex
	// watched are the Services whose endpoints are followed.
	watched map[Key]bool
}

// run follows everything until ctx ends.
func (o *observer) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, n := range o.namespaces {
		wg.Go(func() {
			follow(ctx, o, in(condServices, n), kubeapi.Follower[Service]{
				Path:    collection(Services, n),
				Replace: func(all []Service) { o.view.replaceServices(n, all) },
				Apply:   o.view.applyService,
			})
		})
		wg.Go(func() {
			follow(ctx, o, in(condSlices, n), kubeapi.Follower[Slice]{
				Path: collection(Slices, n), Selector: discovery.LabelManagedBy + "=" + owner,
				Replace: func(all []Slice) { o.view.replaceSlices(n, all) },
				Apply:   o.view.applySlice,
			})
		})
	}
	wg.Go(func() {
		follow(ctx, o, condNodes, kubeapi.Follower[node]{
			Path: "/api/v1/nodes", Metadata: true, Replace: o.view.replaceNodes, Apply: o.view.applyNode,
		})
	})
	wg.Go(func() { o.endpoints(ctx) })
	wg.Wait()
}

// in is the name of a condition about one namespace; "" is all.
func in(condition, namespace string) string {
	if namespace == "" {
		return condition
	}
	return condition + " in " + namespace
}

func follow[T any](ctx context.Context, o *observer, condition string, f kubeapi.Follower[T]) {
	resource := f.Path[strings.LastIndex(f.Path, "/")+1:]
	f.Connect = o.connect
	f.Report = func(err error) { o.report(condition, explain("list and watch", resource, err)) }
	_ = f.Run(ctx)
}

// explain says what a person should do about a refusal.
func explain(verb, what string, err error) error {
	switch se, ok := errors.AsType[*kubeapi.StatusError](err); {
	case !ok:
	case se.Code == http.StatusForbidden && !strings.Contains(se.Message, "being terminated"):
		return fmt.Errorf("may not %s %s: apply what `holdfast zonal manifest` prints (%w)", verb, what, err)
	case se.Code == http.StatusUnauthorized:
		return errors.New("credentials refused (401): give a valid service account or kubeconfig")
	}
	return err
}

// node is a Node's metadata.
type node struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

func (n *node) place() place {
	_, control := n.Metadata.Labels[controlLabel]
	return place{zone: n.Metadata.Labels[zoneLabel], control: control}
}

func (v *view) replaceNodes(all []node) {
	v.update(func() {
		clear(v.nodes)
		for _, n := range all {
			v.nodes[n.Metadata.Name] = n.place()
		}
		v.listed["nodes"] = true
	})
}

// applyNode tells of a change only if the zone changed: a Node is written every
// few minutes, and by its own metadata more often.
func (v *view) applyNode(e kubeapi.Event[node]) {
	v.mu.Lock()
	was, had := v.nodes[e.Object.Metadata.Name]
	now := e.Object.place()
	if e.Deleted {
		delete(v.nodes, e.Object.Metadata.Name)
	} else {
		v.nodes[e.Object.Metadata.Name] = now
	}
	v.mu.Unlock()
	if !had || e.Deleted || was != now {
		v.changed()
	}
}

// whereabouts is of an EndpointSlice what tells which zones have endpoints.
type whereabouts struct {
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Endpoints []struct {
		Zone       string `json:"zone"`
		Conditions struct {
			Ready *bool `json:"ready"`
		} `json:"conditions"`
	} `json:"endpoints"`
}

func (w *whereabouts) key() Key { return Key{w.Metadata.Namespace, w.Metadata.Name} }

func (w *whereabouts) tally() tally {
	t := tally{service: Key{w.Metadata.Namespace, w.Metadata.Labels[discovery.LabelServiceName]}, zones: map[string]int{}}
	for _, e := range w.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			t.zones[e.Zone]++
		}
	}
	return t
}

const (
	// endpointsEvery is how often the set of Services whose endpoints are
	// followed is brought up to date; it serves warnings only.
	endpointsEvery = 2 * time.Second
	// mostNames bounds the selector, which travels in a URL; above it no
	// endpoints are followed and nothing is said about zones.
	mostNames = 300
)

// endpoints follows the endpoints of the Services that ask for a mirror.
func (o *observer) endpoints(ctx context.Context) {
	tick := time.NewTicker(endpointsEvery)
	defer tick.Stop()
	var now []Key
	stop := func() {}
	defer func() { stop() }()
	for {
		if asked := o.view.asking(); !slices.Equal(asked, now) {
			stop()
			now = asked
			stop = o.restart(ctx, now)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// restart follows the endpoints of the given Services until it is stopped.
func (o *observer) restart(ctx context.Context, services []Key) (stop func()) {
	names := map[string]bool{}
	for _, k := range services {
		names[k.Name] = true
	}
	o.retain(services)
	if len(names) == 0 || len(names) > mostNames {
		o.retain(nil)
		o.view.update(func() { clear(o.view.ready) })
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	selector := discovery.LabelServiceName + " in (" + strings.Join(slices.Sorted(maps.Keys(names)), ",") + ")"
	var wg sync.WaitGroup
	for _, n := range o.namespaces {
		wg.Go(func() {
			follow(ctx, o, in(condEndpoints, n), kubeapi.Follower[whereabouts]{
				Path: collection(Slices, n), Selector: selector,
				Replace: func(all []whereabouts) {
					o.view.replaceReady(n, all)
					o.watch(n, services)
					o.view.changed()
				},
				Apply: o.view.applyReady,
			})
		})
	}
	return func() { cancel(); wg.Wait() }
}

// retain keeps what is known about the Services, and no others, until they are
// listed anew: so a Service that is added leaves the word about the rest alone.
func (o *observer) retain(services []Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fresh := map[Key]bool{}
	for _, k := range services {
		if o.watched[k] {
			fresh[k] = true
		}
	}
	o.watched = fresh
}

// watch notes that the endpoints of the Services in namespace are known.
func (o *observer) watch(namespace string, services []Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range services {
		if within(namespace, k) {
			o.watched[k] = true
		}
	}
}

// zonesOf is what is known about where a Service's endpoints are.
func (o *observer) zonesOf(service Key) zones {
	o.mu.Lock()
	known := o.watched[service]
	o.mu.Unlock()
	return o.view.zonesOf(service, known)
}

func (v *view) replaceReady(namespace string, all []whereabouts) {
	v.update(func() {
		maps.DeleteFunc(v.ready, func(k Key, _ tally) bool { return within(namespace, k) })
		for _, w := range all {
			v.ready[w.key()] = w.tally()
		}
	})
}

// applyReady tells of a change only if a zone's count changed.
func (v *view) applyReady(e kubeapi.Event[whereabouts]) {
	v.mu.Lock()
	was := v.ready[e.Object.key()]
	now := e.Object.tally()
	if e.Deleted {
		delete(v.ready, e.Object.key())
	} else {
		v.ready[e.Object.key()] = now
	}
	v.mu.Unlock()
	if e.Deleted || was.service != now.service || !maps.Equal(was.zones, now.zones) {
		v.changed()
	}
}

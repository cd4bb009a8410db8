package drill

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

const slicesPath = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

// proxied selects the slices of a Service that kube-proxy takes: those of
// another proxy it passes over.
func proxied(service string) string {
	return "kubernetes.io/service-name=" + service + ",!service.kubernetes.io/service-proxy-name"
}

// sliceObject is an EndpointSlice.
type sliceObject struct {
	object
	Endpoints []struct {
		Addresses  []string `json:"addresses"`
		Zone       string   `json:"zone"`
		Conditions struct {
			Ready *bool `json:"ready"`
		} `json:"conditions"`
		Hints struct {
			ForZones []struct {
				Name string `json:"name"`
			} `json:"forZones"`
		} `json:"hints"`
	} `json:"endpoints"`
	Ports []struct {
		Port int `json:"port"`
	} `json:"ports"`
}

// endpointsOf lists the endpoints of slices; sites knows where addresses stand.
// One whose readiness is not known counts as ready, as the API has it.
func endpointsOf(all []sliceObject, sites map[string]string) []record.Endpoint {
	var out []record.Endpoint
	for _, s := range all {
		for _, e := range s.Endpoints {
			one := record.Endpoint{Slice: s.name(), Zone: e.Zone, Ready: e.Conditions.Ready == nil || *e.Conditions.Ready}
			if len(e.Addresses) > 0 {
				one.Address, one.Site = e.Addresses[0], sites[e.Addresses[0]]
			}
			for _, z := range e.Hints.ForZones {
				one.Hints = append(one.Hints, z.Name)
			}
			slices.Sort(one.Hints)
			out = append(out, one)
		}
	}
	return out
}

// endpointsEvent is the event of new endpoints; false when they are as before.
// What else of the slices has changed does not matter to clients.
func endpointsEvent(was, now []record.Endpoint) (record.Event, bool) {
	before, keys := record.EndpointKeys(was), record.EndpointKeys(now)
	if was != nil && maps.Equal(before, keys) {
		return record.Event{}, false
	}
	var words []string
	for _, e := range now {
		words = append(words, endpointWords(e))
	}
	message := "endpoints: " + strings.Join(words, ", ")
	if len(now) == 0 {
		message = "endpoints: none"
	}
	return record.Event{Source: "observer", Kind: record.KindEndpoints, Message: message, Keys: keys}, true
}

// endpointWords is one endpoint for people: "10.77.1.11 for a, b".
func endpointWords(e record.Endpoint) string {
	switch {
	case !e.Ready:
		return e.Address + " not ready"
	case len(e.Hints) == 0:
		return e.Address + " for everybody"
	}
	return e.Address + " for " + strings.Join(e.Hints, "+")
}

// watchKubernetes observes endpoints and Nodes through every apiserver, each
// from within its own node so that no cut hides it.
func (e *engine) watchKubernetes(ctx context.Context) {
	if !e.c.Kubernetes {
		return
	}
	sites := map[string]string{}
	for site, a := range e.apiservers {
		sites[a.Node().IP().String()] = site
	}
	var last []record.Endpoint
	observe(ctx, e, slicesPath, proxied("kubernetes"), func(all []sliceObject) {
		now := endpointsOf(all, sites)
		if ev, news := endpointsEvent(last, now); news {
			last = append([]record.Endpoint{}, now...)
			ev.At = e.clock.now()
			e.w.Event(ev)
		}
	})
	ready := map[string]bool{}
	observe(ctx, e, nodesPath, "", func(all []nodeObject) {
		for _, ev := range nodeEvents(ready, all) {
			ev.At = e.clock.now()
			e.w.Event(ev)
		}
	})
}

// observe follows one collection through every apiserver until the watchers
// stop, and gives each newer view to tell, one at a time.
func observe[T versioned](ctx context.Context, e *engine, path, selector string, tell func([]T)) {
	var mu sync.Mutex
	var seen sightings[T]
	show := func(view []T, news bool) {
		if news {
			tell(view)
		}
	}
	for _, a := range e.lab.APIServers() {
		server := a.Node().Name()
		follower := &kubeapi.Follower[T]{
			Connect: adminOf(a), Path: path, Selector: selector,
			Replace: func(items []T) { mu.Lock(); defer mu.Unlock(); show(seen.list(server, items)) },
			Apply:   func(ev kubeapi.Event[T]) { mu.Lock(); defer mu.Unlock(); show(seen.change(server, ev)) },
			Report:  func(error) {}, // the others tell
		}
		e.watchers.done.Go(func() { _ = follower.Run(ctx) })
	}
}

// adminOf connects to an apiserver as the administrator, from its own node.
func adminOf(a *lab.APIServer) func() (*kubeapi.Client, error) {
	return kubeapi.Connector(a.PKI().AdminConf, "", a.Node().DialContext)
}

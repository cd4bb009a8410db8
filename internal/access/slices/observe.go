package slices

import (
	"context"
	"net/http"
	"sync"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// Paths of the API.
const (
	slicesPath    = "/apis/discovery.k8s.io/v1/namespaces/" + plan.Namespace + "/endpointslices"
	endpointsPath = "/api/v1/namespaces/" + plan.Namespace + "/endpoints"
	servicesPath  = "/api/v1/namespaces/" + plan.Namespace + "/services"
	leasesPath    = "/apis/coordination.k8s.io/v1/namespaces/" + leaseNamespace + "/leases"
	nodesPath     = "/api/v1/nodes"

	slicesSelector = discovery.LabelServiceName + "=" + plan.ServiceName
	// Both the apiservers' Leases and ours have it, so one watch tells of both.
	leasesSelector = core.LabelHostname
	combinedFields = "metadata.name=" + plan.ServiceName
)

// watcher keeps a world up to date.
type watcher struct {
	world   *world
	connect func() (*kubeapi.Client, error)
	// changed is called after each change, report with the outcome of each request.
	changed func(collection)
	report  func(collection, error)
}

// run follows all collections until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var wg sync.WaitGroup
	all := follow(w, ofSlices, slicesPath, w.world.replaceSlices, func(e kubeapi.Event[discovery.EndpointSlice]) { w.world.applySlice(e.Deleted, &e.Object) })
	all.Selector = slicesSelector
	joint := follow(w, ofCombined, slicesPath, w.world.replaceCombined, func(e kubeapi.Event[discovery.EndpointSlice]) { w.world.applyCombined(e.Deleted, &e.Object) })
	joint.Fields = combinedFields
	service := follow(w, ofService, servicesPath, w.world.replaceService, func(e kubeapi.Event[core.Service]) { w.world.applyService(e.Deleted, &e.Object) })
	service.Fields = combinedFields
	older := follow(w, ofEndpoints, endpointsPath, w.world.replaceEndpoints, func(e kubeapi.Event[oldEndpoints]) { w.world.applyEndpoints(e.Deleted, &e.Object) })
	older.Fields = combinedFields
	leases := follow(w, ofLeases, leasesPath, w.world.replaceLeases, func(e kubeapi.Event[coordination.Lease]) { w.world.applyLease(e.Deleted, &e.Object) })
	leases.Selector = leasesSelector
	nodes := follow(w, ofNodes, nodesPath, w.world.replaceNodes, func(e kubeapi.Event[node]) { w.world.applyNode(e.Deleted, &e.Object) })
	nodes.Metadata = true
	for _, each := range []interface{ Run(context.Context) error }{all, joint, service, older, leases, nodes} {
		wg.Go(func() { _ = each.Run(ctx) })
	}
	wg.Wait()
}

func follow[T any](w *watcher, c collection, path string, replace func([]T), apply func(kubeapi.Event[T])) *kubeapi.Follower[T] {
	return &kubeapi.Follower[T]{
		Connect: w.connect, Path: path,
		Replace: func(all []T) { replace(all); w.changed(c) },
		Apply:   func(e kubeapi.Event[T]) { apply(e); w.changed(c) },
		Report:  func(err error) { w.report(c, err) },
	}
}

// reader reads the world anew, not older than the moment of asking.
type reader struct {
	world  *world
	client *kubeapi.Client
}

// read asks for all of it at once: each answer takes the API a round trip to
// the leader of its etcd, and time is short under a Lease.
func (r *reader) read(ctx context.Context) (sight, error) {
	var (
		wg      sync.WaitGroup
		all     slicesList
		joint   *discovery.EndpointSlice
		service *core.Service
		leases  struct{ Items []coordination.Lease }
		older   *oldEndpoints
		known   bool
		errs    [5]error
	)
	wg.Go(func() { errs[0] = list(ctx, r.client, slicesPath, slicesSelector, &all) })
	wg.Go(func() { joint, errs[1] = get[discovery.EndpointSlice](ctx, r.client, slicesPath+"/"+plan.ServiceName) })
	wg.Go(func() { service, errs[2] = get[core.Service](ctx, r.client, servicesPath+"/"+plan.ServiceName) })
	wg.Go(func() { errs[3] = list(ctx, r.client, leasesPath, leasesSelector, &leases) })
	wg.Go(func() { older, known, errs[4] = r.readEndpoints(ctx) })
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return sight{}, err
		}
	}
	r.world.learnAll(&all, joint, service)
	if older != nil {
		r.world.applyEndpoints(false, older)
	}
	s := r.world.read(all.Items, joint, service, leases.Items)
	s.setEndpoints(older, known)
	return s, nil
}

// slicesList is an EndpointSliceList, as far as it matters.
type slicesList struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []discovery.EndpointSlice `json:"items"`
}

// get reads one object; nil when there is none.
func get[T any](ctx context.Context, client *kubeapi.Client, path string) (*T, error) {
	data, err := client.Get(ctx, path, nil)
	if kubeapi.Code(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	object, err := readObject[T](path, data)
	return &object, err
}

// list reads the newest list from etcd: without a resourceVersion the API may
// not answer from an older cache.
func list[T any](ctx context.Context, client *kubeapi.Client, path, selector string, into *T) error {
	data, err := client.Get(ctx, path, map[string][]string{"labelSelector": {selector}})
	if err != nil {
		return err
	}
	*into, err = readObject[T](path, data)
	return err
}

package drill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

const (
	// pulseName is the Service that watches look at. A kubelet may watch
	// Services, and sees every pulse as a change.
	pulseName = "holdfast-pulse"
	// pulseEvery is how often each apiserver is asked to change it: three of
	// them make ten changes a second, and five while one is down.
	pulseEvery = 300 * time.Millisecond
	// objectsWithin bounds the making of the objects that clients ask for; the
	// namespace of leases appears about a second after the first apiserver.
	objectsWithin = 30 * time.Second
)

// Paths in the Kubernetes API.
const (
	servicesPath = "/api/v1/namespaces/default/services"
	nodesPath    = "/api/v1/nodes"
	leasesPath   = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	mergePatch   = "application/merge-patch+json"
)

// startAPIServers starts them, if the case has any, and makes what clients ask
// for: a Node and a Lease for each site's kubelet, and the pulse.
func (e *engine) startAPIServers(ctx context.Context) error {
	if !e.c.APIServers {
		return nil
	}
	if err := e.lab.StartAPIServers(ctx); err != nil {
		return err
	}
	e.apiservers, e.servers = map[string]*lab.APIServer{}, map[string]*lab.APIServer{}
	for _, a := range e.lab.APIServers() {
		e.servers[a.Node().Name()] = a
		if site := a.Node().Site(); e.apiservers[site] == nil {
			e.apiservers[site] = a
		}
	}
	first := e.lab.APIServers()[0]
	if !e.c.Kubernetes { // else kubelets make their own
		if err := e.makeNodes(ctx, first); err != nil {
			return err
		}
	}
	return create(ctx, first, servicesPath,
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"clusterIP":"None","ports":[{"port":1}]}}`, pulseName))
}

// makeNodes makes the Node and the Lease of each site's kubelet.
func (e *engine) makeNodes(ctx context.Context, first *lab.APIServer) error {
	for _, site := range e.c.SiteNames() {
		node := e.apiservers[site].Node().Name()
		for path, body := range map[string]string{
			nodesPath:  fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q}}`, node),
			leasesPath: fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q},"spec":{"holderIdentity":%[1]q}}`, node),
		} {
			if err := create(ctx, first, path, body); err != nil {
				return err
			}
		}
	}
	return nil
}

// create makes an object, patiently: a fresh apiserver is ready before its
// namespaces and roles are complete.
func create(ctx context.Context, a *lab.APIServer, path, body string) error {
	var code int
	var answer []byte
	var err error
	made := until(ctx, objectsWithin, func() bool {
		code, answer, err = a.Request(ctx, http.MethodPost, path, "application/json", []byte(body))
		return err == nil && (code == http.StatusCreated || code == http.StatusConflict)
	})
	if made {
		return nil
	}
	return fmt.Errorf("make object at %s: %d %s: %w", path, code, strings.TrimSpace(string(answer)), errors.Join(err, ctx.Err()))
}

// watchAPIServers observes each apiserver and lets the pulse beat, until the
// watchers stop.
func (e *engine) watchAPIServers(ctx context.Context) {
	for i, a := range e.lab.APIServers() {
		e.watchers.done.Go(func() { e.followAPIServer(ctx, a) })
		e.watchers.done.Go(func() { beat(ctx, a, time.Duration(i)*pulseEvery/time.Duration(len(e.servers))) })
	}
}

// beat changes the pulse through one apiserver. Failures are no news: the other
// apiservers beat on.
func beat(ctx context.Context, a *lab.APIServer, after time.Duration) {
	timer := time.NewTimer(after)
	defer timer.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(pulseEvery)
		body := fmt.Sprintf(`{"metadata":{"annotations":{"pulse":"%s-%d"}}}`, a.Node().Name(), n)
		askCtx, cancel := context.WithTimeout(ctx, time.Second)
		_, _, _ = a.Request(askCtx, http.MethodPatch, servicesPath+"/"+pulseName, mergePatch, []byte(body))
		cancel()
	}
}

// observePatience is how long an apiserver may take to say that it is ready
// before it counts as unready: its own checks answer within milliseconds or
// after 2 s.
const observePatience = time.Second

// followAPIServer records when an apiserver becomes ready and ceases to be: the
// ground truth beside what balancers make of it.
func (e *engine) followAPIServer(ctx context.Context, a *lab.APIServer) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ready := true // StartAPIServers waited for it
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		// A loss is dated by its question, a return must be seen soon.
		timer.Reset(map[bool]time.Duration{true: 3 * pollEvery, false: pollEvery}[ready])
		began := e.clock.now()
		askCtx, cancel := context.WithTimeout(ctx, observePatience)
		err := a.Ready(askCtx)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if is := err == nil; is != ready {
			ready = is
			e.w.Event(readiness(a, err, began, e.clock.now()))
		}
	}
}

// readiness is the event of a change. A failure is dated by the question, for
// the apiserver was unready by then; readiness by the answer.
func readiness(a *lab.APIServer, err error, asked, answered time.Time) record.Event {
	name := a.Node().Name()
	ev := record.Event{
		At: answered, Source: "observer", Kind: record.KindReady,
		Message: "apiserver " + name + " is ready", Keys: map[string]string{"apiserver": name},
	}
	if err != nil {
		ev.At, ev.Kind = asked, record.KindUnready
		ev.Keys["reason"] = err.Error()
		ev.Message = "apiserver " + name + " is not ready: " + err.Error()
	}
	return ev
}

// apiRequest is what a path asks an apiserver for, in the name of the kubelet
// on node: the URL below the server's, and what to send when it is not a GET.
// lease is the URL of the Lease that it renews.
func apiRequest(kind, node, lease string) (url string, method, contentType, body string) {
	switch kind {
	case "api-put":
		return lease, http.MethodPatch, mergePatch, `{"spec":{"renewTime":"{{now}}"}}`
	case "api-watch":
		return servicesPath + "?watch=1&fieldSelector=metadata.name%3D" + pulseName, http.MethodGet, "", ""
	}
	return nodesPath + "/" + node, http.MethodGet, "", ""
}

// server is what runs as p: an etcd member or an apiserver.
type server interface {
	Child() *lab.Child
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Kill(ctx context.Context) error
}

func (e *engine) serverOf(p scenario.Process) server {
	if p.IsAPIServer() && p.Node != "" {
		return e.servers[p.Node]
	}
	if p.IsAPIServer() {
		return e.apiservers[p.Site]
	}
	return e.members[p]
}

package drill

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
)

// serviceAddress is where the Service default/kubernetes answers in a pod, and
// serviceHost the name in the certificates of what answers.
var (
	serviceHost    = pki.ServiceIP.String()
	serviceAddress = net.JoinHostPort(serviceHost, "443")
)

// defaultLeases are the Leases that clients in pods renew. They are not those of
// the kubelets, whom a second writer would make look alive.
const defaultLeases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

// leaseOf is the Lease of a path without the number of its turn: each writer has
// its own, and as many as it may have requests in flight at its interval and 2 s
// of timeout, for two requests that change one object wait for each other.
func leaseOf(p scenario.Path) string { return "drill-" + p.Site + "-" + p.Mode }

func turnsOf(p scenario.Path) int { return int(p.Timeout/p.Interval) + 2 }

// makeLeases makes the Leases of all paths, a few at a time.
func (e *engine) makeLeases(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, p := range e.c.Paths {
		if p.Kind != "api-put" {
			continue
		}
		for turn := range turnsOf(p) {
			body := fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"%s-%d"},"spec":{"holderIdentity":%[1]q}}`, leaseOf(p), turn)
			g.Go(func() error { return create(ctx, e.lab.APIServers()[0], defaultLeases, body) })
		}
	}
	return g.Wait()
}

// startKubernetes starts the rest of it, if the case wants it, with what clients
// ask for and a pod in every site for them to stand in.
func (e *engine) startKubernetes(ctx context.Context) error {
	if !e.c.Kubernetes {
		return nil
	}
	if err := e.lab.StartKubernetes(ctx); err != nil {
		return err
	}
	for _, start := range []func(context.Context) error{e.makeLeases, e.startPods, e.startBackends, e.startService} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	// The leader may have wandered while all that started.
	return e.forceLeaders(ctx)
}

// startPods runs a pod in every site whose clients stand in one.
func (e *engine) startPods(ctx context.Context) error {
	e.pods = map[string]*lab.Pod{}
	for _, site := range e.c.SiteNames() {
		if _, inPod := e.clientsOf(site); len(inPod) == 0 {
			continue
		}
		node, err := e.nodeOf(site)
		if err != nil {
			return err
		}
		pod, err := e.lab.RunPod(ctx, lab.PodSpec{Namespace: "default", Name: "client-" + site, Node: node.Name()})
		if err != nil {
			return fmt.Errorf("start pod of the clients in %s: %w", site, err)
		}
		e.pods[site] = pod
	}
	return nil
}

// clientsOf tells the paths of a site whose clients stand on its node from
// those whose clients stand in a pod.
func (e *engine) clientsOf(site string) (onNode, inPod []scenario.Path) {
	for _, p := range e.c.PathsOf(site) {
		if p.InPod() {
			inPod = append(inPod, p)
		} else {
			onNode = append(onNode, p)
		}
	}
	return onNode, inPod
}

// spawner is a node or a pod.
type spawner interface {
	Spawn(ctx context.Context, p lab.Process) (*lab.Child, error)
}

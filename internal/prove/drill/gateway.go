package drill

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

const (
	gatewayProgram = "haproxy"
	gatewayListen  = "127.0.0.1:8480"
	echoPort       = 8080
	echoService    = "echo"
	// zonalAnnotation asks `holdfast zonal` for a mirror, zonalSuffix is what the
	// mirror's name ends in.
	zonalAnnotation = "holdfast.dev/zonal"
	zonalSuffix     = "-zonal"
)

// gateway is a HAProxy in a site with the endpoints of a Service of all zones as
// upstreams: it reads EndpointSlices and dials the endpoints itself, as Envoy
// does under a Gateway.
type gateway struct {
	site  string
	child *lab.Child
	file  string

	mu        sync.Mutex
	upstreams []string
}

// gatewayService is the Service whose endpoints the gateways of this run take.
func (e *engine) gatewayService() string {
	if e.agents && e.c.Agents.Has(scenario.AgentZonal) {
		return echoService + zonalSuffix
	}
	return echoService
}

// startBackends runs a pod behind the Service echo in every site with a gateway.
func (e *engine) startBackends(ctx context.Context) error {
	if len(e.c.Gateway) == 0 {
		return nil
	}
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"annotations":{%q:"true"}},`+
		`"spec":{"selector":{"app":%[1]q},"trafficDistribution":"PreferClose","ports":[{"name":"http","port":80,"targetPort":%[3]d}]}}`,
		echoService, zonalAnnotation, echoPort)
	if err := create(ctx, e.lab.APIServers()[0], servicesPath, body); err != nil {
		return err
	}
	for _, site := range e.c.Gateway {
		node, err := e.nodeOf(site)
		if err != nil {
			return err
		}
		_, err = e.lab.RunPod(ctx, lab.PodSpec{
			Namespace: "default", Name: echoService + "-" + site, Node: node.Name(), Port: echoPort,
			Labels: map[string]string{"app": echoService},
		})
		if err != nil {
			return fmt.Errorf("start pod of the Service %s in %s: %w", echoService, site, err)
		}
	}
	return nil
}

// startGateways starts the proxies with the upstreams that there are, and keeps
// them up to date.
func (e *engine) startGateways(ctx context.Context) error {
	if len(e.c.Gateway) == 0 {
		return nil
	}
	want := len(e.c.Gateway)
	if e.gatewayService() != echoService {
		want = 1 // the mirror's only endpoint is the ClusterIP
	}
	for _, site := range e.c.Gateway {
		g := &gateway{site: site, file: filepath.Join(e.w.Dir(), "lab", "gateway-"+site+".cfg")}
		e.followUpstreams(g)
		enough := func() bool { return len(g.current()) == want }
		if !until(ctx, objectsWithin, enough) {
			return fmt.Errorf("start gateway of %s: the Service %s has the endpoints %v after %s, want %d", site, e.gatewayService(), g.current(), objectsWithin, want)
		}
		if err := e.startGateway(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

func (g *gateway) current() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.upstreams)
}

// followUpstreams keeps the upstreams of a gateway until the watchers stop.
func (e *engine) followUpstreams(g *gateway) {
	var mu sync.Mutex
	known := map[string]sliceObject{}
	tell := func() {
		if err := g.take(upstreamsOf(known)); err != nil {
			e.trouble("gateway of %s: %v", g.site, err)
		}
	}
	follower := &kubeapi.Follower[sliceObject]{
		Connect: adminOf(e.apiservers[g.site]), Path: slicesPath, Selector: proxied(e.gatewayService()),
		Replace: func(items []sliceObject) {
			mu.Lock()
			defer mu.Unlock()
			clear(known)
			for _, s := range items {
				known[s.name()] = s
			}
			tell()
		},
		Apply: func(ev kubeapi.Event[sliceObject]) {
			mu.Lock()
			defer mu.Unlock()
			if delete(known, ev.Object.name()); !ev.Deleted {
				known[ev.Object.name()] = ev.Object
			}
			tell()
		},
		Report: func(error) {},
	}
	e.watchers.done.Go(func() { _ = follower.Run(e.watchers.ctx) })
}

// upstreamsOf lists the ready endpoints of slices as HOST:PORT.
func upstreamsOf(known map[string]sliceObject) []string {
	var out []string
	for _, s := range known {
		if len(s.Ports) == 0 {
			continue
		}
		for _, e := range endpointsOf([]sliceObject{s}, nil) {
			if e.Ready {
				out = append(out, net.JoinHostPort(e.Address, strconv.Itoa(s.Ports[0].Port)))
			}
		}
	}
	slices.Sort(out)
	return out
}

// take writes new upstreams and has a running proxy read them.
func (g *gateway) take(upstreams []string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.Equal(upstreams, g.upstreams) || len(upstreams) == 0 {
		return nil
	}
	g.upstreams = upstreams
	if err := os.WriteFile(g.file, []byte(gatewayConfig(upstreams)), 0o644); err != nil {
		return fmt.Errorf("write upstreams: %w", err)
	}
	if g.child == nil {
		return nil
	}
	// The master alone reads its file again on this signal.
	if err := syscall.Kill(g.child.Pid(), syscall.SIGUSR2); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	return nil
}

func (e *engine) startGateway(ctx context.Context, g *gateway) error {
	node, err := e.nodeOf(g.site)
	if err != nil {
		return err
	}
	child, err := node.Spawn(ctx, lab.Process{Name: "gateway-" + g.site, Argv: []string{gatewayProgram, "-W", "-db", "-f", g.file}})
	if err != nil {
		return fmt.Errorf("start gateway: %w", err)
	}
	g.mu.Lock()
	g.child = child
	g.mu.Unlock()
	e.expectLife("gateway-"+g.site, child)
	return nil
}

// gatewayConfig is a proxy that does nothing for its clients but choose: no
// checks, no retries, a connection of its own for every request, so that what is
// measured is the choice of endpoints.
func gatewayConfig(upstreams []string) string {
	var b strings.Builder
	b.WriteString(`global
    maxconn 500
defaults
    mode http
    retries 0
    timeout connect 5s
    timeout client 30s
    timeout server 10s
    http-reuse never
frontend gateway
    bind ` + gatewayListen + `
    default_backend service
backend service
    balance random(1)
`)
	for i, u := range upstreams {
		fmt.Fprintf(&b, "    server endpoint%d %s\n", i+1, u)
	}
	return b.String()
}

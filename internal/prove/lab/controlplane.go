package lab

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Where the components of the control plane serve /healthz over TLS, on the
// loopback of their node.
const (
	controllerManagerPort = 10257
	schedulerPort         = 10259
)

const (
	// restartAfter is the first step of a kubelet's back-off, with which
	// kubeadm's static pods come back. A controller manager or scheduler that
	// loses its leader lease ends itself, as one behind a cut does.
	restartAfter = 10 * time.Second
	// componentGrace is how long a component may take to stop: it gives its
	// leader lease back before.
	componentGrace = 10 * time.Second
)

// Component is a Kubernetes program of a node other than the apiserver. One
// that ends by itself, or that is killed by a signal to its Child, is started
// again 10 s later, as a kubelet does it; after Stop and Kill it stays ended
// until Start.
type Component struct {
	program
	kind string
	// healthz is the URL, on the node's loopback, that says whether it is well.
	healthz string
}

// Kind is the name of the program, as in "kube-scheduler".
func (c *Component) Kind() string { return c.kind }

// Start starts the component unless it runs, and returns when it is well.
func (c *Component) Start(ctx context.Context) error {
	if err := c.Launch(ctx); err != nil {
		return err
	}
	return c.Wait(ctx)
}

// Wait returns when the component is well.
func (c *Component) Wait(ctx context.Context) error {
	return c.await(ctx, c.kind, func() error { return c.Healthy(ctx) })
}

// Stop ends the component in order.
func (c *Component) Stop(ctx context.Context) error { return c.end(ctx, componentGrace) }

// Kill ends the component at once, as a power failure does.
func (c *Component) Kill(ctx context.Context) error { return c.end(ctx, 0) }

// Healthy asks /healthz from inside the node; nil says that it answered 200.
func (c *Component) Healthy(ctx context.Context) error { return c.node.healthy(ctx, c.healthz) }

// buildControlPlane makes the controller manager and the scheduler of a site,
// on its first node.
func (l *Lab) buildControlPlane(s sitePlan) error {
	n, err := l.Node(s.nodes[0].name)
	if err != nil {
		return err
	}
	files := l.kubernetes[n.name]
	for _, c := range []struct {
		kind, name string
		port       int
		flags      []string
		all        *[]*Component
	}{
		{"kube-controller-manager", "controller-manager", controllerManagerPort, controllerManagerFlags(files), &l.controllers},
		{"kube-scheduler", "scheduler", schedulerPort, schedulerFlags(files), &l.schedulers},
	} {
		binary, err := l.kubernetesPeer(c.kind)
		if err != nil {
			return err
		}
		*c.all = append(*c.all, &Component{
			program: program{
				node: n, name: c.name + "-" + n.name, argv: append([]string{binary}, c.flags...), revive: restartAfter,
			},
			kind:    c.kind,
			healthz: "https://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(c.port)) + "/healthz",
		})
	}
	return nil
}

// controllerManagerFlags is the command line, as kubeadm writes it. What
// differs: nodes bring their pod ranges along, and nobody joins by a token.
func controllerManagerFlags(f KubernetesPKI) []string {
	return []string{
		"--kubeconfig=" + f.ControllerManagerConf,
		"--authentication-kubeconfig=" + f.ControllerManagerConf,
		"--authorization-kubeconfig=" + f.ControllerManagerConf,
		"--bind-address=127.0.0.1",
		"--client-ca-file=" + f.CA,
		"--root-ca-file=" + f.CA,
		"--cluster-signing-cert-file=" + f.CA,
		"--cluster-signing-key-file=" + f.CAKey,
		"--service-account-private-key-file=" + f.ServiceAccountKey,
		"--use-service-account-credentials=true",
		"--allocate-node-cidrs=false",
		"--cluster-name=kubernetes",
		"--leader-elect=true",
		"--profiling=false",
	}
}

// schedulerFlags is the command line, as kubeadm writes it.
func schedulerFlags(f KubernetesPKI) []string {
	return []string{
		"--kubeconfig=" + f.SchedulerConf,
		"--authentication-kubeconfig=" + f.SchedulerConf,
		"--authorization-kubeconfig=" + f.SchedulerConf,
		"--bind-address=127.0.0.1",
		"--leader-elect=true",
		"--profiling=false",
	}
}

// ControllerManager finds the kube-controller-manager of a site.
func (l *Lab) ControllerManager(site string) (*Component, error) {
	return l.component(l.controllers, site)
}

// Scheduler finds the kube-scheduler of a site.
func (l *Lab) Scheduler(site string) (*Component, error) { return l.component(l.schedulers, site) }

func (l *Lab) component(all []*Component, site string) (*Component, error) {
	for _, c := range all {
		if c.node.site == site {
			return c, nil
		}
	}
	if len(all) == 0 {
		return nil, errNoKubernetes
	}
	return nil, fmt.Errorf("site %q is unknown: use %s", site, strings.Join(l.spec.siteNames(), ", "))
}

// startControlPlane starts the controller managers and schedulers and returns
// when all are well.
func (l *Lab) startControlPlane(ctx context.Context) error {
	g, startCtx := errgroup.WithContext(ctx)
	for _, c := range l.components() {
		g.Go(func() error { return c.Start(startCtx) })
	}
	return g.Wait()
}

// components lists the controller managers and schedulers.
func (l *Lab) components() []*Component {
	return append(append([]*Component(nil), l.controllers...), l.schedulers...)
}

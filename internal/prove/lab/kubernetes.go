package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

// KubernetesOptions are the settings of a lab's Kubernetes that it may want
// otherwise than they are by default.
type KubernetesOptions struct {
	// Version is that of every Kubernetes program, from the cache of peers:
	// "1.35" (the default) or "1.37".
	Version string `json:"version,omitempty"`
	// NodeServer is the URL that the kubelet and the kube-proxy of every node
	// dial, such as https://127.0.0.1:7445 for a balancer on the node; "" is
	// the apiserver of the node's own site. StartKubernetes returns only once
	// something serves it on every node.
	NodeServer string `json:"node_server,omitempty" yaml:"node_server"`
}

// The versions that test/peers builds.
const (
	defaultKubernetes = "1.35"
	nightlyKubernetes = "1.37"
)

// KubernetesVersions are those that a lab can run, the default first.
func KubernetesVersions() []string { return []string{defaultKubernetes, nightlyKubernetes} }

// kubernetesPorts are taken on nodes with Kubernetes.
var kubernetesPorts = map[int]string{
	APIServerPort: "the apiservers", controllerManagerPort: "the controller managers", schedulerPort: "the schedulers",
	10248: "the kubelets", 10250: "the kubelets", 10249: "the kube-proxies", 10256: "the kube-proxies",
}

// completeKubernetes is called by a pointer, as completeAPIServers.
func (s *Spec) completeKubernetes() error {
	o := &s.KubernetesOptions
	if o.Version == "" {
		o.Version = defaultKubernetes
	}
	if all := KubernetesVersions(); !slices.Contains(all, o.Version) {
		return fmt.Errorf("kubernetes_options.version is %q: use %s", o.Version, strings.Join(all, " or "))
	}
	if o.NodeServer != "" {
		if err := checkServer(o.NodeServer); err != nil {
			return fmt.Errorf("kubernetes_options.node_server is %q: %w", o.NodeServer, err)
		}
	}
	if !s.Kubernetes {
		return nil
	}
	if len(s.Etcd) == 0 {
		return errors.New("kubernetes has no etcd cluster to store in: add one under etcd, or leave kubernetes out")
	}
	s.APIServers = true
	for _, c := range s.Etcd {
		for _, port := range []int{c.ClientPort, c.PeerPort, c.MetricsPort()} {
			if owner := kubernetesPorts[port]; owner != "" {
				return fmt.Errorf("etcd cluster %s uses port %d, which belongs to %s: choose another", c.Name, port, owner)
			}
		}
	}
	return nil
}

// checkServer reports a URL that a client of TLS cannot dial inside a node,
// where no names are resolved.
func checkServer(server string) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.Path != "" || u.User != nil || u.RawQuery != "" {
		return errors.New("give https://ADDRESS:PORT and nothing more, as in https://127.0.0.1:7445")
	}
	return nil
}

// Preflight reports what this machine lacks for the lab of this spec, in one
// line with the remedy.
func (s Spec) Preflight() error {
	if err := Preflight(); err != nil || !s.Kubernetes {
		return err
	}
	for _, p := range []struct{ program, pkg string }{{"containerd", "containerd"}, {"runc", "runc"}, {"conntrack", "conntrack"}} {
		if _, err := exec.LookPath(p.program); err != nil {
			return fmt.Errorf("kubernetes needs the program %s, which is missing: install the package %s", p.program, p.pkg)
		}
	}
	for _, plugin := range []string{"ptp", "host-local", "portmap", "loopback"} {
		if path := filepath.Join(cniPlugins, plugin); !exists(path) {
			return fmt.Errorf("kubernetes needs %s, which is missing: install the package containernetworking-plugins", path)
		}
	}
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"} {
		if _, err := findPeer(program + "-" + cmp.Or(s.KubernetesOptions.Version, defaultKubernetes)); err != nil {
			return err
		}
	}
	_, err := findPeer(podPeer)
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// findPeer returns the path of a program in the directory of peers, or in one
// line how to get it.
func findPeer(name string) (string, error) {
	dir, err := peerDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if exists(path) {
		return path, nil
	}
	remedy := "make peers"
	if strings.HasSuffix(name, "-"+nightlyKubernetes) {
		remedy = "scripts/peers --all"
	}
	return "", fmt.Errorf("the lab wants %s and %s is missing: run `%s`", name, path, remedy)
}

// FindPeer returns the path of a program in the directory of peers that belongs to
// no version of Kubernetes or etcd, or in one line how to get it.
func FindPeer(name string) (string, error) { return findPeer(name) }

// kubernetesPeer finds a Kubernetes program in the version of the lab.
func (l *Lab) kubernetesPeer(program string) (string, error) {
	return findPeer(program + "-" + l.spec.KubernetesOptions.Version)
}

// StartKubernetes starts the controller managers, the schedulers, and on every
// node containerd, a kubelet and a kube-proxy. It returns when every Node is
// ready for pods and the ServiceAccount that they run as exists. apiservers
// must run, and whatever serves NodeServer.
func (l *Lab) StartKubernetes(ctx context.Context) error {
	if !l.spec.Kubernetes {
		return nil
	}
	began := time.Now()
	g, startCtx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.startControlPlane(startCtx) })
	g.Go(func() error { return l.startNodes(startCtx) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("start kubernetes: %w", err)
	}
	if err := l.labelControlPlane(ctx); err != nil {
		return fmt.Errorf("start kubernetes: %w", err)
	}
	if err := poll(ctx, 100*time.Millisecond, nil, func() error { return l.takesPods(ctx) }); err != nil {
		return fmt.Errorf("start kubernetes: wait for what pods need: %w", err)
	}
	l.log.Info("kubernetes is up", "lab", l.spec.Name, "nodes", len(l.nodes), "took", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// controlPlaneLabel marks the nodes of apiservers. A kubelet may not give it to
// itself.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

func (l *Lab) labelControlPlane(ctx context.Context) error {
	body := fmt.Appendf(nil, `{"metadata":{"labels":{%q:""}}}`, controlPlaneLabel)
	g, ctx := errgroup.WithContext(ctx)
	for _, a := range l.apiservers {
		g.Go(func() error {
			return a.ask(ctx, http.MethodPatch, "/api/v1/nodes/"+a.node.name, "application/merge-patch+json", body, nil)
		})
	}
	return g.Wait()
}

// takesPods reports what the controller manager has yet to do before pods are
// admitted and placed: the account they run as, and the end of the taint that
// Nodes carry until they are ready.
func (l *Lab) takesPods(ctx context.Context) error {
	a := l.apiservers[0]
	if err := a.ask(ctx, http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", "", nil, nil); err != nil {
		return err
	}
	var list corev1.NodeList
	if err := a.ask(ctx, http.MethodGet, "/api/v1/nodes", "", nil, &list); err != nil {
		return err
	}
	for _, n := range list.Items {
		for _, taint := range n.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady {
				return fmt.Errorf("node %s has taint %s", n.Name, taint.Key)
			}
		}
	}
	return nil
}

// ask is Request for who wants an object or an error.
func (a *APIServer) ask(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	code, answer, err := a.Request(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	if code < 200 || code > 299 {
		return fmt.Errorf("ask apiserver %s: %s %s: %d %s", a.node.name, method, path, code, statusMessage(answer))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("read answer of apiserver %s: %w", a.node.name, err)
	}
	return nil
}

// nodeStates tells the Ready condition of every Node, in the words of kubectl.
func (a *APIServer) nodeStates(ctx context.Context) (map[string]string, error) {
	var list corev1.NodeList
	if err := a.ask(ctx, http.MethodGet, "/api/v1/nodes", "", nil, &list); err != nil {
		return nil, err
	}
	states := map[string]string{}
	for _, n := range list.Items {
		states[n.Name] = "Unknown"
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				states[n.Name] = map[corev1.ConditionStatus]string{corev1.ConditionTrue: "Ready", corev1.ConditionFalse: "NotReady", corev1.ConditionUnknown: "Unknown"}[c.Status]
			}
		}
	}
	return states, nil
}

// statusMessage is what a Status object says, or all that came instead of one.
func statusMessage(answer []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(answer, &status) == nil && status.Message != "" {
		return status.Message
	}
	return strings.Join(strings.Fields(string(answer)), " ")
}

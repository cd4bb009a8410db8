package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// worker is what makes a node one of Kubernetes.
type worker struct {
	machine    *machine
	containerd *Containerd
	kubelet    *Kubelet
	proxy      *KubeProxy
}

// startNodes starts containerd, kubelet and kube-proxy of every node and
// returns when each Node is ready. The apiservers must run.
func (l *Lab) startNodes(ctx context.Context) error {
	nets, err := l.plan.overlay()
	if err != nil {
		return err
	}
	if err := sweepCgroups("", ""); err != nil {
		return err
	}
	archive := filepath.Join(l.data, "pod.tar")
	if err := writePodImage(archive); err != nil {
		return err
	}
	g, startCtx := errgroup.WithContext(ctx)
	for i, n := range l.nodes {
		g.Go(func() error {
			if err := n.addOverlay(nets); err != nil {
				return fmt.Errorf("join %s to the overlay: %w", n.name, err)
			}
			if err := n.equip(startCtx, nets[i], archive); err != nil {
				return err
			}
			return n.startWorker(startCtx)
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("start nodes: %w", err)
	}
	if err := l.awaitNodes(ctx); err != nil {
		return fmt.Errorf("start nodes: %w", err)
	}
	l.log.Info("nodes are ready", "lab", l.spec.Name, "count", len(l.nodes))
	return nil
}

// equip boots the node's machine and writes what its programs read.
func (n *Node) equip(ctx context.Context, own podNet, archive string) error {
	dir := filepath.Join(n.lab.data, "nodes", n.name)
	if err := os.MkdirAll(cniDir(dir), 0o700); err != nil {
		return fmt.Errorf("make directory of %s: %w", n.name, err)
	}
	text := fmt.Sprintf(cniConfig, podMTU, own.pods)
	if err := os.WriteFile(filepath.Join(cniDir(dir), "10-lab.conflist"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write CNI configuration of %s: %w", n.name, err)
	}
	w := &worker{}
	var err error
	if w.machine, err = n.boot(ctx); err != nil {
		return err
	}
	files := n.lab.kubernetes[n.name]
	if w.containerd, err = newContainerd(n, w.machine, dir, archive); err != nil {
		return err
	}
	if w.kubelet, err = newKubelet(n, w.machine, dir, files.KubeletConf, files.CA); err != nil {
		return err
	}
	if w.proxy, err = newKubeProxy(n, w.machine, dir, files.KubeProxyConf); err != nil {
		return err
	}
	n.worker.Store(w)
	return nil
}

func cniDir(dir string) string { return filepath.Join(dir, "cni") }

// startWorker starts the node's programs. Images must be there before the
// kubelet looks for them.
func (n *Node) startWorker(ctx context.Context) error {
	w := n.worker.Load()
	if err := w.containerd.Start(ctx); err != nil {
		return err
	}
	if err := w.containerd.load(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.kubelet.Start(ctx) })
	g.Go(func() error { return w.proxy.Start(ctx) })
	return g.Wait()
}

// awaitNodes returns when every Node is ready.
func (l *Lab) awaitNodes(ctx context.Context) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for _, n := range l.nodes {
		for {
			err := l.nodeReady(ctx, n)
			if err == nil {
				break
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return fmt.Errorf("wait for node %s: %w", n.name, errors.Join(ctx.Err(), err))
			}
		}
	}
	return nil
}

// nodeReady asks the apiserver of the node's site whether the Node is ready.
func (l *Lab) nodeReady(ctx context.Context, n *Node) error {
	var node struct {
		Status struct {
			Conditions []condition `json:"conditions"`
		} `json:"status"`
	}
	if err := l.get(ctx, n.site, "/api/v1/nodes/"+n.name, &node); err != nil {
		return err
	}
	return conditionTrue(node.Status.Conditions, "Ready")
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

func conditionTrue(all []condition, name string) error {
	for _, c := range all {
		if c.Type == name && c.Status != "True" {
			return fmt.Errorf("not %s: %s", name, c.Message)
		}
		if c.Type == name {
			return nil
		}
	}
	return fmt.Errorf("not %s: no such condition yet", name)
}

// get reads an object through the apiserver of a site.
func (l *Lab) get(ctx context.Context, site, path string, into any) error {
	body, err := l.ask(ctx, site, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// errNotFound says that an object does not exist.
var errNotFound = errors.New("not found")

// ask sends a request to the apiserver of a site as the administrator; an
// answer other than 2xx is an error.
func (l *Lab) ask(ctx context.Context, site, method, path string, body []byte) ([]byte, error) {
	a, err := l.APIServer(site)
	if err != nil {
		return nil, err
	}
	code, answer, err := a.Request(ctx, method, path, "application/json", body)
	switch {
	case err != nil:
		return nil, err
	case code == http.StatusNotFound:
		return nil, fmt.Errorf("%s %s: %w", method, path, errNotFound)
	case code/100 != 2:
		return nil, fmt.Errorf("%s %s: %d %s", method, path, code, reason(answer))
	}
	return answer, nil
}

// reason is the message of a Status object.
func reason(body []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &status) != nil || status.Message == "" {
		return strings.Join(strings.Fields(string(body)), " ")
	}
	return status.Message
}

// errNoKubernetes says that the lab runs no kubelets.
var errNoKubernetes = errors.New("the lab's nodes run no Kubernetes: set kubernetes in its spec")

func (l *Lab) worker(node string) (*worker, error) {
	n, err := l.Node(node)
	if err != nil {
		return nil, err
	}
	if w := n.worker.Load(); w != nil {
		return w, nil
	}
	return nil, errNoKubernetes
}

// Kubelet finds the kubelet of a node.
func (l *Lab) Kubelet(node string) (*Kubelet, error) {
	w, err := l.worker(node)
	if err != nil {
		return nil, err
	}
	return w.kubelet, nil
}

// KubeProxy finds the kube-proxy of a node.
func (l *Lab) KubeProxy(node string) (*KubeProxy, error) {
	w, err := l.worker(node)
	if err != nil {
		return nil, err
	}
	return w.proxy, nil
}

// Containerd finds the container runtime of a node.
func (l *Lab) Containerd(node string) (*Containerd, error) {
	w, err := l.worker(node)
	if err != nil {
		return nil, err
	}
	return w.containerd, nil
}

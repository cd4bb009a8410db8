package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
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

// awaitNodes returns when every Node is ready in the eyes of its site.
func (l *Lab) awaitNodes(ctx context.Context) error {
	for _, n := range l.nodes {
		if err := poll(ctx, 100*time.Millisecond, nil, func() error { return n.ready(ctx) }); err != nil {
			return fmt.Errorf("wait for node %s: %w", n.name, err)
		}
	}
	return nil
}

// ready asks the apiserver of the node's site for the condition of the Node.
func (n *Node) ready(ctx context.Context) error {
	a, err := n.lab.APIServer(n.site)
	if err != nil {
		return err
	}
	var node corev1.Node
	if err := a.ask(ctx, http.MethodGet, "/api/v1/nodes/"+n.name, "", nil, &node); err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		} else if c.Type == corev1.NodeReady {
			return fmt.Errorf("not ready: %s", c.Message)
		}
	}
	return errors.New("not ready: its kubelet has not said so yet")
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

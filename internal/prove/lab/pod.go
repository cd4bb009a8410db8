package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// PodSpec describes a pod of one container of PodImage, bound to a node.
type PodSpec struct {
	Namespace string // "" is default
	Name      string
	Node      string
	// Argv is the command in PodImage. Without one the pod serves HTTP on Port
	// when it has one, saying which pod, node and zone it is, and is ready as
	// long as its /readyz answers 200 (a POST to /readyz?ready=false ends that);
	// without either it waits.
	Argv        []string
	Labels      map[string]string
	HostNetwork bool
	Port        int
}

// Pod is a running pod.
type Pod struct {
	spec PodSpec
	node *Node
	uid  string
	ip   netip.Addr
	// space is the pod's network, owned unless the pod has its node's.
	space *space.Space
	by    *space.Spawner
}

// Name and Namespace are those of the spec, Node is where the pod runs, IP its
// address.
func (p *Pod) Name() string      { return p.spec.Name }
func (p *Pod) Namespace() string { return p.spec.Namespace }
func (p *Pod) Node() *Node       { return p.node }
func (p *Pod) IP() netip.Addr    { return p.ip }

// RunPod creates a pod through the apiserver of the node's site and returns
// when it is ready.
func (l *Lab) RunPod(ctx context.Context, spec PodSpec) (*Pod, error) {
	if spec.Namespace == "" {
		spec.Namespace = "default"
	}
	p := &Pod{spec: spec}
	if err := l.runPod(ctx, p); err != nil {
		return nil, fmt.Errorf("run pod %s: %w", spec.Name, err)
	}
	l.mu.Lock()
	l.pods = append(l.pods, p)
	l.mu.Unlock()
	return p, nil
}

func (l *Lab) runPod(ctx context.Context, p *Pod) error {
	if _, err := l.worker(p.spec.Node); err != nil {
		return err
	}
	var err error
	if p.node, err = l.Node(p.spec.Node); err != nil {
		return err
	}
	site, _ := l.plan.site(p.node.site)
	body, err := json.Marshal(p.spec.manifest(site.Zone))
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	if _, err := l.ask(ctx, p.node.site, http.MethodPost, podsPath(p.spec.Namespace), body); err != nil {
		return err
	}
	if err := l.awaitPod(ctx, p); err != nil {
		return err
	}
	return p.enter()
}

func podsPath(namespace string) string { return "/api/v1/namespaces/" + namespace + "/pods" }

// awaitPod returns when the pod is ready, and notes its address.
func (l *Lab) awaitPod(ctx context.Context, p *Pod) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := l.podReady(ctx, p)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (l *Lab) podReady(ctx context.Context, p *Pod) error {
	var pod struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Status struct {
			PodIP      string      `json:"podIP"`
			Conditions []condition `json:"conditions"`
		} `json:"status"`
	}
	if err := l.get(ctx, p.node.site, podsPath(p.spec.Namespace)+"/"+p.spec.Name, &pod); err != nil {
		return err
	}
	if err := conditionTrue(pod.Status.Conditions, "Ready"); err != nil {
		return err
	}
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil {
		return fmt.Errorf("read address: %w", err)
	}
	p.uid, p.ip = pod.Metadata.UID, ip
	return nil
}

// manifest is the Pod object. It stays where it is, whatever taints its node
// gets, and has nothing to do with service accounts.
func (s PodSpec) manifest(zone string) map[string]any {
	env := func(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }
	container := map[string]any{
		"name": "pod", "image": PodImage, "imagePullPolicy": "Never",
		"env": []any{env("POD", s.Name), env("NODE", s.Node), env("ZONE", zone)},
	}
	argv := s.Argv
	if s.Port > 0 {
		container["ports"] = []any{map[string]any{"containerPort": s.Port}}
		if len(argv) == 0 {
			argv = []string{podPath, "serve", "-port", fmt.Sprint(s.Port)}
			container["readinessProbe"] = map[string]any{
				"httpGet":       map[string]any{"path": "/readyz", "port": s.Port},
				"periodSeconds": 1, "failureThreshold": 1,
			}
		}
	}
	if len(argv) > 0 {
		container["command"] = argv
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": s.Name, "labels": s.Labels},
		"spec": map[string]any{
			"nodeName": s.Node, "hostNetwork": s.HostNetwork,
			"containers":                    []any{container},
			"tolerations":                   []any{map[string]any{"operator": "Exists"}},
			"automountServiceAccountToken":  false,
			"enableServiceLinks":            false,
			"dnsPolicy":                     "Default",
			"terminationGracePeriodSeconds": 1,
		},
	}
}

// enter takes hold of the pod's network and of its machine's pids.
func (p *Pod) enter() error {
	m := p.node.machine.Load()
	p.space = p.node.space
	if !p.spec.HostNetwork {
		path, err := m.podNetwork(p.uid)
		if err != nil {
			return err
		}
		if p.space, err = space.Open(path); err != nil {
			return err
		}
	}
	var err error
	if p.by, err = space.NewSpawnerWith(p.space, m.init.Pid(), false); err != nil {
		p.close()
	}
	return err
}

func (p *Pod) close() {
	if p.by != nil {
		p.by.Close()
	}
	if !p.spec.HostNetwork {
		_ = p.space.Close()
	}
}

func (l *Lab) closePods() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pods {
		p.close()
	}
	l.pods = nil
}

// bundle is what an OCI bundle of containerd's CRI plugin says of its sandbox.
type bundle struct {
	Annotations map[string]string `json:"annotations"`
	Linux       struct {
		Namespaces []struct {
			Type string `json:"type"`
			Path string `json:"path"`
		} `json:"namespaces"`
	} `json:"linux"`
}

// podNetwork finds where the network namespace of a pod is seen from outside
// its machine.
func (m *machine) podNetwork(uid string) (string, error) {
	files, err := filepath.Glob(m.path(containerdState + "/io.containerd.runtime.v2.task/k8s.io/*/config.json"))
	if err != nil {
		return "", fmt.Errorf("list bundles: %w", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has just ended
		}
		if path := sandboxNetwork(data, uid); path != "" {
			return m.path(path), nil
		}
	}
	return "", errors.New("find its network: containerd has no sandbox of it")
}

// sandboxNetwork is the network namespace in the bundle of a pod's sandbox, ""
// for any other bundle.
func sandboxNetwork(config []byte, uid string) string {
	var b bundle
	if json.Unmarshal(config, &b) != nil || b.Annotations["io.kubernetes.cri.container-type"] != "sandbox" ||
		b.Annotations["io.kubernetes.cri.sandbox-uid"] != uid {
		return ""
	}
	for _, ns := range b.Linux.Namespaces {
		if ns.Type == "network" {
			return ns.Path
		}
	}
	return ""
}

// Spawn runs a program of the host in the pod's network, as Node.Spawn does in
// a node's. It has the pids of the pod's machine and ends with it; /proc, as
// the rest of its files, is that of the host.
func (p *Pod) Spawn(ctx context.Context, proc Process) (*Child, error) {
	return p.node.lab.spawn(ctx, p.spec.Name, p.by, proc)
}

// DialContext connects from the pod to a literal address.
func (p *Pod) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s from %s: %w", addr, p.spec.Name, err)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return nil, fmt.Errorf("dial %s from %s: host is not an IP address", addr, p.spec.Name)
	}
	var conn net.Conn
	err = p.space.Do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// Remove deletes the pod and returns when it is gone. Programs that Spawn
// started end only with the lab.
func (p *Pod) Remove(ctx context.Context) error {
	l, path := p.node.lab, podsPath(p.spec.Namespace)+"/"+p.spec.Name
	if _, err := l.ask(ctx, p.node.site, http.MethodDelete, path, nil); err != nil {
		return fmt.Errorf("remove pod %s: %w", p.spec.Name, err)
	}
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := l.ask(ctx, p.node.site, http.MethodGet, path, nil)
		if errors.Is(err, errNotFound) {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("remove pod %s: %w", p.spec.Name, errors.Join(ctx.Err(), err))
		}
	}
}

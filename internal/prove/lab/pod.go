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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

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
	// Readiness is the probe of a pod that serves, instead of that every second.
	Readiness *corev1.Probe
}

// Pod is a running pod.
type Pod struct {
	spec PodSpec
	node *Node
	api  *APIServer // of its site
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
	if p.api, err = l.APIServer(p.node.site); err != nil {
		return err
	}
	site, _ := l.plan.site(p.node.site)
	body, err := json.Marshal(p.spec.object(site.Zone))
	if err != nil {
		return fmt.Errorf("encode pod: %w", err)
	}
	if err := p.api.ask(ctx, http.MethodPost, path.Dir(p.path()), "application/json", body, nil); err != nil {
		return err
	}
	if err := poll(ctx, 100*time.Millisecond, nil, func() error { return p.ready(ctx) }); err != nil {
		return err
	}
	return p.enter()
}

// path is where the API has the pod.
func (p *Pod) path() string {
	return "/api/v1/namespaces/" + p.spec.Namespace + "/pods/" + p.spec.Name
}

// ready notes the pod's address when it is ready.
func (p *Pod) ready(ctx context.Context) error {
	var pod corev1.Pod
	if err := p.api.ask(ctx, http.MethodGet, p.path(), "", nil, &pod); err != nil {
		return err
	}
	if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return fmt.Errorf("not ready: %s", waiting(pod.Status))
	}
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil {
		return fmt.Errorf("read address: %w", err)
	}
	p.uid, p.ip = string(pod.UID), ip
	return nil
}

// waiting is what a pod that is not ready waits for, as far as it says so.
func waiting(s corev1.PodStatus) string {
	for _, c := range s.ContainerStatuses {
		if c.State.Waiting != nil {
			return strings.TrimSpace(c.State.Waiting.Reason + " " + c.State.Waiting.Message)
		}
		if c.State.Terminated != nil {
			return fmt.Sprintf("its program has ended with status %d", c.State.Terminated.ExitCode)
		}
	}
	return "phase " + string(s.Phase)
}

// object is the Pod. It stays where it is, whatever taints its node gets, and
// has nothing to do with service accounts.
func (s PodSpec) object(zone string) corev1.Pod {
	no, grace := false, int64(1)
	return corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: s.Labels},
		Spec: corev1.PodSpec{
			NodeName: s.Node, HostNetwork: s.HostNetwork,
			Containers:                    []corev1.Container{s.container(zone)},
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			DNSPolicy:                     corev1.DNSDefault,
			TerminationGracePeriodSeconds: &grace,
		},
	}
}

func (s PodSpec) container(zone string) corev1.Container {
	c := corev1.Container{
		Name: "pod", Image: PodImage, ImagePullPolicy: corev1.PullNever, Command: s.Argv,
		Env: []corev1.EnvVar{{Name: "POD", Value: s.Name}, {Name: "NODE", Value: s.Node}, {Name: "ZONE", Value: zone}},
	}
	if s.Port == 0 {
		return c
	}
	c.Ports = []corev1.ContainerPort{{ContainerPort: int32(s.Port)}}
	if len(s.Argv) == 0 {
		c.Command = []string{podPath, "serve", "-port", fmt.Sprint(s.Port)}
		get := corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(int32(s.Port))}
		c.ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &get},
			PeriodSeconds: 1, FailureThreshold: 1,
		}
	}
	if s.Readiness != nil {
		c.ReadinessProbe = s.Readiness
	}
	return c
}

// enter takes hold of the pod's network and of its machine's pids.
func (p *Pod) enter() error {
	m := p.node.machine.Load()
	p.space = p.node.space
	if !p.spec.HostNetwork {
		file, err := m.podNetwork(p.uid)
		if err != nil {
			return err
		}
		if p.space, err = space.Open(file); err != nil {
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
		if inside := sandboxNetwork(data, uid); inside != "" {
			return m.path(inside), nil
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
	if err := p.api.ask(ctx, http.MethodDelete, p.path(), "", nil, nil); err != nil {
		return fmt.Errorf("remove pod %s: %w", p.spec.Name, err)
	}
	err := poll(ctx, 100*time.Millisecond, nil, func() error {
		code, _, err := p.api.Request(ctx, http.MethodGet, p.path(), "", nil)
		if err == nil && code != http.StatusNotFound {
			err = errors.New("it is still there")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove pod %s: %w", p.spec.Name, err)
	}
	return nil
}

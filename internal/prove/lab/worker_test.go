package lab

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// said is what the peer "pod" answers.
type said struct{ Pod, Node, Zone, From, Path string }

const podPort = 8080

// hear asks a pod from another one, over a new connection.
func hear(ctx context.Context, from, to *Pod, path string) (said, error) {
	var s said
	body, err := fetch(ctx, from, nil, "http://"+netip.AddrPortFrom(to.IP(), podPort).String()+path)
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	return s, err
}

func fetch(ctx context.Context, from *Pod, conf *tls.Config, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	tr := &http.Transport{DialContext: from.DialContext, TLSClientConfig: conf, DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

func TestNodes(t *testing.T) {
	requireKubernetes(t)
	spec := mustDefault(t, "lan")
	spec.Kubernetes = true
	l := startLab(t, spec)
	ctx := deadline(t, 3*time.Minute)
	if err := l.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAPIServers(ctx); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := l.StartKubernetes(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("three nodes are ready after %v", time.Since(began).Round(time.Millisecond))
	pods := map[string]*Pod{}
	for _, n := range l.Nodes() {
		began := time.Now()
		p, err := l.RunPod(ctx, PodSpec{Name: "echo-" + n.Site(), Node: n.Name(), Labels: map[string]string{"app": "echo"}, Port: podPort})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("pod %s has %s and is ready after %v", p.Name(), p.IP(), time.Since(began).Round(time.Millisecond))
		pods[n.Site()] = p
	}
	t.Run("pods meet", func(t *testing.T) { podsMeet(ctx, t, pods) })
	t.Run("pods reach the API", func(t *testing.T) { podsReachAPI(ctx, t, l, pods) })
	t.Run("vxlan cut", func(t *testing.T) { cutOverlay(ctx, t, l, pods) })
	t.Run("programs in pods", func(t *testing.T) { spawnInPod(ctx, t, pods["a"]) })
	t.Run("restart", func(t *testing.T) { restartPrograms(ctx, t, l, pods) })
	t.Run("nothing is left", func(t *testing.T) { nothingLeft(t, l) })
}

// podsMeet asks every pod from every other, with requests and answers longer
// than a packet.
func podsMeet(ctx context.Context, t *testing.T, pods map[string]*Pod) {
	path := "/" + strings.Repeat("x", 4*podMTU)
	for from, p := range pods {
		for to, q := range pods {
			s, err := hear(ctx, p, q, path)
			if err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
				continue
			}
			at, _ := netip.ParseAddrPort(s.From)
			if s.Pod != q.Name() || s.Node != q.Node().Name() || s.Zone != to || s.Path != path || at.Addr().Unmap() != p.IP() {
				t.Errorf("%s to %s: %+v", from, to, s)
			}
		}
	}
}

// podsReachAPI asks the Service default/kubernetes, through kube-proxy.
func podsReachAPI(ctx context.Context, t *testing.T, l *Lab, pods map[string]*Pod) {
	a := l.APIServers()[0]
	conf, err := a.TLS(a.PKI().AdminCert, a.PKI().AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	for site, p := range pods {
		waitFor(t, 10*time.Second, "the Service answers in "+site, func() bool {
			body, err := fetch(ctx, p, conf, "https://10.96.0.1/version")
			if err != nil {
				t.Log(err)
			}
			return err == nil && strings.Contains(string(body), "v1.35.")
		})
	}
}

// cutOverlay cuts VXLAN between two sites: their pods do not meet, and nothing
// else has changed.
func cutOverlay(ctx context.Context, t *testing.T, l *Lab, pods map[string]*Pod) {
	if err := l.Cut(ctx, Cut{Name: "overlay", From: "a", To: "b", Proto: ProtoVXLAN}); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
		if s, err := hear(ctx, pods[pair[0]], pods[pair[1]], "/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("through the cut %v: %+v, %v", pair, s, err)
		}
	}
	for _, pair := range [][2]string{{"a", "c"}, {"c", "b"}, {"b", "b"}} {
		if _, err := hear(ctx, pods[pair[0]], pods[pair[1]], "/"); err != nil {
			t.Errorf("beside the cut %v: %v", pair, err)
		}
	}
	podsReachAPI(ctx, t, l, pods)
	if err := l.Heal(ctx, "overlay"); err != nil {
		t.Fatal(err)
	}
	if _, err := hear(ctx, pods["a"], pods["b"], "/"); err != nil {
		t.Errorf("after the cut: %v", err)
	}
}

// spawnInPod runs a program of this machine in a pod's network.
func spawnInPod(ctx context.Context, t *testing.T, p *Pod) {
	var out strings.Builder
	child, err := p.Spawn(ctx, Process{Name: "look", Argv: []string{"ip", "-o", "addr", "show", "eth0"}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	if child.Err() != nil || !strings.Contains(out.String(), p.IP().String()+"/24") {
		t.Errorf("in the pod: %s, %v", out.String(), child.Err())
	}
	// One that stays is of no concern to the end of the lab, nor is what it
	// leaves behind in a session of its own.
	if _, err := p.Spawn(ctx, Process{Name: "stay", Argv: []string{"sh", "-c", "setsid sleep 1000 & exec sleep 1000"}}); err != nil {
		t.Fatal(err)
	}
}

// restartPrograms kills the programs of a node one by one: pods go on.
func restartPrograms(ctx context.Context, t *testing.T, l *Lab, pods map[string]*Pod) {
	kubelet, _ := l.Kubelet("a1")
	proxy, _ := l.KubeProxy("a1")
	containerd, err := l.Containerd("a1")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []interface {
		Kill(context.Context) error
		Start(context.Context) error
		Child() *Child
	}{kubelet, proxy, containerd} {
		if err := p.Kill(ctx); err != nil || p.Child() != nil {
			t.Fatalf("kill: %v", err)
		}
		if _, err := hear(ctx, pods["b"], pods["a"], "/"); err != nil {
			t.Errorf("with a program of a1 gone: %v", err)
		}
		if err := p.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	late, err := l.RunPod(ctx, PodSpec{Name: "late", Node: "a1", HostNetwork: true})
	if err != nil {
		t.Fatal(err)
	}
	if late.IP() != late.Node().IP() {
		t.Errorf("a pod of the node's network has %s", late.IP())
	}
	if err := late.Remove(ctx); err != nil {
		t.Error(err)
	}
}

// nothingLeft closes the lab and looks for what containers may leave behind.
func nothingLeft(t *testing.T, l *Lab) {
	owner, err := ownCgroupOwner()
	if err != nil {
		t.Fatal(err)
	}
	tr := traces{t: t, machines: map[string]bool{}, cgroup: owner + "/" + l.id, data: l.data}
	for _, n := range l.Nodes() {
		tr.machine(n.machine.Load().init.Pid())
	}
	if n, want := tr.processes(), 3*5+2+3*2; n != want {
		t.Errorf("%d processes, want %d: per node init, containerd, kubelet, kube-proxy and a shim with two containers, and two stray", n, want)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	tr.none()
}

// TestNodesOfKilledLab kills a lab with SIGKILL: its machines end by
// themselves, and `lab down` removes the rest.
func TestNodesOfKilledLab(t *testing.T) {
	requireKubernetes(t)
	c := newCLI(t)
	s := c.up("k", "--preset", "lan", "--kubernetes")
	tr := traces{t: t, machines: map[string]bool{}, cgroup: cgroupOwner(s.Pid, s.Ticks) + "/", data: s.Data}
	pod := PodSpec{Name: "static", Port: podPort}.object("a")
	pod.Spec.NodeName, pod.Spec.Tolerations = "", nil
	body, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Data, "nodes", "a1", "manifests", "static.json"), body, 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 30*time.Second, "a static pod runs", func() bool { return tr.processes() >= 2 })
	pids, err := space.Processes(s.ids())
	if err != nil {
		t.Fatal(err)
	}
	outside, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		tr.machine(pid)
	}
	delete(tr.machines, outside)
	if n, want := tr.processes(), 3*4+1+2; len(tr.machines) != 3 || n < want {
		t.Errorf("%d machines with %d processes, want 3 and %d", len(tr.machines), n, want)
	}
	if err := syscall.Kill(s.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 10*time.Second, "the machines end with their lab", func() bool { return tr.processes() == 0 })
	c.run(0, "down", "--name", "k")
	tr.none()
}

// traces are what the containers of a lab are known by.
type traces struct {
	t *testing.T
	// machines are pid namespaces, as links in /proc name them.
	machines     map[string]bool
	cgroup, data string
}

// machine adds the pid namespace of a process.
func (tr traces) machine(pid int) {
	tr.t.Helper()
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.machines[name] = true
}

// processes counts those of the machines, and those of containers, which have
// a pid namespace of their own each, by their cgroup.
func (tr traces) processes() int {
	tr.t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		tr.t.Fatal(err)
	}
	n := 0
	for _, dir := range dirs {
		name, _ := os.Readlink(dir + "/ns/pid")
		cgroup, _ := os.ReadFile(dir + "/cgroup")
		if tr.machines[name] || strings.Contains(string(cgroup), "/"+cgroupParent+"/"+tr.cgroup) {
			n++
		}
	}
	return n
}

// none complains about whatever is left.
func (tr traces) none() {
	tr.t.Helper()
	if n := tr.processes(); n > 0 {
		tr.t.Errorf("%d processes left", n)
	}
	if left, err := filepath.Glob("/sys/fs/cgroup/*/" + cgroupParent + "/" + tr.cgroup); err != nil || len(left) > 0 {
		tr.t.Errorf("cgroups left: %v, %v", left, err)
	}
	if _, err := os.Stat(tr.data); !errors.Is(err, fs.ErrNotExist) {
		tr.t.Errorf("data left: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), tr.data) {
		tr.t.Errorf("mounts left: %s, %v", mounts, err)
	}
}

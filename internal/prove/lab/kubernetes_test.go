package lab

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// requireKubernetes skips where something for Kubernetes is missing, and fails
// in CI.
func requireKubernetes(t *testing.T) {
	t.Helper()
	spec := mustDefault(t, "lan")
	spec.Kubernetes = true
	spec, err := spec.complete()
	if err == nil {
		err = spec.Preflight()
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// TestProbesLeaveKubernetesPorts guards what kept kubelets from starting: a port
// that a probe had used moments before.
func TestProbesLeaveKubernetesPorts(t *testing.T) {
	for port, owner := range kubernetesPorts {
		if port >= firstPort && port <= lastPort {
			t.Errorf("probes send from port %d, which belongs to %s", port, owner)
		}
	}
}

// TestKubernetesPreflight takes away what Kubernetes needs, piece by piece.
func TestKubernetesPreflight(t *testing.T) {
	requireKubernetes(t)
	spec := mustDefault(t, "lan")
	spec.Kubernetes = true
	spec, err := spec.complete()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, tt := range []struct{ next, want string }{
		{"nft", "kubernetes needs the program containerd, which is missing: install the package containerd"},
		{"containerd", "the program runc, which is missing: install"},
		{"runc", "the program conntrack, which is missing: install"},
		{"conntrack", "the lab wants kube-apiserver-1.35 and "},
	} {
		if err := os.WriteFile(filepath.Join(dir, tt.next), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		err := spec.Preflight()
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("with %s: %v, want …%s…", tt.next, err, tt.want)
		}
	}
}

// TestKubernetesControlPlane starts apiservers over a list of etcd members with
// their controller managers and schedulers, and breaks what leads.
func TestKubernetesControlPlane(t *testing.T) {
	requireKubernetes(t)
	spec := mustDefault(t, "lan")
	spec.Kubernetes, spec.APIServer.Etcd = true, etcdList
	l := startLab(t, spec)
	for _, c := range l.components() {
		c.revive = 100 * time.Millisecond
	}
	ctx := deadline(t, 4*time.Minute)
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
	t.Logf("kubernetes is up after %v", time.Since(began).Round(time.Millisecond))
	identities(ctx, t, l)
	for _, row := range l.reportComponents(ctx) {
		if !row.Running || !row.Healthy || row.Pid == 0 {
			t.Errorf("report of %s %s: %+v", row.Kind, row.Node, row)
		}
	}
	listOfMembers(ctx, t, l)
	killed(ctx, t, l)
}

// TestKubernetesCommands starts a Kubernetes lab from the command line, asks it
// with kubectl, and kills it.
func TestKubernetesCommands(t *testing.T) {
	requireKubernetes(t)
	c := newCLI(t)
	s := c.up("kc", "--preset", "lan", "--kubernetes")
	out, _ := c.run(0, "kubectl", "--name", "kc", "get", "nodes", "-o", "name")
	if out != "node/a1\nnode/b1\nnode/c1\n" {
		t.Errorf("get nodes: %s", out)
	}
	out, _ = c.run(0, "kubectl", "--name", "kc", "--node", "b1", "--", "--v=6", "get", "nodes", "-l", "node-role.kubernetes.io/control-plane,topology.kubernetes.io/zone=c", "-o", "name")
	if out != "node/c1\n" {
		t.Errorf("get nodes by label: %s", out)
	}
	if _, err := c.run(1, "kubectl", "--name", "kc", "get", "pod", "nobody"); !strings.Contains(err, `pods "nobody" not found`) {
		t.Errorf("get a pod: %s", err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"kubectl", "--name", "kc", "--node", "z1", "--", "get", "nodes"}, `node "z1" is unknown: use a1, b1, c1`},
		{[]string{"kubectl", "--name", "other", "get", "nodes"}, "lab other is not up: start it with"},
	} {
		if _, err := c.run(2, tt.args...); !strings.Contains(err, tt.want) || strings.Count(err, "\n") != 1 {
			t.Errorf("%v: %s", tt.args, err)
		}
	}
	var r Report
	out, _ = c.run(0, "status", "--name", "kc", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Components) != 15 || slices.ContainsFunc(r.Components, func(c ComponentReport) bool { return !c.Healthy }) ||
		slices.ContainsFunc(r.Nodes, func(n NodeReport) bool { return n.State != "Ready" }) {
		t.Errorf("status: %s", out)
	}
	if err := syscall.Kill(s.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 5*time.Second, "the supervisor is gone", func() bool { return !s.alive() })
	if _, err := c.run(2, "kubectl", "--name", "kc", "get", "nodes"); !strings.Contains(err, "lab kc has crashed: clean up with") {
		t.Errorf("kubectl after a crash: %s", err)
	}
	c.run(0, "down", "--name", "kc")
	nothingNames(t, s.Data)
}

// nothingNames looks for a directory of the lab in the mounts and command lines
// of this machine.
func nothingNames(t *testing.T, dir string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts of %s are left: %v", dir, err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), dir) {
			t.Errorf("%s is left: %s", path, line)
		}
	}
}

// listOfMembers takes a member away from under an apiserver that knows others.
func listOfMembers(ctx context.Context, t *testing.T, l *Lab) {
	b, err := l.APIServer("b")
	if err != nil {
		t.Fatal(err)
	}
	want := "--etcd-servers=https://10.77.2.11:2379,https://10.77.1.11:2379,https://10.77.3.11:2379"
	if !slices.Contains(b.Argv(), want) {
		t.Errorf("flags of the apiserver: %v", b.Argv())
	}
	if err := b.Detach(ctx); err == nil || !strings.Contains(err.Error(), "leave apiserver.etcd out") {
		t.Errorf("detach: %v", err)
	}
	if err := b.Member().Kill(ctx); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 20*time.Second, "the apiserver is ready without its own member", func() bool { return b.Ready(ctx) == nil })
	if err := b.Member().Start(ctx); err != nil {
		t.Fatal(err)
	}
}

// killed sees that a component comes back after a crash and not after Kill.
func killed(ctx context.Context, t *testing.T, l *Lab) {
	c, err := l.ControllerManager("a")
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Scheduler("a")
	if err != nil {
		t.Fatal(err)
	}
	first := c.Child()
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-first.Done()
	if err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if next := c.Child(); next == nil || next.Pid() == first.Pid() {
		t.Error("the controller manager was not started again")
	}
	if err := s.Kill(ctx); err != nil || s.Child() != nil {
		t.Fatalf("kill: %v", err)
	}
	if err := s.Healthy(ctx); err == nil {
		t.Error("a killed scheduler is well")
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(ctx); err != nil || s.Child() != nil {
		t.Fatalf("stop: %v", err)
	}
}

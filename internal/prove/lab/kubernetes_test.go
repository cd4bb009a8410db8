package lab

import (
	"context"
	"os"
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

package kube

import (
	"context"
	"fmt"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
)

func leaseOf(t *testing.T, name, holder string, version int) coordination.Lease {
	t.Helper()
	r := lease.Record{Holder: holder, Turn: 1, Duration: lease.DefaultDuration}
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	l := coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(version), Annotations: map[string]string{Annotation: string(text)}}}
	l.Spec.HolderIdentity = &holder
	return l
}

// Each Store hears of its Lease alone: what there is when it begins to watch, what
// changes, and that it is gone.
func TestShared(t *testing.T) {
	s := &Shared{Namespace: "kube-system", Label: "x", Value: "y"}
	told := make(chan string, 10)
	watch := func(name string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			s.Store(name).Watch(ctx, func(seen lease.Seen) { told <- fmt.Sprintf("%s %q %d", name, seen.Record.Holder, seen.Version) })
			close(done)
		}()
		return func() { cancel(); <-done }
	}
	expect := func(want string) {
		t.Helper()
		if got := <-told; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	s.replace([]coordination.Lease{leaseOf(t, "one", "a", 1), leaseOf(t, "two", "b", 2)})
	stop := watch("one")
	expect(`one "a" 1`)
	other := watch("three")
	expect(`three "" 0`)
	change := leaseOf(t, "one", "b", 3)
	s.mu.Lock()
	s.apply(&change, false)
	s.mu.Unlock()
	expect(`one "b" 3`)
	s.replace(nil)
	for range 2 {
		got := <-told
		if got != `one "" 0` && got != `three "" 0` {
			t.Errorf("told %q when all are gone", got)
		}
	}
	stop()
	other()
	s.replace([]coordination.Lease{leaseOf(t, "one", "a", 4)})
	if len(told) > 0 {
		t.Errorf("told %q who does not watch any more", <-told)
	}
	if seen, listed := s.Seen(); !listed || len(seen) != 1 || seen["one"].Version != 4 {
		t.Errorf("seen %v", seen)
	}
}

// A Lease that is made has the label by which it is followed.
func TestSharedLabels(t *testing.T) {
	store, a := newStore(t)
	s := &Shared{Cluster: store.Cluster, Namespace: "kube-system", Label: "holdfast.dev/x", Value: "y"}
	if _, err := s.Store("vip").Write(t.Context(), lease.Record{Duration: lease.DefaultDuration}, 0); err != nil {
		t.Fatal(err)
	}
	labels := a.object["metadata"].(map[string]any)["labels"]
	if got := fmt.Sprint(labels); got != "map[holdfast.dev/x:y]" {
		t.Errorf("labels %s", got)
	}
}

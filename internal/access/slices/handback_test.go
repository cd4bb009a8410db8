package slices

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// Who hands back while something changes is told what to do, and no more than
// what was read is deleted.
func TestRemoveStopsAtWhatChanged(t *testing.T) {
	r := newRig(t)
	r.begin()
	r.slice("cp2", "10.0.0.2", "b")
	client, err := r.cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	k := &keeper{out: &out, world: r.world, client: client, actor: r.actor, lock: r.lock}
	s, err := k.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.slice("cp2", "10.0.0.3", "b")
	err = k.remove(t.Context(), &s, "cp2")
	if err == nil || !strings.HasSuffix(err.Error(), "default/kubernetes-cp2 was changed meanwhile; nothing more was deleted; run it again") || exit.Code(err) != exit.Failed {
		t.Errorf("got %v", err)
	}
	if r.api.objects[pathOf("kubernetes-cp2")] == nil {
		t.Error("it was deleted")
	}
	if s, err = k.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.remove(t.Context(), &s, "cp2"); err != nil || !strings.Contains(out.String(), "deleted EndpointSlice default/kubernetes-cp2") {
		t.Errorf("%v: %s", err, out.String())
	}
}

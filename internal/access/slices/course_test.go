package slices

import (
	"strings"
	"testing"
	"time"

	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/access/slices/landing"
)

// passes lets the clock of the agent's course go on.
func (r *rig) passes(d time.Duration) { r.started = r.started.Add(-d) }

// A datapath that passes hints over is complained of once, at the Node; and no
// more once as many connections have stayed as tell.
func TestCourse(t *testing.T) {
	r, cross := newRig(t), newCrossing(t, false)
	r.traffic = datapath.Datapath{Kind: datapath.KubeProxy}
	cross.stands(t, r)
	if r.step(t.Context()) || cross.made.Load() > 0 {
		t.Fatal("a connection was made before the endpoints had settled")
	}
	steps := func(n int) {
		for range n {
			if !r.step(t.Context()) {
				t.Fatal("no connection was made")
			}
		}
	}
	r.passes(landing.Settle)
	cross.send("b")
	steps(3)
	text := r.problem(codeIgnored)
	if !strings.Contains(text, "a connection of node cp1 to the Service left zone a") || !strings.HasSuffix(text, "kube-proxy on this node does not honour zones: restart it (and trafficDistribution is not set: traffic goes to every zone; set PreferClose)") {
		t.Errorf("it says: %s", text)
	}
	if s := r.status(); s.Path != "strays" || s.path() != "leave zone a" {
		t.Errorf("status: %s", s.Path)
	}
	cross.send("a")
	steps(6)
	if r.problem(codeIgnored) == "" {
		t.Error("well again too early")
	}
	steps(1)
	if s := r.status(); r.problem(codeIgnored) != "" || s.Path != "kept" || s.path() != "stay in zone a" {
		t.Errorf("status: %s, %v", s.Path, s.Problems)
	}
	if writes := r.api.count(""); writes > 0 {
		t.Errorf("%d writes were made because of it", writes)
	}
}

// A datapath that knows more than a stalled watch has shown is not blamed.
func TestCourseOfStalledWatch(t *testing.T) {
	r, cross := newRig(t), newCrossing(t, false)
	cross.stands(t, r)
	r.observePath()
	r.passes(landing.Settle)
	at := cross.endpoints["c"]
	o := ourSlice("cp3", at.Addr().String(), "c", int32(at.Port()))
	o.Endpoints[0].Hints.ForZones = append(o.Endpoints[0].Hints.ForZones, discovery.ForZone{Name: "a"})
	put(t, r.api, pathOf("kubernetes-cp3"), *o)
	cross.send("c")
	if !r.step(t.Context()) || r.problem(codeIgnored) != "" {
		t.Errorf("it says: %s", r.problem(codeIgnored))
	}
	put(t, r.api, pathOf("kubernetes-cp3"), *ourSlice("cp3", at.Addr().String(), "c", int32(at.Port())))
	if !r.step(t.Context()) || r.problem(codeIgnored) == "" {
		t.Error("it says nothing of a stray")
	}
}

// A certificate that is renewed is learnt anew, and endpoints are not asked for it
// again and again.
func TestCourseLearns(t *testing.T) {
	r, cross := newRig(t), newCrossing(t, false)
	cross.stands(t, r)
	r.observePath()
	r.passes(landing.Settle)
	r.step(t.Context())
	for address := range r.course.book {
		r.course.book[address] = landing.Print{}
	}
	if r.step(t.Context()); r.course.watch.State() != landing.Untold || r.course.book[cross.endpoints["a"].String()] != (landing.Print{}) {
		t.Error("endpoints were asked twice at once")
	}
	r.passes(askEvery)
	cross.send("c")
	if r.step(t.Context()); r.course.watch.State() != landing.Ignores {
		t.Error("the new certificates are not known")
	}
}

package slices

import (
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// aSlice is one of ours at a version.
func aSlice(name, version string, ready bool) *discovery.EndpointSlice {
	s := plan.Slice{Name: name, Family: plan.IPv4, Node: "cp1", Address: "10.0.0.1", Port: 6443, Zone: "a", Hints: []string{"a"}, Ready: ready}
	o := bare(name)
	o.ResourceVersion = version
	fillSlice(&o, &s)
	return &o
}

// seen are the versions of slices that a world shows.
func seen(w *world) map[string]string {
	all := map[string]string{}
	s := w.look()
	for _, each := range s.view.Slices {
		all[each.Name] = each.Version
	}
	if c := s.view.Combined; c != nil {
		all[plan.ServiceName] = c.Version
	}
	return all
}

// A watch that lags behind an own write must not show the state before it: the
// next decision would be made on what is known to be over.
func TestAnswersAreNewerThanWatches(t *testing.T) {
	const name = "kubernetes-cp1"
	w := newWorld()
	now := time.Now()
	w.clock = func() time.Time { return now }
	step := func(what, want string) {
		t.Helper()
		if got := seen(w)[name]; got != want {
			t.Errorf("%s: version %q, want %q", what, got, want)
		}
	}
	w.replaceSlices([]discovery.EndpointSlice{*aSlice(name, "5", true)})
	step("as listed", "5")
	w.learn(aSlice(name, "9", false))
	step("after a write", "9")
	w.applySlice(false, aSlice(name, "7", true))
	step("a late event", "9")
	w.applySlice(false, aSlice(name, "9", false))
	w.applySlice(false, aSlice(name, "12", true))
	step("a newer event", "12")
	w.learn(aSlice(name, "10", true))
	step("an answer that was overtaken", "12")
	w.applySlice(true, aSlice(name, "13", true))
	step("deleted", "")
	w.learn(aSlice(name, "15", true))
	step("made again", "15")
	w.unlearn(name, "15")
	step("deleted by us", "")
	w.applySlice(false, aSlice(name, "14", true))
	step("an event of before", "")
	w.applySlice(false, aSlice(name, "20", true))
	step("made by somebody", "20")
	w.learn(aSlice("kubernetes-cp2", "21", true))
	now = now.Add(lateAfter + time.Second)
	if got := seen(w)["kubernetes-cp2"]; got != "" {
		t.Errorf("an answer that no watch confirms for %s is still believed: %q", lateAfter, got)
	}
}

// The slice kubernetes loses the label by which the others are listed when it is
// taken over: that is no deletion.
func TestTakeoverIsNoDeletion(t *testing.T) {
	w := newWorld()
	before := bare(plan.ServiceName)
	before.ResourceVersion, before.Labels = "5", map[string]string{discovery.LabelServiceName: plan.ServiceName}
	w.replaceSlices([]discovery.EndpointSlice{before})
	w.replaceCombined([]discovery.EndpointSlice{before})
	after := before
	after.ResourceVersion = "6"
	after.Labels = map[string]string{discovery.LabelManagedBy: plan.ManagedBy, labelProxy: plan.ProxyName}
	w.applySlice(true, &after)
	if got := seen(w)[plan.ServiceName]; got != "5" {
		t.Errorf("version %q after the label went", got)
	}
	w.applyCombined(false, &after)
	if c := w.look().view.Combined; c.Owner != plan.Ours || c.Version != "6" {
		t.Errorf("got %+v", c)
	}
}

func TestNothingIsDecidedBeforeAllIsKnown(t *testing.T) {
	w := newWorld()
	for _, step := range []struct {
		missing string
		then    func()
	}{
		{"endpointslices", func() { w.replaceSlices(nil) }},
		{"endpointslice kubernetes", func() { w.replaceCombined(nil) }},
		{"leases", func() { w.replaceLeases(nil) }},
	} {
		if got := w.missing(); got != step.missing || w.complete() {
			t.Errorf("missing %q, want %q", got, step.missing)
		}
		step.then()
	}
	if w.missing() != "" || !w.complete() || w.look().view.ZonesKnown {
		t.Errorf("missing %q, zones known %t", w.missing(), w.look().view.ZonesKnown)
	}
}

// A clock that is set wrong shows when renewals arrive one by one: a listed Lease
// may be old, and so may be what a watch brings that was broken off.
func TestSkewOfClocks(t *testing.T) {
	w := newWorld()
	now := time.Now()
	w.clock = func() time.Time { return now }
	renewal := func(ago time.Duration) coordination.Lease {
		l := coordination.Lease{}
		l.Name, l.Labels = leaseName("cp2"), map[string]string{labelManaged: plan.ManagedBy}
		holder, renewed := "x", meta.NewMicroTime(now.Add(-ago))
		l.Spec.HolderIdentity, l.Spec.RenewTime = &holder, &renewed
		return l
	}
	old := renewal(time.Hour)
	w.replaceLeases([]coordination.Lease{old})
	for _, step := range []struct {
		what string
		wait time.Duration // since the one before
		ago  time.Duration // the time that stands in it
		want time.Duration
	}{
		{"the first", time.Second, 0, 0},
		{"the second", 10 * time.Second, 0, 0},
		{"replayed", 40 * time.Second, 30 * time.Second, 0},
		{"replayed with it", 0, 20 * time.Second, 0},
		{"the last of these", 0, 10 * time.Second, 0},
		{"on time again", 100 * time.Millisecond, 0, 0},
		{"its clock was set", 10 * time.Second, 7 * time.Second, 0},
		{"and stays so", 10 * time.Second, 7 * time.Second, 7 * time.Second},
		{"set right", 10 * time.Second, 0, 7 * time.Second},
		{"and stays so, too", 10 * time.Second, 0, 0},
	} {
		now = now.Add(step.wait)
		l := renewal(step.ago)
		w.applyLease(false, &l)
		w.applyLease(false, &l) // something else of it changed
		if skew := w.signals()[0].skew.Round(time.Second); skew != step.want {
			t.Errorf("%s: skew %s, want %s", step.what, skew, step.want)
		}
	}
}

func TestZonesAreCounted(t *testing.T) {
	w := newWorld()
	n := func(name, zone string) *node {
		var out node
		out.Metadata.Name = name
		if zone != "" {
			out.Metadata.Labels = map[string]string{"topology.kubernetes.io/zone": zone}
		}
		return &out
	}
	w.replaceNodes([]node{*n("w1", "b"), *n("w2", "b"), *n("w3", ""), *n("w4", "a")})
	w.applyNode(true, n("w4", "a"))
	v := w.look().view
	if len(v.Zones) != 1 || v.Zones[0] != (plan.Zone{Name: "b", Nodes: 2}) || len(v.Unzoned) != 1 || !v.ZonesKnown {
		t.Errorf("got %+v %v", v.Zones, v.Unzoned)
	}
	if zone, exists, known := w.zoneOf("w3"); zone != "" || !exists || !known {
		t.Errorf("w3: %q %t %t", zone, exists, known)
	}
}

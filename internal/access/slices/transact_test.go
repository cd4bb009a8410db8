package slices

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// A shared write that does no good, for whatever reason, must not be repeated at
// the speed of the API: not by one agent, and not with the short Lease taken and
// given back each time.
func TestFruitlessWritesAreSpaced(t *testing.T) {
	const service, joint = servicesPath + "/" + plan.ServiceName, slicesPath
	for _, c := range []struct {
		name          string
		refuse        int
		meddle        string // a field of the spec that does not stay
		most          int    // writes of it in two minutes
		problem, text string
	}{
		{"denied", http.StatusForbidden, "", 7, codeDenied, "may not patch services"},
		{"refused", http.StatusUnprocessableEntity, "", 7, codeWrite, "the API refuses"},
		{"a webhook that fails", http.StatusInternalServerError, "", 17, codeWrite, "the API does not do it"},
		{"changed back", 0, "trafficDistribution", 17, codeWrite, "each time changed back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.begin()
			r.slice("cp1", "10.0.0.1", "a")
			r.traffic = datapath.Datapath{Kind: datapath.KubeProxy}
			r.api.refuse = func(_, path string) int {
				if path == service {
					return c.refuse
				}
				return 0
			}
			r.api.meddle = func(path string, o map[string]any) {
				if spec, ok := o["spec"].(map[string]any); ok && path == service {
					delete(spec, c.meddle)
				}
			}
			r.goes(2*time.Minute, 100*time.Millisecond)
			if n := r.api.count(service); n < 3 || n > c.most {
				t.Errorf("%d writes in two minutes, want at most %d", n, c.most)
			}
			if n := r.api.count(lockName); n > 2*c.most+10 {
				t.Errorf("%d changes of the short Lease", n)
			}
			if text := r.problem(c.problem); !strings.Contains(text, c.text) {
				t.Errorf("problem %q, want one with %q", text, c.text)
			}
			if r.api.count("POST "+joint) != 1 {
				t.Errorf("the slice kubernetes was made %d times", r.api.count("POST "+joint))
			}
		})
	}
}

// What is new does not wait for what came to nothing.
func TestNewWorkDoesNotWait(t *testing.T) {
	r := newRig(t)
	r.begin()
	r.slice("cp1", "10.0.0.1", "a")
	r.traffic = datapath.Datapath{Kind: datapath.KubeProxy}
	r.api.refuse = func(_, path string) int {
		if strings.HasPrefix(path, servicesPath) {
			return http.StatusForbidden
		}
		return 0
	}
	r.goes(20*time.Second, 100*time.Millisecond)
	r.slice("cp2", "10.0.0.2", "b")
	r.health = plan.Unready
	r.goes(500*time.Millisecond, 100*time.Millisecond)
	s := r.world.look()
	if i := indexOf(s.view.Slices, "kubernetes-cp1"); i < 0 || s.view.Slices[i].Ready {
		t.Errorf("not withdrawn: %+v", s.view.Slices)
	}
}

func indexOf(all []plan.Slice, name string) int {
	for i := range all {
		if all[i].Name == name {
			return i
		}
	}
	return -1
}

// A watch that stands still shows work that is done. What was read under the
// Lease is known from then on, and the Lease is not taken for it again and again.
func TestStaleWatchTakesNoLeases(t *testing.T) {
	r := newRig(t)
	r.begin()
	r.slice("cp1", "10.0.0.1", "a")
	joint := bare(plan.ServiceName)
	fillCombined(&joint, &plan.Combined{Family: plan.IPv4, Members: []plan.Member{{Address: "10.0.0.1", Node: "cp1", Zone: "a", Port: 6443, Ready: true}}})
	put(t, r.api, pathOf(joint.Name), joint) // which no watch tells of
	r.goes(30*time.Second, 100*time.Millisecond)
	if n := r.api.count(lockName); n > 4 {
		t.Errorf("%d changes of the short Lease in half a minute", n)
	}
	if c := r.world.look().view.Combined; c == nil || c.Owner != plan.Ours {
		t.Errorf("what was read is not known: %+v", c)
	}
}

// Deleted objects are learned as well, but not those that no list can show.
func TestReadingShowsWhatIsGone(t *testing.T) {
	r := newRig(t)
	r.begin()
	r.slice("cp2", "10.0.0.2", "b")
	r.slice("cp3", "10.0.0.3", "c")
	stray := put(t, r.api, pathOf("kubernetes-cp4"), bare("kubernetes-cp4"))
	r.world.learn(&stray)
	delete(r.api.objects, pathOf("kubernetes-cp3"))
	r.api.version++
	if _, err := r.readAnew(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := seen(r.world)
	if got["kubernetes-cp2"] == "" || got["kubernetes-cp3"] != "" || got["kubernetes-cp4"] == "" {
		t.Errorf("seen: %v", got)
	}
}

// A slice with our name that is somebody else's and that no watch shows is one
// problem, for as long as it is there.
func TestForeignSliceWithOurName(t *testing.T) {
	r := newRig(t)
	r.begin()
	put(t, r.api, pathOf("kubernetes-cp1"), bare("kubernetes-cp1"))
	ended := 0
	r.problems.record = func(_, reason, _ string) {
		if reason == "NameTaken" {
			ended++
		}
	}
	r.world.clock = r.clock
	r.goes(3*time.Minute, 5*time.Second)
	if r.problem(plan.NameTaken) == "" || ended != 1 {
		t.Errorf("problems %+v, stated %d times", r.problems.all(), ended)
	}
	if n := r.api.count("POST " + slicesPath); n != 1 {
		t.Errorf("%d tries to create it", n)
	}
	delete(r.api.objects, pathOf("kubernetes-cp1"))
	r.goes(time.Minute, 5*time.Second)
	if r.problem(plan.NameTaken) != "" || r.api.objects[pathOf("kubernetes-cp1")] == nil {
		t.Errorf("it was deleted: %+v", r.problems.all())
	}
}

// Agents that know different things of the datapath agree in the end, whatever
// was set before, and whoever is first.
func TestAgentsAgreeOnTraffic(t *testing.T) {
	v := func(minor int) kubeapi.ServerVersion { return kubeapi.ServerVersion{Major: 1, Minor: minor} }
	known := []datapath.Datapath{
		{Kind: datapath.KubeProxy, Server: v(35)}, {Kind: datapath.KubeProxy, Server: v(33)},
		{Kind: datapath.Cilium, Major: 1, Minor: 19, Server: v(35)}, {Kind: datapath.Cilium, Major: 1, Minor: 20, Server: v(35)},
		{Kind: datapath.Unknown},
	}
	ours := plan.Slice{Name: "kubernetes-cp1", Owner: plan.Ours, Family: plan.IPv4, Address: "10.0.0.1", Node: "cp1", Zone: "a", Hints: []string{"a"}, Ready: true}
	for _, before := range []string{"", "PreferClose", "PreferSameZone", "PreferSameNode"} {
		for _, one := range known {
			for _, other := range known {
				now, changes := before, 0
				for n := range 10 {
					d := one
					if n%2 == 1 {
						d = other
					}
					cfg := plan.Settings{Traffic: d.Prefer(), Honoured: d.Honours()}
					v := plan.View{Slices: []plan.Slice{ours}, Service: plan.Service{Version: "1", Traffic: now}}
					for _, w := range plan.Shared(&cfg, &plan.Self{Node: "cp1"}, &v, &plan.Facts{}) {
						if w.Op == plan.PatchService {
							now, changes = w.Traffic, changes+1
						}
					}
				}
				if changes > 2 || one.Doubt(now) != "" || other.Doubt(now) != "" {
					t.Errorf("%s and %s, from %q: %d changes, %q in the end", one, other, before, changes, now)
				}
			}
		}
	}
}

// The observer is never shown an older world after a newer one: it would take
// that for a reconciler at work. So the world is looked at while nobody else may
// show it anything.
func TestSightsComeInOrder(t *testing.T) {
	r := newRig(t)
	r.begin()
	r.world.learn(aSlice("kubernetes-cp2", "9", true)) // whose age is looked at
	looked := false
	r.world.clock = func() time.Time {
		looked = true
		if r.seeing.TryLock() {
			r.seeing.Unlock()
			t.Error("another sight may be shown between looking and showing")
		}
		return r.at
	}
	if r.look(); !looked {
		t.Error("not looked")
	}
}

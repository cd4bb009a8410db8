package plan

import "testing"

func TestCombined(t *testing.T) {
	theirs := func(version, probe string, addresses ...string) *Combined {
		c := &Combined{Version: version, Owner: Reconciler, Family: IPv4, Probe: probe}
		for _, a := range addresses {
			c.Members = append(c.Members, Member{Address: a, Port: 6443, Ready: true})
		}
		return c
	}
	ours := func(members ...Member) *Combined {
		return &Combined{Version: "5", Owner: Ours, Family: IPv4, Members: members}
	}
	a, b := Member{"10.0.0.1", "1", "a", 6443, true}, Member{"10.0.0.2", "2", "b", 6443, false}
	tests := []struct {
		name  string
		is    *Combined
		facts Facts
		want  string
	}{
		{"none yet", nil, Facts{}, "create-combined 1/a=true 2/b=false"},
		{"complete", ours(a, b), Facts{Phase: TakenOver}, ""},
		{"an address is missing", ours(a), Facts{Phase: TakenOver}, "update-combined 1/a=true 2/b=false"},
		{"changed by hand", &Combined{Version: "5", Owner: Ours, Family: IPv4, Members: []Member{a, b}, Odd: true}, Facts{Phase: TakenOver}, "update-combined 1/a=true 2/b=false"},
		{"of a family that is gone", &Combined{Version: "5", Owner: Ours, Family: IPv6}, Facts{Phase: TakenOver}, "delete-combined"},
		{"somebody else's", &Combined{Version: "5"}, Facts{Phase: Occupied}, ""},
		{"not probed", theirs("5", "", "10.0.0.1"), Facts{Phase: Unprobed, Probed: "5"}, "probe-combined"},
		{"not probed, and changed since", theirs("6", "", "10.0.0.1"), Facts{Phase: Unprobed, Probed: "5"}, ""},
		{"probing", theirs("5", "1", "10.0.0.1"), Facts{Phase: Probing, Probed: "5"}, ""},
		{"active", theirs("5", "", "10.0.0.1"), Facts{Phase: Active, Probed: "5"}, ""},
		{"dormant", theirs("5", "1", "10.0.0.1"), Facts{Phase: Dormant, Probed: "5"}, "update-combined 1/a=true 2/b=false"},
		{"dormant, and changed since", theirs("6", "1", "10.0.0.1"), Facts{Phase: Dormant, Probed: "5"}, ""},
		{"dormant, and the probe is gone", theirs("5", "", "10.0.0.1"), Facts{Phase: Dormant, Probed: "5"}, ""},
		{"dormant, and an address has no agent", theirs("5", "1", "10.0.0.1", "10.0.0.9"), Facts{Phase: Dormant, Probed: "5"}, ""},
		{"dormant and empty", theirs("5", "1"), Facts{Phase: Dormant, Probed: "5"}, "update-combined 1/a=true 2/b=false"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := scene{slices: []Slice{endpoint("1", "a", "b"), unready(endpoint("2", "b"))}, zones: "ab", health: Ready, node: "1"}
			cfg, self, v := Default(), s.self(), s.view()
			v.Combined = test.is
			got := Shared(&cfg, &self, &v, &test.facts)
			if story(got) != test.want {
				t.Errorf("got  %q\nwant %q", story(got), test.want)
			}
			for _, w := range got {
				if test.is != nil && w.Version() != test.is.Version || w.Op == UpdateCombined && w.Combined.Odd {
					t.Errorf("%+v", w)
				}
			}
		})
	}
}

// TestTakeoverWaits: not while there is something else to do, nor while none of
// ours is ready.
func TestTakeoverWaits(t *testing.T) {
	s := scene{slices: []Slice{endpoint("1", "a")}, zones: "ab", health: Ready, node: "1", facts: Facts{Phase: Dormant, Probed: "5"}}
	cfg, self, v := Default(), s.self(), s.view()
	v.Combined = &Combined{Version: "5", Owner: Reconciler, Family: IPv4, Probe: "1", Members: []Member{{Address: "10.0.0.1", Ready: true}}}
	if got := story(Shared(&cfg, &self, &v, &s.facts)); got != "update kubernetes-1 a [a b] ready" {
		t.Error(got)
	}
	s.slices[0].Ready = false
	v.Slices = s.slices
	if got := story(Shared(&cfg, &self, &v, &s.facts)); got != "" {
		t.Errorf("none is ready: %s", got)
	}
}

// TestCombinedFollowsThePlan: readers are told what is about to be, in the same
// transaction.
func TestCombinedFollowsThePlan(t *testing.T) {
	s := scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b")}, zones: "ab", health: Unready, node: "1"}
	cfg, self, v := Default(), s.self(), s.view()
	v.Combined = &Combined{Version: "5", Owner: Ours, Family: IPv4}
	want := "update kubernetes-2 b [a b] ready for kubernetes-1@1; update kubernetes-1 a [a] unready; update-combined 1/a=false 2/b=true"
	if got := story(Shared(&cfg, &self, &v, &Facts{})); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestOnePort: a slice names one port, so others are left out, and what is
// written is not written again.
func TestOnePort(t *testing.T) {
	port := func(node string, port int32, ready bool) Slice {
		return changed(endpoint(node, "a"), func(s *Slice) { s.Port, s.Ready = port, ready })
	}
	tests := []struct {
		name   string
		slices []Slice
		want   string
	}{
		{"the most", []Slice{port("1", 6443, true), port("2", 7443, true), port("3", 7443, true)}, "create-combined 2/a=true 3/a=true"},
		{"the lowest", []Slice{port("1", 7443, true), port("2", 6443, true)}, "create-combined 2/a=true"},
		{"one that is ready", []Slice{port("1", 6443, false), port("2", 6443, false), port("3", 7443, true)}, "create-combined 3/a=true"},
	}
	cfg := Default()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := scene{slices: test.slices, zones: "a", health: Unknown, node: "9"}
			self, v := s.self(), s.view()
			got := Shared(&cfg, &self, &v, &Facts{})
			if story(got) != test.want {
				t.Fatalf("got  %q\nwant %q", story(got), test.want)
			}
			v.Combined = &got[0].Combined
			if again := Shared(&cfg, &self, &v, &Facts{}); len(again) > 0 {
				t.Errorf("and again %q", story(again))
			}
		})
	}
}

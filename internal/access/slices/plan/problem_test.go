package plan

import (
	"slices"
	"strings"
	"testing"
)

func TestProblems(t *testing.T) {
	good := func() (Self, View, Facts) {
		return agent("1", "a", Ready), View{Slices: []Slice{endpoint("1", "a"), endpoint("2", "b")}, Zones: []Zone{{"a", 1}, {"b", 1}}, ZonesKnown: true}, Facts{Phase: TakenOver}
	}
	tests := []struct {
		name   string
		change func(*Self, *View, *Facts)
		want   []string // code and a word of the remedy each
	}{
		{"none", func(*Self, *View, *Facts) {}, nil},
		{"no zone", func(s *Self, _ *View, _ *Facts) { s.Zone = "" }, []string{ZoneMissing, "kubectl label node 1"}},
		{"a rival", func(_ *Self, _ *View, f *Facts) { f.Rival, f.Rivalry = "x", true }, []string{NodeTwice, "another name"}},
		{"perhaps a rival", func(_ *Self, _ *View, f *Facts) { f.Rival = "x" }, []string{NodeTwice, "waiting for 12s"}},
		{"name taken", func(_ *Self, v *View, _ *Facts) { v.Slices[0].Owner = Foreign }, []string{NameTaken, "delete it"}},
		{"wrong type", func(_ *Self, v *View, _ *Facts) { v.Slices[0].Family = IPv6 }, []string{NameTaken, "delete it"}},
		{"strange", func(_ *Self, v *View, _ *Facts) { v.Slices[1].Owner = Foreign }, []string{StrangeSlice, "delete it"}},
		{"reconciler", func(_ *Self, _ *View, f *Facts) { f.Phase = Active }, []string{ReconcilerActive, "--endpoint-reconciler-type=none"}},
		{"occupied", func(_ *Self, _ *View, f *Facts) { f.Phase = Occupied }, []string{NameTaken, "delete it"}},
		{"uncovered", func(_ *Self, v *View, f *Facts) {
			f.Phase = Dormant
			v.Combined = &Combined{Owner: Reconciler, Members: []Member{{Address: "10.0.0.1"}, {Address: "10.0.0.7"}}}
		}, []string{AddressUncovered, "10.0.0.7"}},
		{"last", func(s *Self, v *View, _ *Facts) { s.Health, v.Slices[1].Ready = Unready, false }, []string{LastReady, "mend"}},
		{"unready, not last", func(s *Self, _ *View, _ *Facts) { s.Health = Unready }, nil},
		{"unzoned", func(_ *Self, v *View, _ *Facts) { v.Unzoned = []string{"w1", "w2", "w3", "w4", "w5"} }, []string{NodesUnzoned, "w3 and 2 more"}},
		{"nodes unknown", func(_ *Self, v *View, _ *Facts) { v.ZonesKnown = false }, []string{ZonesUnknown, "not adopted"}},
		{"ports", func(_ *Self, v *View, _ *Facts) { v.Slices[1].Port = 7443 }, []string{PortsDiffer, "10.0.0.2 (port 7443)"}},
		{"full", func(_ *Self, v *View, _ *Facts) {
			v.Slices = v.Slices[:1]
			v.Slices[0].Hints = strings.Split("abcdefgh", "")
			v.Zones = append(v.Zones, Zone{"z", 1})
		}, []string{HintsFull, "fewer zones"}},
	}
	cfg := Default()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			self, v, f := good()
			test.change(&self, &v, &f)
			got := Problems(&cfg, &self, &v, &f)
			if test.want == nil {
				if got != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Code != test.want[0] || !strings.Contains(got[0].Text, test.want[1]) || strings.Contains(got[0].Text, "\n") {
				t.Errorf("got %+v, want %v", got, test.want)
			}
		})
	}
}

// TestPlansAreReproducible: the same view gives the same plan.
func TestPlansAreReproducible(t *testing.T) {
	s := scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b"), endpoint("3", "c")}, zones: "abcde", health: Unready, node: "1"}
	first := s.share(Shared)
	for range 10 {
		if got := s.share(Shared); got != first {
			t.Fatalf("%q, and %q", first, got)
		}
	}
	before := slices.Clone(s.slices)
	s.share(Shared)
	if !slices.EqualFunc(before, s.slices, func(a, b Slice) bool { return a.equal(&b) }) {
		t.Error("the view was changed")
	}
}

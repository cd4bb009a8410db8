package plan

import (
	"fmt"
	"strings"
	"testing"
)

// scene is a view with zones a node each, and what is known beside it.
type scene struct {
	slices    []Slice
	zones     string // one letter each
	health    Health
	node      string // the agent that plans; its zone is a unless its slice says so
	facts     Facts
	witnesses []string
	leases    []Lease
}

func (s *scene) view() View {
	v := View{Slices: s.slices, ZonesKnown: true, Leases: s.leases}
	for _, z := range s.zones {
		v.Zones = append(v.Zones, Zone{string(z), 1})
	}
	return v
}

func (s *scene) self() Self {
	self := agent(s.node, "a", s.health)
	for _, o := range s.slices {
		if o.Node == s.node {
			self.Zone = o.Zone
		}
	}
	return self
}

// share plans the slices alone; the slice kubernetes has its own test.
func (s *scene) share(plan func(*Settings, *Self, *View, *Facts) []Write) string {
	cfg, self, v := Default(), s.self(), s.view()
	cfg.Witnesses = s.witnesses
	var all []Write
	for _, w := range plan(&cfg, &self, &v, &s.facts) {
		if w.Slice.Name != "" {
			all = append(all, w)
		}
	}
	return story(all)
}

func unready(s Slice) Slice { s.Ready = false; return s }

func TestShared(t *testing.T) {
	abc := []Slice{endpoint("1", "a"), endpoint("2", "b"), endpoint("3", "c")}
	lapsed := Facts{Lapsed: []Lapse{{Node: "3", Ready: []Standing{{"kubernetes-3", ""}}, Agent: "l3", AgentToken: "7", Identity: "i3", IdentityToken: "8"}}, Quiet: []Silence{{"3", "l3", "7"}}}
	still := []Lease{{Role: Agent, Name: "l3", Node: "3", Token: "7"}, {Role: Identity, Name: "i3", Token: "8"}}
	moved := []Lease{{Role: Agent, Name: "l3", Node: "3", Token: "7"}, {Role: Identity, Name: "i3", Token: "9"}}
	tests := []struct {
		name  string
		scene scene
		want  string
	}{
		{"nothing to do", scene{slices: abc, zones: "abc", health: Ready, node: "1"}, ""},
		{
			"the own is unready: its zone is adopted first", scene{slices: abc, zones: "abc", health: Unready, node: "1"},
			"update kubernetes-2 b [a b] ready for kubernetes-1@1; update kubernetes-1 a [a] unready",
		},
		{
			"the witness adopts first", scene{slices: abc, zones: "abc", health: Unready, node: "1", witnesses: []string{"c"}},
			"update kubernetes-3 c [a c] ready for kubernetes-1@1; update kubernetes-1 a [a] unready",
		},
		{
			"who is late adopts last", scene{slices: abc, zones: "abc", health: Unready, node: "1", witnesses: []string{"c"}, leases: still, facts: Facts{Quiet: []Silence{{"3", "l3", "7"}}}},
			"update kubernetes-2 b [a b] ready for kubernetes-1@1; update kubernetes-1 a [a] unready",
		},
		{
			"who was late has renewed in what is read anew", scene{slices: abc, zones: "abc", health: Unready, node: "1", witnesses: []string{"c"}, leases: still, facts: Facts{Quiet: []Silence{{"3", "l3", "6"}}}},
			"update kubernetes-3 c [a c] ready for kubernetes-1@1; update kubernetes-1 a [a] unready",
		},
		{
			"who is not reached adopts last, for the own zone", scene{slices: abc, zones: "abc", health: Unready, node: "1", witnesses: []string{"c"}, facts: Facts{Unreached: []string{"3"}}},
			"update kubernetes-2 b [a b] ready for kubernetes-1@1; update kubernetes-1 a [a] unready",
		},
		{
			"nobody is reached: the ways may be odd, and the witness adopts", scene{slices: abc, zones: "abc", health: Unready, node: "1", witnesses: []string{"c"}, facts: Facts{Unreached: []string{"2", "3"}}},
			"update kubernetes-3 c [a c] ready for kubernetes-1@1; update kubernetes-1 a [a] unready",
		},
		{
			"who is not reached is reached by other zones", scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b"), endpoint("3", "c")}, zones: "abcd", health: Ready, node: "1", witnesses: []string{"c"}, facts: Facts{Unreached: []string{"3"}}},
			"update kubernetes-3 c [c d] ready",
		},
		{
			"the adopter is not reached any more: another adopts, and it lets go",
			scene{slices: []Slice{unready(endpoint("1", "a")), endpoint("2", "b", "a"), endpoint("3", "c")}, zones: "abc", health: Unready, node: "1", facts: Facts{Unreached: []string{"2"}}},
			"update kubernetes-3 c [a c] ready for kubernetes-2@1; update kubernetes-2 b [b] ready",
		},
		{
			"and lets go later, had its write failed",
			scene{slices: []Slice{unready(endpoint("1", "a")), endpoint("2", "b", "a"), endpoint("3", "c", "a")}, zones: "abc", health: Unready, node: "1", witnesses: []string{"b"}, facts: Facts{Unreached: []string{"2"}}},
			"update kubernetes-3 c [a c] ready for kubernetes-2@1; update kubernetes-2 b [b] ready",
		},
		{
			"the adopter is not reached, nor is anybody else: it stays",
			scene{slices: []Slice{unready(endpoint("1", "a")), endpoint("2", "b", "a"), endpoint("3", "c")}, zones: "abc", health: Unready, node: "1", facts: Facts{Unreached: []string{"2", "3"}}}, "",
		},
		{
			"another agent of the zone comes first, and has its own ways: nothing is moved",
			scene{slices: []Slice{unready(endpoint("1", "a")), endpoint("2", "b", "a"), endpoint("3", "c"), unready(endpoint("4", "a"))}, zones: "abc", health: Unready, node: "4", facts: Facts{Unreached: []string{"2"}}}, "",
		},
		{
			"it comes first, and is late: the next one moves the zone",
			scene{
				slices: []Slice{unready(endpoint("1", "a")), endpoint("2", "b", "a"), endpoint("3", "c"), unready(endpoint("4", "a"))}, zones: "abc", health: Unready, node: "4",
				facts: Facts{Unreached: []string{"2"}, Quiet: []Silence{{"1", "l1", ""}}},
			},
			"update kubernetes-3 c [a c] ready for kubernetes-2@1; update kubernetes-2 b [b] ready",
		},
		{
			"the adopter of another zone is not reached: that is its affair",
			scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b", "d"), endpoint("3", "c")}, zones: "abcd", health: Ready, node: "1", facts: Facts{Unreached: []string{"2"}}}, "",
		},
		{
			"its zone has another endpoint: that is leaned on",
			scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "a"), endpoint("3", "c")}, zones: "ac", health: Unready, node: "1"},
			"update kubernetes-2 a [a] ready for kubernetes-1@1; update kubernetes-1 a [a] unready",
		},
		{
			"an adopter withdraws: all its zones go elsewhere",
			scene{slices: []Slice{endpoint("1", "a", "b"), unready(endpoint("2", "b")), endpoint("3", "c")}, zones: "abc", health: Unready, node: "1"},
			"update kubernetes-3 c [a b c] ready for kubernetes-1@1; update kubernetes-1 a [a] unready",
		},
		{
			"nearest", scene{slices: abc, zones: "abc", health: Unready, node: "1", leases: []Lease{
				{Role: Agent, Name: "l1", Node: "1", Distances: []Distance{{"2", 40}, {"3", 9}}},
				{Role: Agent, Name: "l2", Node: "2", Distances: []Distance{{"1", 8}}},
			}},
			"update kubernetes-2 b [a b] ready for kubernetes-1@1; update kubernetes-1 a [a] unready",
		},
		{
			"the last one stays", scene{slices: []Slice{endpoint("1", "a", "b"), unready(endpoint("2", "b"))}, zones: "ab", health: Unready, node: "1"}, "",
		},
		{
			"nobody is ready: one is restored",
			scene{slices: []Slice{unready(endpoint("1", "a")), unready(endpoint("2", "b"))}, zones: "ab", health: Unready, node: "2", facts: Facts{Quiet: []Silence{{"1", "l1", ""}}}},
			"update kubernetes-2 b [b] ready",
		},
		{
			"no sign of life: adopted, then marked", scene{slices: abc, zones: "abc", health: Ready, node: "1", facts: lapsed, leases: still},
			"update kubernetes-1 a [a c] ready for kubernetes-3@1; update kubernetes-3 c [c] unready by 1",
		},
		{"its endpoint turned ready since", scene{slices: abc, zones: "abc", health: Ready, node: "1", facts: Facts{Lapsed: []Lapse{{Node: "3", Agent: "l3", AgentToken: "7", Identity: "i3", IdentityToken: "8"}}}, leases: still}, ""},
		{"a sign of life in what is read anew", scene{slices: abc, zones: "abc", health: Ready, node: "1", facts: lapsed, leases: moved}, ""},
		{
			"no sign of life and no other", scene{slices: []Slice{endpoint("3", "c")}, zones: "c", health: Ready, node: "1", facts: lapsed, leases: still}, "",
		},
		{
			"unwell, and the other gives no sign: nobody is sure of any",
			scene{slices: []Slice{endpoint("1", "a"), endpoint("3", "c")}, zones: "ac", health: Unready, node: "1", facts: lapsed, leases: still}, "",
		},
		{"zone without an apiserver", scene{slices: abc, zones: "abcd", health: Ready, node: "2"}, "update kubernetes-1 a [a d] ready"},
		{
			"a valid adopter stays", scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b", "d")}, zones: "abd", health: Ready, node: "1", witnesses: []string{"a"}}, "",
		},
		{
			"two adopters: the better one stays",
			scene{slices: []Slice{endpoint("1", "a", "d"), endpoint("2", "b", "d")}, zones: "abd", health: Ready, node: "1", witnesses: []string{"b"}},
			"update kubernetes-2 b [b d] ready for kubernetes-1@1; update kubernetes-1 a [a] ready",
		},
		{
			"two adopters, of which the owner of the better relies on the other: that one stays",
			scene{slices: []Slice{changed(endpoint("1", "a", "d"), func(s *Slice) { s.Lean = "kubernetes-3@1,kubernetes-2@1" }), endpoint("2", "b", "d")}, zones: "abd", health: Ready, node: "1", witnesses: []string{"b"}},
			"update kubernetes-1 a [a d] ready for kubernetes-2@1; update kubernetes-2 b [b] ready",
		},
		{
			"and did so of an older state: that says nothing",
			scene{slices: []Slice{changed(endpoint("1", "a", "d"), func(s *Slice) { s.Lean = "kubernetes-2@0" }), endpoint("2", "b", "d")}, zones: "abd", health: Ready, node: "1", witnesses: []string{"b"}},
			"update kubernetes-2 b [b d] ready for kubernetes-1@1; update kubernetes-1 a [a] ready for kubernetes-2@0",
		},
		{
			"refused to withdraw: it keeps what it serves, and another adopts the rest",
			scene{slices: []Slice{endpoint("1", "a", "c"), endpoint("2", "b")}, zones: "abcd", health: Unready, node: "1", witnesses: []string{"a"}, facts: Facts{Held: []string{"kubernetes-1"}}},
			"update kubernetes-2 b [b d] ready",
		},
		{
			"refused to withdraw: nobody relies on it",
			scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b", "a")}, zones: "ab", health: Unready, node: "1", facts: Facts{Held: []string{"kubernetes-1"}, Steady: []string{"kubernetes-1"}}},
			"",
		},
		{
			"refused to withdraw, and the other gives no sign: nobody is sure of any",
			scene{slices: []Slice{endpoint("1", "a"), endpoint("3", "c")}, zones: "ac", health: Unready, node: "1", leases: still, facts: Facts{Lapsed: lapsed.Lapsed, Held: []string{"kubernetes-1"}}},
			"",
		},
		{"its own is back, not for long", scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b", "a")}, zones: "ab", health: Ready, node: "2"}, ""},
		{
			"its own is back for good", scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b", "a")}, zones: "ab", health: Ready, node: "2", facts: Facts{Steady: []string{"kubernetes-1"}}},
			"update kubernetes-1 a [a] ready for kubernetes-2@1; update kubernetes-2 b [b] ready",
		},
		{"a zone lost its nodes", scene{slices: []Slice{endpoint("1", "a", "d")}, zones: "a", health: Unready, node: "1"}, "update kubernetes-1 a [a] ready"},
		{
			"somebody took a hint", scene{slices: []Slice{endpoint("1", "a"), changed(endpoint("2", "b"), func(s *Slice) { s.Hints = nil })}, zones: "ab", health: Ready, node: "1"},
			"update kubernetes-2 b [b] ready",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.scene.share(Shared); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestWithdraw(t *testing.T) {
	tests := []struct {
		name  string
		scene scene
		want  string
	}{
		{"ready", scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b")}, zones: "ab", health: Ready, node: "1"}, ""},
		{"last", scene{slices: []Slice{endpoint("1", "a")}, zones: "ab", health: Unready, node: "1"}, ""},
		{
			"its own zones alone, and no other work", scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b"), endpoint("3", "c", "x")}, zones: "abcd", health: Unready, node: "1"},
			"update kubernetes-2 b [a b] ready for kubernetes-1@1; update kubernetes-1 a [a] unready",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.scene.share(Withdraw); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// TestMoreZonesThanHints has nine zones and two endpoints: one takes no more
// than MaxHints, and when it is alone it still may be left alone.
func TestMoreZonesThanHints(t *testing.T) {
	s := scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b")}, zones: "abcdefghijklmnop", health: Ready, node: "1"}
	cfg, self, v := Default(), s.self(), s.view()
	for _, w := range Shared(&cfg, &self, &v, &s.facts) {
		if w.Slice.Name != "" && len(w.Slice.Hints) != MaxHints {
			t.Errorf("%s hints %v", w.Slice.Name, w.Slice.Hints)
		}
	}
	s.health = Unready
	want := "update kubernetes-2 b [a b c d e f g h] ready for kubernetes-1@1; update kubernetes-1 a [a] unready"
	if got := s.share(Shared); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestNodesNotRead: who may not read Nodes still gets out of the way, and takes
// no hint from anybody.
func TestNodesNotRead(t *testing.T) {
	s := scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b", "d")}, health: Unready, node: "1"}
	cfg, self, v := Default(), s.self(), s.view()
	v.ZonesKnown = false
	want := "update kubernetes-2 b [a b d] ready for kubernetes-1@1; update kubernetes-1 a [a] unready"
	got := Shared(&cfg, &self, &v, &s.facts)
	if got := story(got[:2]); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestFamiliesAreJudgedApart(t *testing.T) {
	six := func(s Slice) Slice {
		s.Name, s.Family, s.Address = SliceName(s.Node, IPv6), IPv6, "fd00::"+s.Node
		return s
	}
	s := scene{slices: []Slice{endpoint("1", "a"), six(endpoint("1", "a")), endpoint("2", "b")}, zones: "ab", health: Unready, node: "1"}
	cfg, self, v := Default(), s.self(), s.view()
	self.Addresses = append(self.Addresses, Address{IPv6, "fd00::1"})
	// The last IPv6 endpoint adopts b and stays, whatever its apiserver says.
	want := "update kubernetes-2 b [a b] ready for kubernetes-1@1; update kubernetes-1-ipv6 a [a b] ready; update kubernetes-1 a [a] unready"
	if got := story(Shared(&cfg, &self, &v, &s.facts)[:3]); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	self.Addresses, self.Health = self.Addresses[:1], Ready
	s.slices = append(s.slices, six(endpoint("2", "b")))
	v = s.view()
	if got := story(Shared(&cfg, &self, &v, &s.facts)[:2]); got != "update kubernetes-2-ipv6 b [a b] ready for kubernetes-1-ipv6@1; update kubernetes-1-ipv6 a [a] unready" {
		t.Errorf("a family that the node has no more: %q", got)
	}
	v.Slices[1].Ready = false
	if got := story(Shared(&cfg, &self, &v, &s.facts)); !strings.HasPrefix(got, "update kubernetes-2-ipv6 b [a b] ready; delete kubernetes-1-ipv6") {
		t.Errorf("an unready slice of such a family: %q", got)
	}
}

// TestNoSliceTwice plays every health, lapse and hint of three endpoints, and
// wants each plan to write no slice twice, to lean before it takes, and to come
// to an end when it is done again and again.
func TestNoSliceTwice(t *testing.T) {
	cfg := Default()
	for n := range 1 << 12 {
		s := scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b"), endpoint("3", "c")}, zones: "abcd", node: "1", health: Ready}
		bit := func(i int) bool { return n>>i&1 == 1 }
		for i := range s.slices {
			s.slices[i].Ready = !bit(i)
			for j, z := range []string{"a", "b", "c", "d"} {
				if bit(3+(i+j)%6) && !s.slices[i].Hinted(z) {
					s.slices[i].Hints = with(s.slices[i].Hints, z)
				}
			}
		}
		if bit(9) {
			s.health = Unready
		}
		if bit(10) {
			s.facts.Lapsed = []Lapse{{Node: "3", Ready: []Standing{{"kubernetes-3", ""}}}}
		}
		if bit(11) {
			s.facts.Steady = []string{"kubernetes-1", "kubernetes-2", "kubernetes-3"}
		}
		self, v := s.self(), s.view()
		version := 1
		for round := 0; ; round++ {
			writes := Shared(&cfg, &self, &v, &s.facts)
			if len(writes) == 0 {
				break
			}
			if round == 20 {
				t.Fatalf("case %d does not end: %s", n, story(writes))
			}
			seen, taken := map[string]bool{}, false
			for i := range writes {
				w := &writes[i]
				if w.Slice.Name == "" {
					v.Combined = &w.Combined
					continue
				}
				if seen[w.Slice.Name] || taken && !w.Takes {
					t.Fatalf("case %d: %s", n, story(writes))
				}
				seen[w.Slice.Name], taken = true, w.Takes
				version++
				w.Slice.Version = fmt.Sprint(version)
				*v.slice(w.Slice.Name) = w.Slice
			}
		}
		if v.Slices[0].Ready == v.Slices[1].Ready && v.Slices[1].Ready == v.Slices[2].Ready && !v.Slices[0].Ready {
			t.Fatalf("case %d: nobody is left", n)
		}
	}
}

func TestRivalsWriteNothing(t *testing.T) {
	s := scene{slices: []Slice{endpoint("1", "a"), endpoint("2", "b")}, zones: "abc", health: Unready, node: "1", facts: Facts{Rival: "x"}}
	if got := s.share(Shared) + s.share(Withdraw) + s.share(Own); got != "" {
		t.Error(got)
	}
}

func TestTraffic(t *testing.T) {
	s := scene{slices: []Slice{endpoint("1", "a")}, zones: "a", health: Ready, node: "1"}
	cfg, self, v := Default(), s.self(), s.view()
	v.Combined = &Combined{Version: "1", Owner: Ours, Family: IPv4, Members: []Member{{"10.0.0.1", "1", "a", 6443, true}}}
	cfg.Traffic, v.Service = "PreferClose", Service{Version: "3"}
	if got := story(Shared(&cfg, &self, &v, &Facts{})); got != "patch-service PreferClose" {
		t.Error(got)
	}
	v.Service.Traffic = "PreferClose"
	if got := story(Shared(&cfg, &self, &v, &Facts{})); got != "" {
		t.Error(got)
	}
	v.Service = Service{}
	if got := story(Shared(&cfg, &self, &v, &Facts{})); got != "" {
		t.Errorf("no Service: %s", got)
	}
}

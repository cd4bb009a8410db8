package plan

import "testing"

// ours is the slice kubernetes as it is while it is kept for slices.
func ours(all ...Slice) *Combined {
	c := Combined{Version: "1", Owner: Ours, Family: IPv4}
	for i := range all {
		s := &all[i]
		c.Members = append(c.Members, Member{Address: s.Address, Node: s.Node, Zone: s.Zone, Port: s.Port, Ready: s.Ready})
	}
	return &c
}

func object(targets ...string) *Endpoints {
	e := Endpoints{Version: "7"}
	for _, t := range targets {
		e.Targets = append(e.Targets, Target{"10.0.0." + t, 6443})
	}
	return &e
}

func TestEndpoints(t *testing.T) {
	a, b := endpoint("1", "a"), endpoint("2", "b")
	down := changed(endpoint("2", "b"), func(s *Slice) { s.Ready = false })
	adopts := endpoint("1", "a", "b")
	reconciled := but(ours(a, b), func(c *Combined) { c.Owner = Reconciler })
	all := func(s ...Slice) []Slice { return s }
	tests := []struct {
		name     string
		slices   []Slice
		combined *Combined
		object   *Endpoints
		health   Health
		want     string
	}{
		{"as it should be", all(a, b), ours(a, b), object("1", "2"), Ready, ""},
		{"none", all(a, b), ours(a, b), nil, Ready, "create-endpoints 10.0.0.1:6443 10.0.0.2:6443"},
		{"emptied by the last reconciler", all(a, b), ours(a, b), object(), Ready, "update-endpoints 10.0.0.1:6443 10.0.0.2:6443"},
		{"of before", all(a, b), ours(a, b), object("2", "9"), Ready, "update-endpoints 10.0.0.1:6443 10.0.0.2:6443"},
		{"in another shape", all(a, b), ours(a, b), but(object("1", "2"), func(e *Endpoints) { e.Odd = true }), Ready, "update-endpoints 10.0.0.1:6443 10.0.0.2:6443"},
		{"an unready one is not in it", all(adopts, down), ours(adopts, down), object("1", "2"), Ready, "update-endpoints 10.0.0.1:6443"},
		{"goes with the slice", all(a, b), ours(a, b), object("1", "2"), Unready, "update kubernetes-2 b [a b] ready for kubernetes-1@1; update kubernetes-1 a [a] unready; update-combined 1/a=false 2/b=true; update-endpoints 10.0.0.2:6443"},
		{"the last one stays", all(a), ours(a), object("1"), Unready, ""},
		{"the reconciler's", all(a, b), reconciled, object(), Ready, ""},
		{"by port, then by address", all(changed(a, func(s *Slice) { s.Port = 7443 }), b), ours(changed(a, func(s *Slice) { s.Port = 7443 }), b), object(), Ready, "update-combined 2/b=true; update-endpoints 10.0.0.2:6443 10.0.0.1:7443"},
	}
	cfg := Default()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			self := agent("1", "a", test.health)
			zones := []Zone{{"a", 1}, {"b", 1}}[:len(test.slices)]
			v := View{Slices: test.slices, Combined: test.combined, Endpoints: test.object, EndpointsKnown: true, Zones: zones, ZonesKnown: true}
			f := Facts{Phase: Active, Steady: []string{"kubernetes-1", "kubernetes-2"}}
			if got := story(Shared(&cfg, &self, &v, &f)); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			v.EndpointsKnown = false
			for _, w := range Shared(&cfg, &self, &v, &f) {
				if w.Op == CreateEndpoints || w.Op == UpdateEndpoints {
					t.Errorf("unread, and written: %s", w.Op)
				}
			}
		})
	}
}

// The slice kubernetes as the last reconciler leaves it is taken over without a
// probe; one that still says something is not.
func TestTakeoverOfAnEmptiedSlice(t *testing.T) {
	a, b := endpoint("1", "a"), endpoint("2", "b")
	six := changed(a, func(s *Slice) { s.Name, s.Family, s.Address = SliceName("1", IPv6), IPv6, "fd00::1" })
	empty := &Combined{Version: "4", Owner: Reconciler, Family: IPv4}
	tests := []struct {
		name     string
		slices   []Slice
		combined *Combined
		want     string
	}{
		{"empty", []Slice{a, b}, empty, "update-combined 1/a=true 2/b=true"},
		{"empty, with the probe", []Slice{a, b}, but(empty, func(c *Combined) { c.Probe = "2" }), "update-combined 1/a=true 2/b=true"},
		{"empty and somebody's", []Slice{a, b}, but(empty, func(c *Combined) { c.Owner = Foreign }), ""},
		{"empty, and nobody is ready", nil, empty, ""},
		{"one address left", []Slice{a, b}, but(empty, func(c *Combined) { c.Members = []Member{{Address: a.Address, Ready: true}} }), ""},
		{"empty and of the wrong family", []Slice{six}, empty, "delete-combined"},
		{"something else comes first", []Slice{changed(a, func(s *Slice) { s.Hints = nil }), b}, empty, "update kubernetes-1 a [a] ready"},
	}
	cfg := Default()
	self := agent("3", "c", Ready)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := View{Slices: test.slices, Combined: test.combined, EndpointsKnown: true}
			f := Facts{Phase: Active, Steady: []string{"kubernetes-1", "kubernetes-2"}}
			if got := story(Shared(&cfg, &self, &v, &f)); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func but[T any](v *T, change func(*T)) *T {
	c := *v
	change(&c)
	return &c
}

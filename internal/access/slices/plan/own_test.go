package plan

import (
	"testing"
)

// endpoint is a slice of ours, ready, in the shape its owner writes.
func endpoint(node, zone string, adopted ...string) Slice {
	hints := []string{zone}
	for _, z := range adopted {
		hints = with(hints, z)
	}
	return Slice{
		Name: SliceName(node, IPv4), Version: "1", Owner: Ours, Family: IPv4, Node: node, Address: "10.0.0." + node,
		Port: 6443, Zone: zone, Hints: hints, Ready: true,
	}
}

func agent(node, zone string, h Health) Self {
	return Self{Node: node, Zone: zone, Holder: node, Addresses: []Address{{IPv4, "10.0.0." + node}}, Port: 6443, Health: h}
}

func changed(s Slice, change func(*Slice)) Slice {
	change(&s)
	return s
}

func TestOwn(t *testing.T) {
	unready := changed(endpoint("1", "a"), func(s *Slice) { s.Ready = false })
	tests := []struct {
		name string
		self Self
		is   *Slice
		want string
	}{
		{"first", agent("1", "a", Ready), nil, "create kubernetes-1 a [a] ready"},
		{"first and unready", agent("1", "a", Unready), nil, ""},
		{"not checked yet", agent("1", "a", Unknown), nil, ""},
		{"without a zone", agent("1", "", Ready), nil, ""},
		{"as it should be", agent("1", "a", Ready), ptr(endpoint("1", "a", "b")), ""},
		{"withdrawing takes a lock", agent("1", "a", Unready), ptr(endpoint("1", "a", "b")), ""},
		{"ready again", agent("1", "a", Ready), &unready, "update kubernetes-1 a [a] ready"},
		{
			"ready again, and adopting no more", agent("1", "a", Ready),
			ptr(changed(unready, func(s *Slice) { s.Hints, s.UnreadyBy = []string{"a", "b"}, "2" })), "update kubernetes-1 a [a] ready",
		},
		{"not checked, and unready", agent("1", "a", Unknown), &unready, ""},
		{"zone corrected", agent("1", "b", Ready), ptr(endpoint("1", "a", "c")), "update kubernetes-1 b [a b c] ready"},
		{"zone of an unready one corrected", agent("1", "b", Unready), &unready, "update kubernetes-1 b [b] unready"},
		{"label lost", agent("1", "", Ready), ptr(endpoint("1", "a")), ""},
		{"label lost, ready again", agent("1", "", Ready), &unready, "update kubernetes-1 a [a] ready"},
		{"somebody else's", agent("1", "a", Ready), ptr(changed(unready, func(s *Slice) { s.Owner = Foreign })), ""},
		{"odd", agent("1", "a", Ready), ptr(changed(endpoint("1", "a"), func(s *Slice) { s.Odd = true })), "update kubernetes-1 a [a] ready"},
		{"no hint", agent("1", "a", Ready), ptr(changed(endpoint("1", "a"), func(s *Slice) { s.Hints = nil })), "update kubernetes-1 a [a] ready"},
	}
	cfg := Default()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var v View
			if test.is != nil {
				v.Slices = []Slice{*test.is}
			}
			if got := story(Own(&cfg, &test.self, &v, &Facts{})); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			if got := Own(&cfg, &test.self, &v, &Facts{Rival: "x"}); got != nil {
				t.Errorf("with a rival: %v", got)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

package lab

import (
	"fmt"
	"strings"
	"testing"
)

func testPlan(t *testing.T) plan {
	t.Helper()
	s := mustDefault(t, "lan")
	s.Sites[0].Nodes = 2
	s, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	return newPlan(s)
}

// TestRuleset has a golden file per case with the rules of all three routers.
func TestRuleset(t *testing.T) {
	for name, cuts := range map[string][]Cut{
		"none":        nil,
		"both-ways":   {{From: "a", To: "b"}},
		"one-way":     {{From: "a", To: "b", OneWay: true, Action: ActionICMP}},
		"new":         {{From: "a", To: "b", State: StateNew, Proto: ProtoTCP, Action: ActionReset}},
		"established": {{From: "a", To: "b", State: StateEstablished}},
		"vxlan":       {{From: "a", To: "c", Proto: ProtoVXLAN}},
		"ports":       {{From: "b1", To: "c", Ports: []uint16{2379, 2380}}},
		"site":        {{From: "b"}},
		"node":        {{From: "a1"}},
		"inside":      {{From: "a1", To: "a2", Proto: ProtoTCP, Ports: []uint16{80}}},
		"several":     {{From: "a", To: "b"}, {From: "b", To: "c", OneWay: true, Proto: ProtoUDP}},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlan(t)
			var applied []Applied
			for _, c := range cuts {
				c = c.withDefaults()
				if err := c.check(p); err != nil {
					t.Fatal(err)
				}
				applied = append(applied, Applied{Cut: c, generation: 2})
			}
			var b strings.Builder
			for _, s := range p.sites {
				fmt.Fprintf(&b, "# router %s\n%s", s.Name, ruleset(p, s.Name, 2, applied, map[string]float64{"to-b": 0, "to-c": 0.025}))
			}
			golden(t, "rules-"+name+".nft", b.String())
		})
	}
}

func TestCutMistakes(t *testing.T) {
	p := testPlan(t)
	p.links = p.links[:2] // without b-c
	for _, tt := range []struct {
		cut  Cut
		want string
	}{
		{Cut{From: "a", To: "z"}, `cut a-z: site or node "z" is unknown: use a, b, c, a1, a2, b1, c1`},
		{Cut{From: "", To: "a"}, `site or node "" is unknown`},
		{Cut{From: "a", To: "a"}, "one end inside the other: name two"},
		{Cut{From: "a", To: "a1"}, "one end inside the other"},
		{Cut{From: "b", To: "c"}, "there is no link between b and c"},
		{Cut{From: "a", To: "b", State: "old"}, `unknown state "old": use all, new or established`},
		{Cut{From: "a", To: "b", Proto: "icmp"}, `unknown protocol "icmp": use`},
		{Cut{From: "a", To: "b", Action: "burn"}, `unknown action "burn": use`},
		{Cut{From: "a", To: "b", Proto: ProtoUDP, Action: ActionReset}, "answers udp with a TCP reset: use"},
		{Cut{From: "a", To: "b", Proto: ProtoVXLAN, Ports: []uint16{1}}, "gives ports beside vxlan"},
		{Cut{From: "a", To: "b", Ports: []uint16{0}}, "gives port 0: use"},
		{Cut{From: "a1", State: StateNew}, "reaches inside site a, where only all connections can be dropped"},
		{Cut{From: "a1", To: "a2", Action: ActionICMP}, "reaches inside site a"},
	} {
		err := tt.cut.withDefaults().check(p)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want …%s…", tt.cut, err, tt.want)
		}
	}
}

func FuzzParseCut(f *testing.F) {
	for _, s := range []string{"a-b", "a>b", "a->b", "a", "a>", "a-", ">b", "a1>b", "a--b", "a-b-c", "A", "1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCut(s)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of two lines: %q", err)
			}
			return
		}
		again, err := ParseCut(c.String())
		if err != nil || again.String() != c.String() || again.OneWay != c.OneWay {
			t.Errorf("%q became %+v, which became %+v: %v", s, c, again, err)
		}
	})
}

func TestExpected(t *testing.T) {
	p := testPlan(t)
	cut := func(c Cut) Applied { return Applied{Cut: c.withDefaults()} }
	for _, tt := range []struct {
		name        string
		cuts        []Applied
		from, to    string
		kind        Kind
		open, known bool
	}{
		{"nothing cut", nil, "a1", "b1", KindNew, true, true},
		{"other pair", []Applied{cut(Cut{From: "a", To: "b"})}, "a1", "c1", KindNew, true, true},
		{"same site", []Applied{cut(Cut{From: "a"})}, "a1", "a2", KindNew, true, true},
		{"isolated node", []Applied{cut(Cut{From: "a1"})}, "a1", "a2", KindNew, false, true},
		{"its neighbour", []Applied{cut(Cut{From: "a1"})}, "a2", "b1", KindNew, true, true},
		{"two cuts add up", []Applied{cut(Cut{From: "a", To: "b", Proto: ProtoUDP}), cut(Cut{From: "a", To: "b", Proto: ProtoTCP})}, "a1", "b1", KindNew, false, true},
		{"what b sends", []Applied{cut(Cut{From: "b", OneWay: true})}, "a1", "b1", KindUDP, true, true},
		{"what b sends, back", []Applied{cut(Cut{From: "b", OneWay: true})}, "b1", "a1", KindUDP, false, true},
		{"port of a cut", []Applied{cut(Cut{From: "a", To: "b", Ports: []uint16{80}})}, "a1", "b1", "tcp/80", false, true},
		{"port elsewhere", []Applied{cut(Cut{From: "a", To: "b", Ports: []uint16{80}})}, "a1", "c1", "tcp/80", false, false},
		{"port 7 is the echo", []Applied{cut(Cut{From: "a", To: "b", Ports: []uint16{7}})}, "a1", "b1", KindNew, false, true},
		{"port one way, new", []Applied{cut(Cut{From: "a", To: "b", OneWay: true, State: StateNew, Ports: []uint16{80}})}, "b1", "a1", "tcp/80", false, false},
	} {
		c, _ := expected(p, tt.cuts).Cell(tt.from, tt.to)
		if open, known := c.Open[tt.kind]; open != tt.open || known != tt.known {
			t.Errorf("%s: open %v, known %v", tt.name, open, known)
		}
	}
}

func TestDiffers(t *testing.T) {
	want := expected(testPlan(t), []Applied{{Cut: Cut{From: "a", To: "b"}.withDefaults()}})
	have := expected(testPlan(t), []Applied{{Cut: Cut{From: "a", To: "b", OneWay: true}.withDefaults()}})
	got := have.Differs(want)
	if len(got) != 8 || got[0].String() != "b1 to a1 by flow is open, declared blocked" {
		t.Errorf("got %v", got)
	}
	if d := want.Differs(want); len(d) > 0 {
		t.Errorf("a matrix differs from itself: %v", d)
	}
}

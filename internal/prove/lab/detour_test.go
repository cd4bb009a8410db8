package lab

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDetourMistakesGetOneLine(t *testing.T) {
	spec := mustDefault(t, "lan")
	spec.Links = spec.Links[:2] // a–b and a–c
	p := newPlan(spec)
	for _, tt := range []struct {
		cut  Cut
		want string
	}{
		{Cut{From: "a", To: "b", Via: "d"}, `cut a>b via d: "d" is no site: a detour leads from a site to another through a third`},
		{Cut{From: "a", Via: "c"}, `cut a> via c: "" is no site`},
		{Cut{From: "a", To: "b", Via: "b"}, `cut a>b via b: there is no link between "b" and "b"`},
		{Cut{From: "a", To: "b", Via: "c"}, `cut a>b via c: there is no link between "c" and "b": a detour needs three sites with a link each`},
		{Cut{From: "a", To: "b", Via: "c", Proto: ProtoTCP}, `cut a>b via c tcp: a detour takes all packets one way: leave state, protocol`},
	} {
		err := tt.cut.withDefaults().check(p)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n got %v\nwant %s", tt.cut, err, tt.want)
		}
	}
}

// TestDetourTurnsOneRoute says who sends what through whom.
func TestDetourTurnsOneRoute(t *testing.T) {
	p := newPlan(mustDefault(t, "lan"))
	cuts := []Applied{{Cut: Cut{From: "a", To: "b", Via: "c"}}}
	for _, tt := range []struct {
		site, far, via string
	}{{"a", "b", "c"}, {"a", "c", "c"}, {"b", "a", "a"}, {"c", "b", "b"}} {
		if got := p.hops(tt.site, cuts)[tt.far]; got != tt.via {
			t.Errorf("router %s has packets for %s go through %q, want %q", tt.site, tt.far, got, tt.via)
		}
	}
	for _, site := range []string{"a", "b"} {
		if rules := ruleset(p, site, 2, cuts, nil); strings.Contains(rules, "invalid") {
			t.Errorf("router %s is strict, and is not on the detour:\n%s", site, rules)
		}
	}
	if rules := ruleset(p, "c", 2, cuts, nil); !strings.Contains(rules, `iifname "to-a" oifname "to-b" jump cut-1`) {
		t.Errorf("router c is not strict:\n%s", rules)
	}
}

// TestDetourNotInForce takes a part of the detour away behind the lab's back: the
// strict rules, then the route.
func TestDetourNotInForce(t *testing.T) {
	t.Parallel()
	spec := mustDefault(t, "lan")
	spec.Etcd = nil
	for _, tt := range []struct {
		name  string
		spoil func(*Lab) error
	}{
		{"rules", func(l *Lab) error { return l.routers["c"].load("flush ruleset\n") }},
		{"route", func(l *Lab) error { return l.routers["a"].lead(l.plan, "b", "b") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := startLab(t, spec)
			ctx := deadline(t, time.Minute)
			if err := l.Cut(ctx, Cut{From: "a", To: "b", Via: "c"}); err != nil {
				t.Fatal(err)
			}
			if err := tt.spoil(l); err != nil {
				t.Fatal(err)
			}
			// A busy machine answers late besides: what counts is that something is open.
			_, wrong, err := l.settle(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(wrong, func(m Mismatch) bool { return m.Have && m.Kind == KindNew }) {
				t.Fatalf("no new connection gets through: %v", wrong)
			}
		})
	}
}

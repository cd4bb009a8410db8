package scenario

import (
	"strings"
	"testing"
	"time"
)

const detour = `version: 1
name: detour
title: Detour
apiservers: true
agents: balance
faults: [{name: f, cuts: [{from: a, to: b, via: c}]}]
paths: [{sites: [a], targets: [b], kinds: [connect], interval: 200ms}]
expect: [{role: clean}]
variants: [{name: main, leaders: {main: c}}]
`

func TestMistakesOfDetoursGetOneLine(t *testing.T) {
	if _, err := Parse("x.yaml", []byte(detour)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"unknown site", "via: c", "via: z", `faults[0]: cuts[0]: via: "z" is unknown; choose one of a, b, c`},
		{"node", "from: a,", "from: a1,", `faults[0]: cuts[0]: from: "a1" is unknown; choose one of a, b, c`},
		{"no detour", "via: c", "via: b", `faults[0]: cuts[0]: via: "b" does not lie beside "a" and "b"; a detour joins two sites through a third`},
		{"protocol", "via: c", "via: c, proto: tcp", `faults[0]: cuts[0]: via: "c" turns every packet one way; leave out state, proto, ports, action and oneWay`},
		{"no apiservers", "apiservers: true\nagents: balance", "agents: leader", `kinds: connect has no apiserver to ask; add apiservers: true`},
		{"balancer", "targets: [b]", "targets: [balance]", `balance`},
		{"target", "role: clean", "role: clean, targets: [z]", `expect[0].targets: "z" is unknown; choose one of a, b, c, balance`},
	} {
		_, err := Parse("x.yaml", []byte(strings.Replace(detour, tc.old, tc.new, 1)))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, tc.want)
		}
	}
}

func TestExpectationOfATarget(t *testing.T) {
	c := mustCase(t, "cut-established", "main")
	for path, want := range map[string]string{
		"a/apiserver@b/api-get/new":      RoleClean,
		"a/apiserver@b/api-get/reused":   "kept-silent",
		"a/apiserver@b/api-watch/stream": "kept-silent",
		"a/balance/api-get/reused":       "kept-silent",
		"a/balance/api-get/new":          RoleClean,
	} {
		e := c.ExpectationOf(pathNamed(t, c, path))
		if e.Role != want && e.Window != want {
			t.Errorf("%s is judged as %s %s, want %s", path, e.Role, e.Window, want)
		}
	}
	own := Expectation{Targets: []string{"own"}}
	if !own.matches(Path{Site: "a", Target: "a"}) || own.matches(Path{Site: "a", Target: "b"}) {
		t.Error("own is not the server of the client's site")
	}
}

func TestWindowOfASilentConnection(t *testing.T) {
	c := mustCase(t, "cut-established", "main")
	w, err := c.WindowOf(pathNamed(t, c, "a/apiserver@b/api-get/reused"), "kept-silent")
	if err != nil {
		t.Fatal(err)
	}
	if w.Min != 9600*time.Millisecond || w.Max != 11200*time.Millisecond {
		t.Errorf("window from %s to %s: %v", w.Min, w.Max, w.Why)
	}
}

package scenario

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const pairText = `version: 1
name: pair
title: Pair
lab: {preset: lan, sites: [{name: a}, {name: b}, {name: c}]}
clusters: [{name: main, sites: [a, b]}]
agents: pair
pair: {survivor: b}
phases: {hold: 15s}
faults: [{name: f, off: [a1]}]
paths: [{sites: [a, b], kinds: [write]}]
expect: [{role: clean}]
variants: [{name: main, leaders: {main: a}}]
`

func TestMistakesWithPairsGetOneLine(t *testing.T) {
	if _, err := Parse("x.yaml", []byte(pairText)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"no agents", "agents: pair\n", "", "pair: nobody runs a pair; add pair to agents"},
		{"three members", "sites: [a, b]}]\nagents", "sites: [a, b, c]}]\nagents", "clusters: a pair is one cluster of two members, these are 1 of a, b, c; write clusters: [{name: main, sites: [a, b]}]"},
		{"member nowhere", "sites: [a, b]}]\nagents", "sites: [a, d]}]\nagents", `clusters[main].sites: "d" is unknown; choose one of a, b, c`},
		{"leader without a member", "{main: a}", "{main: c}", `leaders.main: "c" is unknown; choose one of a, b`},
		{"arbiter beside a member", "survivor: b", "site: a", `pair.site: "a" has a member; an arbiter stands in a third site`},
		{"unknown arbiter", "survivor: b", "arbiter: moon", `pair.arbiter: "moon" is unknown; choose one of http, etcd, s3`},
		{"unknown survivor", "survivor: b", "survivor: c", `pair.survivor: "c" is unknown; choose one of none, any, a, b`},
		{"unknown preference", "survivor: b", "prefer: c", `pair.prefer: "c" is unknown; choose one of a, b`},
		{"clients nowhere", "survivor: b", "clients: [x]", `pair.clients: "x" is unknown; choose one of a, b, c`},
		{"two kinds of agents", "agents: pair", "agents: [pair, leader]", "agents: pair, leader, arbiter beside a pair; write agents: pair"},
		{"a large database", "survivor: b", "fillMB: 5000", "pair.fillMB: 5000 is out of range; choose 0 to 1000"},
		{"negative", "survivor: b", "aloneAfter: -1s", "pair.paired, pair.aloneAfter: 15s, -1s; choose at least 1s for the first, and nothing negative"},
		{"force nobody", "survivor: b", "forced: c", `pair.forced: "c" is unknown; choose one of a, b`},
		{"claim where nobody is", "off: [a1]", "claim: [c]", `faults[0]: claim, giveUp: "c" is unknown; choose one of a, b`},
		{"ask where nobody is", "sites: [a, b], kinds", "sites: [c], kinds", "paths[c/main/write/new].targets: c has no member of main; choose one of a, b"},
		{"agent where none is", "off: [a1]", `kill: ["agent:pair/c"]`, `site of agent:pair/c: "c" is unknown; choose one of a, b`},
		{"arbiter where none is", "off: [a1]", `kill: ["agent:arbiter/a"]`, `site of agent:arbiter/a: "a" is unknown; choose one of c`},
	} {
		text := strings.Replace(pairText, tc.old, tc.new, 1)
		_, err := Parse("x.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, tc.want)
		}
	}
}

func TestResolveOfAPair(t *testing.T) {
	c := mustCase(t, "pair-site-loss", "main")
	for target, want := range map[string]string{
		"a": "agent:pair/a agent:main/a main/a", "b1": "agent:pair/b agent:main/b main/b", "c": "agent:arbiter/c",
		"agent:pair/b": "agent:pair/b", "agent:arbiter/c": "agent:arbiter/c", "main/a": "main/a",
	} {
		procs, err := c.Resolve(target)
		var words []string
		for _, p := range procs {
			words = append(words, p.String())
		}
		if got := strings.Join(words, " "); got != want || err != nil {
			t.Errorf("Resolve(%q) = %s, %v, want %s", target, got, err, want)
		}
	}
	if got := c.PairSites(); !slices.Equal(got, []string{"a", "b"}) || c.Pair.Site != "c" {
		t.Errorf("members in %v and an arbiter in %s", got, c.Pair.Site)
	}
}

// The product promises 7 s where the former leader survives, or who is preferred, and 9 s
// where it is lost; nobody may be sooner than its own patience.
func TestWindowsOfAPair(t *testing.T) {
	for _, tc := range []struct {
		name, variant, window string
		least, most           time.Duration
	}{
		{"pair-site-loss", "follower", "pair-led", 2 * time.Second, 7 * time.Second},
		{"pair-site-loss", "preferred", "pair-led", 2 * time.Second, 7 * time.Second},
		{"pair-site-loss", "main", "pair-followed", 2 * time.Second, 9 * time.Second},
		{"pair-arbiter-down-then-loss", "main", "pair-waits", 14 * time.Second, 19 * time.Second},
		{"pair-both-down", "main", "pair-return", 5 * time.Second, 13 * time.Second},
		{"pair-double-failure", "main", "pair-given-up", 16 * time.Second, 27 * time.Second},
		{"pair-both-down", "one-first", "pair-booted", 2 * time.Second, 26 * time.Second},
	} {
		c := mustCase(t, tc.name, tc.variant)
		w, err := c.WindowOf(c.Paths[0], tc.window)
		if err != nil || w.Min < tc.least || w.Max > tc.most {
			t.Errorf("%s, variant %s, allows %s to %s (%v), want within %s to %s", tc.name, tc.variant, w.Min, w.Max, err, tc.least, tc.most)
		}
	}
}

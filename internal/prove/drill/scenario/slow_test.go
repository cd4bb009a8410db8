package scenario

import (
	"math"
	"strings"
	"testing"
	"time"
)

// slowLink is a valid scenario with a slow link to spoil.
const slowLink = `version: 1
name: slow
title: Slow
faults: [{name: f, slow: [{from: a, to: b, delay: 50ms, jitter: 5ms, loss: 0.02, mbit: 10}]}]
expect: [{role: clean}]
variants: [{name: main, leaders: {main: a}}]
`

func TestASlowLinkIsSaidInWords(t *testing.T) {
	s, err := Parse("x.yaml", []byte(slowLink))
	if err != nil {
		t.Fatal(err)
	}
	got := s.Faults[0].Slow[0]
	if want := "50ms later, up to 5ms of jitter, 2% lost, at most 10 Mbit/s each way"; got.String() != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMistakesWithSlowLinksGetOneLine(t *testing.T) {
	for _, tc := range []struct{ old, new, want string }{
		{"to: b", "to: x", `slow[0]: to: "x" is unknown`},
		{"to: b", "to: a", `slow[0]: to: "a" is also from:`},
		{"delay: 50ms", "delay: -1s", "slow[0]: delay, jitter: -1s, 5ms; choose"},
		{"delay: 50ms", "delay: 1m", "slow[0]: delay, jitter: 1m0s, 5ms; choose"},
		{"loss: 0.02", "loss: 1", "slow[0]: loss: 1; choose a share"},
		{"loss: 0.02", "loss: .nan", "slow[0]: loss: NaN; choose a share"},
		{"mbit: 10", "mbit: 1000000", "slow[0]: mbit: 1000000; choose"},
		{"delay: 50ms, jitter: 5ms, loss: 0.02, mbit: 10", "delay: 0s", "slow[0]: from a to b: is no slower than before"},
	} {
		_, err := Parse("x.yaml", []byte(strings.Replace(slowLink, tc.old, tc.new, 1)))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", tc.new, err, tc.want)
		}
	}
	c := &Case{Lab: Lab{Sites: []Site{{Name: "a"}, {Name: "b"}}}}
	if err := c.checkSlow(Slow{From: "a", To: "b", Delay: time.Second, Loss: math.Inf(-1)}); err == nil {
		t.Error("a loss of -Inf is taken")
	}
}

package scenario

import (
	"slices"
	"testing"
	"time"
)

// A quick hold of every shipped drill is still valid, ends no fault early, is longer than the
// longest window with time to be seen whole, or is the documented one.
func TestQuickHoldsAreLongEnough(t *testing.T) {
	for _, name := range Names() {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range s.VariantNames() {
			for _, agents := range []bool{true, false} {
				c, err := s.Case(v)
				if err != nil {
					t.Fatal(err)
				}
				checkQuick(t, c, agents)
			}
		}
	}
}

func checkQuick(t *testing.T, c *Case, agents bool) {
	t.Helper()
	q := c.Quick(agents)
	if err := q.Validate(); err != nil {
		t.Errorf("%s, variant %s: %v", c.Scenario, c.Variant, err)
	}
	switch hold := q.Phases.Hold; {
	case hold == c.Phases.Hold:
		return
	case hold > c.Phases.Hold:
		t.Errorf("%s, variant %s: a quick hold of %s is longer than %s", c.Scenario, c.Variant, hold, c.Phases.Hold)
	}
	for _, f := range c.Faults {
		if end := f.At + f.For; end+quickRecovery > q.Phases.Hold {
			t.Errorf("%s, variant %s: fault %s ends after %s, the quick hold after %s", c.Scenario, c.Variant, f.Name, end, q.Phases.Hold)
		}
	}
	for _, p := range c.Paths {
		e := c.ExpectationOf(p)
		for _, name := range []string{e.Window, e.Without} {
			if name == e.Without && agents || !slices.Contains(Windows(), name) {
				continue
			}
			w, err := c.WindowOf(p, name)
			if err != nil {
				t.Fatal(err)
			}
			if q.Phases.Hold < w.Max+quickRecovery {
				t.Errorf("%s, variant %s: %s may take %s, the quick hold is %s", c.Scenario, c.Variant, p.Name, w.Max, q.Phases.Hold)
			}
		}
	}
}

func TestQuick(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		name, yaml string
		agents     bool
		want       time.Duration
	}{
		{"a takeover of 5.786 s", "expect: [{role: affected, sites: [b], kinds: [put, get], window: takeover}, {role: clean}]\nphases: {hold: 20s}", true, 5786*time.Millisecond + quickRecovery},
		{"no longer than the scenario says", "expect: [{role: affected, sites: [b], kinds: [put, get], window: takeover}, {role: clean}]\nphases: {hold: 7s}", true, 7 * s},
		{"nothing but clean paths", "expect: [{role: clean}]\nphases: {hold: 60s}", true, quickFloor + quickRecovery},
		{"two rounds of a repeated fault", "expect: [{role: clean}]\nphases: {hold: 60s}\nfaults: [{name: x, cuts: [{from: a, to: b}], for: 4s, every: 8s}]", true, 12*s + quickFloor + quickRecovery},
		{"the end of the last fault", "expect: [{role: clean}]\nphases: {hold: 60s}\nfaults: [{name: x, cuts: [{from: a, to: b}]}, {name: y, at: 9s, pause: [main/c], for: 2s}]", true, 11*s + quickFloor + quickRecovery},
		{"the window of the other run", "expect: [{role: affected, sites: [b], kinds: [put, get], window: takeover, without: election}, {role: clean}]\nphases: {hold: 20s}", false, 5786*time.Millisecond + quickRecovery},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := "version: 1\nname: x\ntitle: X\n" + tc.yaml + "\nvariants: [{name: main, leaders: {main: a}}]\n"
			if !slices.Contains([]string{"two rounds of a repeated fault", "the end of the last fault"}, tc.name) {
				text += "faults: [{name: x, cuts: [{from: a, to: b}]}]\n"
			}
			s, err := Parse("x.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			c, err := s.Case("main")
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Quick(tc.agents).Phases.Hold; got != tc.want {
				t.Errorf("hold %s, want %s", got, tc.want)
			}
			if again, err := s.Case("main"); err != nil || again.Phases.Hold != c.Phases.Hold {
				t.Errorf("the case itself was changed")
			}
		})
	}
}

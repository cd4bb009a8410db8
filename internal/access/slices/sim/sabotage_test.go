package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// TestSabotage takes one rule away at a time and wants the judge to notice: an
// invariant that nothing can break proves nothing.
func TestSabotage(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and no time: TestSchedules runs the same code in several")
	}
	drop := func(what func(plan.Write) bool) rules {
		return rules{mangle: func(_ *World, _ *agent, all []plan.Write) []plan.Write {
			return slices.DeleteFunc(all, what)
		}}
	}
	tests := []struct {
		name   string
		bent   rules
		breach string
	}{
		{"the last one goes too", rules{mangle: goAnyway}, "left no endpoint ready"},
		{"nobody leans", drop(func(w plan.Write) bool { return w.Why == "" }), "left zone"},
		{"takes before it gives", rules{mangle: func(_ *World, _ *agent, all []plan.Write) []plan.Write {
			slices.Reverse(all)
			return all
		}}, "left zone"},
		{"nobody waits for the Lease", rules{lawless: true, distort: disagree}, "adopters, in its turn"},
		{"the agent's Lease alone", rules{distort: forgetIdentities}, "was only"},
		{"no yardstick", rules{settings: func(s *plan.Settings) { s.Gap = time.Hour }}, "having heard of anybody again"},
		{"no yardstick, and no second look", rules{settings: func(s *plan.Settings) { s.Gap = time.Hour }, trusting: true}, "was only"},
		{"lapses at once", rules{settings: func(s *plan.Settings) { s.Lapse = 13 * time.Second }}, "was only"},
		{"an unready endpoint loses its zone", rules{mangle: unzone}, "without zone or hint"},
		{"nothing is given back", drop(func(w plan.Write) bool { return strings.HasPrefix(w.Why, "gives back") }), "endpoints and 1 adopters"},
		{"two adopters stay two", drop(func(w plan.Write) bool { return strings.HasPrefix(w.Why, "gives back") }), "has 2 adopters"},
		{"a Lease is left alone for three turns", rules{dawdling: true}, "has no endpoint"},
		{"nobody adopts", drop(func(w plan.Write) bool { return strings.HasPrefix(w.Why, "adopts") }), "has no endpoint"},
		{"nobody restores", rules{hands: true, mangle: drop(func(w plan.Write) bool {
			return strings.HasPrefix(w.Why, "ready as a last resort")
		}).mangle}, "no endpoint is ready"},
		{"whom a node reaches does not matter", rules{blind: true}, "is sent to whom it does not reach"},
		{"nobody marks", drop(func(w plan.Write) bool { return strings.HasPrefix(w.Why, "marked") }), "though its node is gone"},
		{"the reconciler is not waited for", rules{settings: func(s *plan.Settings) { s.Survive = 0 }}, "took kubernetes over"},
		{"the Service is left alone", rules{settings: func(s *plan.Settings) { s.Traffic = "" }}, "trafficDistribution"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := NewWorld()
			for seed := range uint64(sabotaged) {
				if r := w.schedule(seed, test.bent); strings.Contains(r.Broken, test.breach) {
					t.Logf("seed %d: %s", seed, r.Broken)
					return
				}
			}
			t.Errorf("%d schedules did not break %q", sabotaged, test.breach)
		})
	}
}

// TestDisagreement is the other half: with the Lease it does not matter.
func TestDisagreement(t *testing.T) {
	count := uint64(200)
	if raceEnabled {
		count = 20
	}
	w := NewWorld()
	for seed := range count {
		if r := w.schedule(seed, rules{distort: disagree}); r.Broken != "" {
			t.Errorf("seed %d: %s", seed, r.Broken)
		}
	}
}

// TestRefused has the only agent refused while a zone wants an adopter. If it
// tries it has half that time to find that it is refused no more; one that was
// refused once and never tries again has none, and the 3 s that anybody has.
func TestRefused(t *testing.T) {
	for _, sulking := range []bool{false, true} {
		w := NewWorld()
		w.Reset(Shape{Settings: plan.Default(), Zones: []string{"a"}, Lag: 30 * time.Millisecond}, nil)
		w.rules.sulking = sulking
		w.Run(40 * time.Second)
		w.apply(Fault{Do: Refuse, For: 20 * time.Second})
		w.apply(Fault{Do: Populate, Zone: "b", P: 1})
		w.Run(33 * time.Second)
		if served := w.sight().served[0][1]; served == sulking || sulking != (w.judge.broken == "at 1m3.25s: for 3.25s zone b has no endpoint") {
			t.Errorf("sulking %t: served %t, %s", sulking, served, w.judge.broken)
		}
	}
}

const sabotaged = 4000

// goAnyway withdraws an unready endpoint without asking who is left.
func goAnyway(w *World, a *agent, all []plan.Write) []plan.Write {
	for i := range a.view.Slices {
		if s := a.view.Slices[i]; s.Node == a.self.Node && s.Ready && a.self.Health == plan.Unready {
			s.Ready = false
			return []plan.Write{{Op: plan.UpdateSlice, Slice: s, Takes: true, Why: "unready"}}
		}
	}
	return all
}

// forgetIdentities shows agents that name identity Leases nobody has.
func forgetIdentities(_ *World, v *plan.View) {
	for i := range v.Leases {
		if l := &v.Leases[i]; l.Role == plan.Agent {
			l.Identity = "nobody"
		}
	}
}

// disagree shows agents distances that nobody else sees.
func disagree(w *World, v *plan.View) {
	for i := range v.Leases {
		v.Leases[i].Distances = nil
		for j := range w.n {
			v.Leases[i].Distances = append(v.Leases[i].Distances, plan.Distance{Node: name(j), Millis: w.rng.IntN(60)})
		}
	}
}

func unzone(_ *World, _ *agent, all []plan.Write) []plan.Write {
	for i := range all {
		if s := &all[i].Slice; s.Name != "" && !s.Ready {
			s.Zone, s.Hints = "", nil
		}
	}
	return all
}

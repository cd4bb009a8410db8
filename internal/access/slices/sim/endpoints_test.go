package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// TestEndpointsAreJudged has agents forget the object Endpoints, and empty it.
func TestEndpointsAreJudged(t *testing.T) {
	about := func(w plan.Write) bool { return w.Op == plan.CreateEndpoints || w.Op == plan.UpdateEndpoints }
	for _, test := range []struct {
		name, breach string
		mangle       func(*World, *agent, []plan.Write) []plan.Write
	}{
		{"forgotten", "calm, and Endpoints say", func(_ *World, _ *agent, all []plan.Write) []plan.Write {
			return slices.DeleteFunc(all, about)
		}},
		{"emptied", "emptied Endpoints", func(_ *World, _ *agent, all []plan.Write) []plan.Write {
			for i := range all {
				all[i].Endpoints.Targets = nil
			}
			return all
		}},
		{"written beside the reconciler", "of which kubernetes is not ours", func(_ *World, a *agent, all []plan.Write) []plan.Write {
			if c, e := a.view.Combined, a.view.Endpoints; c != nil && c.Owner == plan.Reconciler && e != nil {
				all = append(all, plan.Write{Op: plan.UpdateEndpoints, Endpoints: *e})
			}
			return all
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := NewWorld()
			for seed := range uint64(200) {
				if r := w.schedule(seed, rules{mangle: test.mangle}); strings.Contains(r.Broken, test.breach) {
					return
				}
			}
			t.Errorf("200 schedules did not break %q", test.breach)
		})
	}
}

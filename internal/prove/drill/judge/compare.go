package judge

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// compare lists the paths that were worse off with the agents: whose total
// outage while the fault was in force, by upper bounds, exceeds that of the
// run without by more than the tolerance.
func compare(c *scenario.Case, with, without *report.Run) []string {
	tolerance := cmp.Or(c.Compare.Tolerance, defaultTolerance)
	before := map[string]float64{}
	for _, p := range without.Paths {
		before[p.Name] = outageDuring(p, hold(without))
	}
	var out []string
	for _, p := range with.Paths {
		was, ok := before[p.Name]
		if !ok || p.Role == scenario.RoleControl {
			continue
		}
		if is := outageDuring(p, hold(with)); is > was+millis(tolerance) {
			out = append(out, fmt.Sprintf("%s: out for %s %s and %s %s, which is worse", p.Name, secs(is), c.SideWords(true), secs(was), c.SideWords(false)))
		}
	}
	return out
}

// hold is how long the faults were in force.
func hold(r *report.Run) float64 {
	end := 0.0
	for _, f := range r.Faults {
		end = max(end, f.ToMS)
	}
	return end
}

// outageDuring sums the outages of p within [0, until].
func outageDuring(p report.Path, until float64) float64 {
	total := 0.0
	for _, o := range p.Outages {
		total += max(0, min(o.ToMS, until)-max(o.FromMS, 0))
	}
	return total
}

// numbers are the figures of a variant by stable name; those of variants other
// than main are prefixed with their name and a dot.
func numbers(v report.Variant) map[string]float64 {
	out := map[string]float64{}
	prefix := prefixOf(v)
	for side, r := range map[string]*report.Run{"with": v.With, "without": v.Without} {
		if r == nil {
			continue
		}
		add := func(name string, value *float64) {
			if value != nil {
				out[prefix+side+"_"+name] = *value
			}
		}
		add("recovery_ms", r.RecoveryMS)
		add("first_move_ms", r.FirstMoveMS)
		add("transfer_ms", r.TransferMS)
		add("moves", ptr(float64(r.Moves)))
		add("inflight_hit", ptr(float64(r.Inflight)))
		add("recovered", ptr(one(r.Recovered)))
		add("outage_ms", ptr(longestOutage(r)))
	}
	return out
}

// prefixOf tells the figures of variants apart.
func prefixOf(v report.Variant) string {
	if v.Name == "main" {
		return ""
	}
	return v.Name + "."
}

// figures are those of balancers, Services and held addresses in both runs of a
// variant, by their names in the report.
func (g group) figures(v report.Variant) map[string]float64 {
	out := map[string]float64{}
	for _, side := range []struct {
		name string
		rec  *record.Record
		run  *report.Run
	}{{"with", g.with, v.With}, {"without", g.without, v.Without}} {
		if side.rec == nil {
			continue
		}
		figures := balanceNumbers(side.rec, side.run.Paths)
		if figures == nil {
			figures = map[string]float64{}
		}
		maps.Copy(figures, serviceNumbers(side.rec))
		maps.Copy(figures, addressNumbers(side.rec, side.run.Paths))
		maps.Copy(figures, hopNumbers(side.rec))
		maps.Copy(figures, pairNumbers(side.rec, side.run.Paths))
		maps.Copy(figures, storeNumbers(side.rec))
		for name, value := range figures {
			out[prefixOf(v)+side.name+"_"+name] = value
		}
		if side.rec.Run.Agents {
			maps.Copy(out, promised(v, figures))
		}
	}
	return out
}

// longestOutage is the longest by lower bound on a judged path while the
// faults were in force: what is certain.
func longestOutage(r *report.Run) float64 {
	longest := 0.0
	for _, p := range r.Paths {
		if p.Role != scenario.RoleAffected && p.Role != scenario.RoleClean {
			continue
		}
		for _, o := range p.Outages {
			if o.ToMS > 0 && o.FromMS < hold(r) {
				longest = max(longest, o.LowerMS)
			}
		}
	}
	return longest
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

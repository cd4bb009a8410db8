package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// spell is a time in which a path must not answer for good.
type spell struct{ from, to time.Time }

// spelled finds the first stableFor good samples in a row of a path that must
// never answer. Single failures between good answers, or one at the very end,
// are not a path that is down.
func (j *run) spelled(path scenario.Path, e scenario.Expectation, samples []probe.Sample) (time.Time, bool) {
	for _, s := range j.spells(path, e) {
		var inside []probe.Sample
		for _, sample := range during(samples, s.from, s.to) {
			sample.OK = sample.OK && !sample.Done.After(s.to)
			inside = append(inside, sample)
		}
		if at, ok := probe.StableFrom(inside, s.from, stableFor); ok {
			return at, true
		}
	}
	return time.Time{}, false
}

// spells lists when the path must be down: from the end of its window to the
// heal; where the faults only repeat, in each of their cuts. The window's end
// may lie beyond a short cut, so half of it counts at least.
func (j *run) spells(path scenario.Path, e scenario.Expectation) []spell {
	grace := j.grace(path, e)
	late := func(from, to time.Time) spell {
		return spell{from.Add(min(grace, to.Sub(from)/2)), to}
	}
	cuts := j.repeated()
	if len(cuts) == 0 {
		return []spell{late(j.rec.Run.Injected, j.healed())}
	}
	var out []spell
	for _, f := range cuts {
		to := j.healed()
		if !f.To.IsZero() && f.To.Before(to) {
			to = f.To
		}
		out = append(out, late(f.From, to))
	}
	return out
}

// grace is how long a path may take to show that it is down: the most its
// window allows, or that of an election where it has none.
func (j *run) grace(path scenario.Path, e scenario.Expectation) time.Duration {
	w, err := j.rec.Case.WindowOf(path, e.Window)
	if err != nil {
		w, _ = j.rec.Case.WindowOf(path, "election")
	}
	return w.Max
}

// repeated lists the rounds of repeated faults; none when another fault lasts
// all through the hold, or when nothing is repeated.
func (j *run) repeated() []record.Fault {
	steps := j.rec.Case.Faults
	if slices.ContainsFunc(steps, func(s scenario.Step) bool { return s.For == 0 }) {
		return nil
	}
	var out []record.Fault
	for _, f := range j.rec.Run.Faults {
		if slices.ContainsFunc(steps, func(s scenario.Step) bool { return s.Every > 0 && isRound(f.Name, s.Name) }) {
			out = append(out, f)
		}
	}
	return out
}

// isRound says whether a fault is a round of a step: "flap-3" of "flap".
func isRound(fault, step string) bool {
	var n int
	rest, ok := strings.CutPrefix(fault, step+"-")
	if !ok {
		return false
	}
	_, err := fmt.Sscanf(rest, "%d", &n)
	return err == nil && fmt.Sprint(n) == rest
}

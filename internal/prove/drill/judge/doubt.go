package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// unsteady answers the first question.
func (j *run) unsteady() []string {
	if j.rec.Run.Injected.IsZero() {
		return nil
	}
	return Unsteady(j.rec.Case, j.paths, j.watchFrom(), j.rec.Run.Injected)
}

// Unsteady lists the judged paths of c that were not clean in [from, to): that
// have no sample, or one that failed. Only requests answered before to count;
// one that was in flight at the injection belongs to the fault.
func Unsteady(c *scenario.Case, paths map[string][]probe.Sample, from, to time.Time) []string {
	var out []string
	for _, p := range c.Paths {
		if c.ExpectationOf(p).Role == scenario.RoleInfo {
			continue
		}
		seen, failed, first := 0, 0, ""
		for _, s := range paths[p.Name] {
			if s.Sent.Before(from) || !s.Done.Before(to) {
				continue
			}
			seen++
			if s.OK {
				continue
			}
			if failed++; first == "" {
				first = why(s)
			}
		}
		switch {
		case seen == 0:
			out = append(out, fmt.Sprintf("%s: no sample in the baseline", p.Name))
		case failed > 0:
			out = append(out, fmt.Sprintf("%s: baseline not clean, %d of %d samples failed (%s)", p.Name, failed, seen, first))
		}
	}
	return out
}

// absent answers the second question for the faults themselves; whether they
// were felt is a matter of the affected paths.
func (j *run) absent() []string {
	var out []string
	for _, f := range j.rec.Run.Faults {
		if !f.Verified {
			out = append(out, fmt.Sprintf("fault %s was not measured to be in force", f.Name))
		}
	}
	return out
}

// starved tells a prober that could not keep its schedule from a cluster that
// did not answer: control paths, lag, and probers that fell silent.
func (j *run) starved() []string {
	var out []string
	for _, name := range j.rec.Run.Controls {
		failed := 0
		for _, s := range j.paths[name] {
			if !s.OK && !s.Sent.Before(j.watchFrom()) {
				failed++
			}
		}
		if failed > 0 {
			out = append(out, fmt.Sprintf("%s: %s to the prober's own loopback failed; the machine was too busy", name, count(failed, "sample")))
		}
	}
	if worst, path := j.worstLag(); worst > MaxLag {
		out = append(out, fmt.Sprintf("%s: the prober sent %s late, more than %s; the machine was too busy", path, secs(millis(worst)), secs(millis(MaxLag))))
	}
	return append(out, j.silent()...)
}

// watchFrom is when the judged time begins: the baseline.
func (j *run) watchFrom() time.Time {
	return j.origin().Add(-j.rec.Case.Phases.Baseline)
}

func (j *run) worstLag() (worst time.Duration, path string) {
	for _, s := range j.rec.Samples {
		if lag := s.Sent.Sub(s.Scheduled); lag > worst && !s.Sent.Before(j.watchFrom()) {
			worst, path = lag, s.Path
		}
	}
	return worst, path
}

// silent reports paths whose samples have a hole or end early: a prober that
// was killed proves nothing.
func (j *run) silent() []string {
	if j.rec.Run.Injected.IsZero() {
		return nil
	}
	var out []string
	for _, p := range j.rec.Case.Paths {
		hole := p.Timeout + 10*p.Interval
		last := j.watchFrom()
		for _, s := range j.paths[p.Name] {
			if s.Sent.Sub(last) > hole && s.Sent.After(j.watchFrom()) {
				out = append(out, fmt.Sprintf("%s: no sample for %s", p.Name, secs(millis(s.Sent.Sub(last)))))
			}
			if s.Sent.After(last) {
				last = s.Sent
			}
		}
		if rest := j.rec.Run.Ended.Sub(last); rest > hole {
			out = append(out, fmt.Sprintf("%s: no sample in the last %s", p.Name, secs(millis(rest))))
		}
	}
	return out
}

// why is a failed sample in words.
func why(s probe.Sample) string {
	if s.Error != "" {
		return s.Error
	}
	return string(s.Class)
}

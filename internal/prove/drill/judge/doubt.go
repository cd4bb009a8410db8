package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// doubts asks the first two questions and whether the probers can be trusted.
func (j *run) doubts() []string {
	out := slices.Clone(j.rec.Run.Trouble)
	if j.rec.Run.Injected.IsZero() {
		out = append(out, "no fault was injected")
	}
	return slices.Concat(out, j.unsteady(), j.absent(), j.unseen(), j.starved(), j.unwatched(), j.unstored())
}

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
	return atMost(3, "paths", out)
}

// atMost shortens a list of reasons of one sort: a machine that stalls breaks
// every path at once.
func atMost(n int, noun string, reasons []string) []string {
	if len(reasons) <= n {
		return reasons
	}
	return append(reasons[:n:n], fmt.Sprintf("and %d more %s like that", len(reasons)-n, noun))
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
		out = append(out, j.badControl(name)...)
	}
	if worst, path := j.worstLag(); worst > MaxLag {
		out = append(out, fmt.Sprintf("%s: the prober sent %s late, more than %s; the machine was too busy", path, secs(millis(worst)), secs(millis(MaxLag))))
	}
	return append(out, j.silent()...)
}

// badControl judges one path to a prober's own loopback.
func (j *run) badControl(name string) []string {
	failed, worst := 0, time.Duration(0)
	for _, s := range j.from(j.paths[name], j.watchFrom()) {
		if !s.OK {
			failed++
		}
		worst = max(worst, s.Done.Sub(s.Sent))
	}
	switch {
	case failed > 0:
		return []string{fmt.Sprintf("%s: %s to the prober's own loopback failed; the machine was too busy", name, count(failed, "sample"))}
	case worst > MaxEcho:
		return []string{fmt.Sprintf("%s: an echo over the prober's own loopback took %s, more than %s; the machine was too busy", name, secs(millis(worst)), secs(millis(MaxEcho)))}
	}
	return nil
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
	for _, p := range j.watched() {
		samples := j.from(j.paths[p.Name], j.watchFrom())
		if hole := j.longestHole(samples); hole > MaxLag+holeIntervals*p.Interval {
			out = append(out, fmt.Sprintf("%s: no sample for %s; its prober was starved or dead", p.Name, secs(millis(hole))))
		} else if n := lost(samples); n > 0 {
			out = append(out, fmt.Sprintf("%s: the prober lost %s; the machine was too busy", p.Name, count(n, "tick")))
		}
	}
	return atMost(2, "paths", out)
}

// holeIntervals is how many intervals may pass without a sample on top of the
// allowed lag: one is the spacing itself, the others are the phase and the end
// of the run. The timeout plays no part, because an open loop sends on while
// answers are awaited.
const holeIntervals = 4

// watched lists all paths that a prober samples: those of the case, and the
// controls, which are sampled as often as the busiest path of their site.
func (j *run) watched() []scenario.Path {
	out := slices.Clone(j.rec.Case.Paths)
	for _, name := range j.rec.Run.Controls {
		control := scenario.Path{Name: name, Interval: scenario.DefaultInterval}
		for _, p := range j.rec.Case.PathsOf(siteOf(name)) {
			control.Interval = min(control.Interval, p.Interval)
		}
		out = append(out, control)
	}
	return out
}

// lost counts the numbers missing between samples: ticks that the prober could
// not serve. A single one amid requests that hang is forgiven: as many may hang
// at once as fit into the timeout and one more, so a timer a tick late is
// enough to lose one (3 of 25 healthy runs on two cores did, once each), and
// the outage around it is the same.
func lost(samples []probe.Sample) int {
	n := 0
	for i := 1; i < len(samples); i++ {
		switch missing := int(samples[i].Seq) - int(samples[i-1].Seq) - 1; {
		case missing < 1, missing == 1 && hung(samples[:i]):
		default:
			n += missing
		}
	}
	return n
}

// hung says whether a request that failed or stalled was still in flight when
// the last one was sent.
func hung(samples []probe.Sample) bool {
	last := samples[len(samples)-1].Sent
	return slices.ContainsFunc(samples, func(s probe.Sample) bool { return hurt(s) && s.Done.After(last) })
}

// longestHole is the longest time without a sample, from the baseline to the
// end of the run.
func (j *run) longestHole(samples []probe.Sample) time.Duration {
	var longest time.Duration
	last := j.watchFrom()
	for _, s := range samples {
		if s.Sent.After(last) {
			longest, last = max(longest, s.Sent.Sub(last)), s.Sent
		}
	}
	return max(longest, j.rec.Run.Ended.Sub(last))
}

// why is a failed sample in words.
func why(s probe.Sample) string {
	if s.Error != "" {
		return s.Error
	}
	return string(s.Class)
}

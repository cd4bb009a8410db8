package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// defaultGap is what a clean path may miss: the product's promise.
const defaultGap = time.Second

func (j *run) judgePath(p scenario.Path) report.Path {
	samples := j.from(j.paths[p.Name], j.watchFrom())
	out := report.Path{
		Name: p.Name, Site: p.Site, Target: p.Shown(), Kind: p.Kind, Mode: p.Mode,
	}
	j.measure(&out, p, samples)
	e := j.rec.Case.ExpectationOf(p)
	out.Role = e.Role
	switch e.Role {
	case scenario.RoleAffected:
		j.judgeAffected(&out, p, e, samples)
	case scenario.RoleClean:
		j.judgeClean(&out, p, e, samples)
	case scenario.RoleControl:
		judgeUnfailing(&out)
	default:
		out.Verdict, out.Reason = report.NotApplicable, e.Note
	}
	if e.FailedAfter != nil && out.Verdict == report.Pass {
		j.judgeAfter(&out, *e.FailedAfter, samples)
	}
	if e.FailWithin > 0 && out.Verdict == report.Pass {
		j.judgePromptness(&out, e.FailWithin, samples)
	}
	return out
}

func (j *run) judgeControl(name string) report.Path {
	samples := j.from(j.paths[name], j.watchFrom())
	out := report.Path{Name: name, Target: "loopback", Kind: "connect", Mode: "new", Role: scenario.RoleControl}
	if len(samples) > 0 {
		out.Site = siteOf(name)
	}
	j.measure(&out, scenario.Path{}, samples)
	judgeUnfailing(&out)
	return out
}

// siteOf is the site in the name of a path, "a" of "a/control".
func siteOf(name string) string {
	for i, r := range name {
		if r == '/' {
			return name[:i]
		}
	}
	return name
}

func judgeUnfailing(p *report.Path) {
	p.Verdict = report.Pass
	if p.Failed > 0 {
		p.Verdict, p.Reason = report.Inconclusive, fmt.Sprintf("%s failed on a path that must not", count(p.Failed, "sample"))
	}
}

// measure fills in the figures that do not depend on the role.
func (j *run) measure(p *report.Path, path scenario.Path, samples []probe.Sample) {
	var took []time.Duration
	for _, s := range samples {
		if s.OK {
			took = append(took, s.Done.Sub(s.Sent))
		} else {
			p.Failed++
		}
	}
	slices.Sort(took)
	p.Samples = len(samples)
	p.P50MS, p.P99MS = millis(percentile(took, 50)), millis(percentile(took, 99))
	for _, g := range probe.Gaps(samples) {
		p.Outages = append(p.Outages, j.outage(g))
	}
	p.RecoveredMS = j.recovered(path, samples)
	p.Strip = j.strip(samples)
}

// percentile is the nearest-rank percentile of sorted durations.
func percentile(sorted []time.Duration, pct int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*pct + 99) / 100
	return sorted[max(rank, 1)-1]
}

// judgeAffected answers the third question for one path, and whether it was
// whole after the heal.
func (j *run) judgeAffected(p *report.Path, path scenario.Path, e scenario.Expectation, samples []probe.Sample) {
	want := e.Window
	if !j.rec.Run.Agents {
		want = cmp.Or(e.Without, e.Window)
	}
	switch want {
	case scenario.Never:
		j.judgeNever(p, path, e, samples)
	case scenario.Any:
		p.Verdict = report.NotApplicable
	case scenario.Half:
		j.judgeHalf(p, samples)
	default:
		j.judgeWindow(p, path, e, want)
	}
	if p.Verdict == report.Pass && !j.whole(samples) {
		p.Verdict, p.Reason = report.Fail, "not whole at the end of the settle phase"
	}
}

// judgeNever wants a path to stay broken while the fault lasts. If it does
// not, the fault was not what the scenario says it is.
func (j *run) judgeNever(p *report.Path, path scenario.Path, e scenario.Expectation, samples []probe.Sample) {
	p.Verdict = report.Pass
	if e.Unfelt && p.Failed == 0 {
		return
	}
	if p.RecoveredMS != nil {
		p.Verdict = report.Inconclusive
		p.Reason = fmt.Sprintf("answered again after %s though the fault was in force and nobody helped; it was not felt as described", secs(*p.RecoveredMS))
		return
	}
	if at, ok := j.spelled(path, e, samples); ok {
		p.Verdict = report.Inconclusive
		p.Reason = fmt.Sprintf("answered again %d times in a row from %s on though the fault was in force and nobody helped; it was not felt to the end", stableFor, secs(j.ms(at)))
		return
	}
	p.Reason = "down until the heal, as expected " + j.rec.Case.SideWords(j.rec.Run.Agents)
}

func (j *run) judgeWindow(p *report.Path, path scenario.Path, e scenario.Expectation, name string) {
	w, err := j.rec.Case.WindowOf(path, name)
	if err != nil {
		p.Verdict, p.Reason = report.Inconclusive, err.Error()
		return
	}
	if e.Unfelt {
		w.Min = 0
	}
	if w.Served > 0 && !j.serve(p, &w) {
		return
	}
	p.Expected = &report.Window{MinMS: millis(w.Min), MaxMS: millis(w.Max), Why: w.Why}
	p.Verdict = report.Pass
	r := p.RecoveredMS
	if w.FromLoss {
		r = j.sinceLoss(p)
	}
	switch {
	case r == nil:
		p.Verdict, p.Reason = report.Fail, fmt.Sprintf("did not answer for good while the fault was in force (allowed %s)%s", secs(p.Expected.MaxMS), firstError(p))
	case *r > p.Expected.MaxMS:
		p.Verdict, p.Reason = report.Fail, fmt.Sprintf("answered for good after %s, allowed %s%s", secs(*r), secs(p.Expected.MaxMS), firstError(p))
	case *r < p.Expected.MinMS:
		p.Verdict, p.Reason = report.Inconclusive, fmt.Sprintf("answered for good after %s, sooner than the timers allow (%s); the fault was not felt as described", secs(*r), secs(p.Expected.MinMS))
	}
}

// judgeClean answers the fourth question: the longest stretch in which
// requests failed or stalled, from the injection to the end.
func (j *run) judgeClean(p *report.Path, path scenario.Path, e scenario.Expectation, samples []probe.Sample) {
	allowed := cmp.Or(e.Gap, defaultGap)
	p.Expected = &report.Window{MaxMS: millis(allowed), Why: []string{"longest gap of a path that the fault does not touch"}}
	p.Verdict = report.Pass
	switch {
	case j.rec.Run.Agents || e.Without == "":
	case e.Without == scenario.Half:
		j.judgeHalf(p, samples)
		return
	case e.Without == scenario.Never:
		if j.judgeNever(p, path, e, samples); p.Verdict == report.Pass && !j.whole(samples) {
			p.Verdict, p.Reason = report.Fail, "not whole at the end of the settle phase"
		}
		return
	default:
		p.Verdict = report.NotApplicable
		return
	}
	longest := j.longestStall(path, samples)
	switch failed, gaps := j.disturbed(samples); {
	case e.Failed != nil && failed > *e.Failed:
		p.Verdict, p.Reason = report.Fail, fmt.Sprintf("%s failed, at most %d allowed%s", count(failed, "request"), *e.Failed, firstError(p))
	case e.Gaps != nil && gaps > *e.Gaps:
		p.Verdict, p.Reason = report.Fail, fmt.Sprintf("%s, at most %d allowed%s", count(gaps, "gap"), *e.Gaps, firstError(p))
	case longest > allowed:
		p.Verdict, p.Reason = report.Fail, fmt.Sprintf("gap of %s, allowed %s%s", secs(millis(longest)), secs(millis(allowed)), firstError(p))
	case !j.whole(samples):
		p.Verdict, p.Reason = report.Fail, "not whole at the end of the settle phase"
	}
}

// longestStall is the longest gap by upper bound after the injection, where a
// request answered after more than Slow counts as failed, but for clients in pods
// (see recovered).
func (j *run) longestStall(path scenario.Path, samples []probe.Sample) time.Duration {
	if !path.InPod() {
		samples = stalled(samples)
	}
	var longest time.Duration
	for _, g := range probe.Gaps(samples) {
		if g.LastBad.After(j.origin()) {
			longest = max(longest, g.Upper())
		}
	}
	return longest
}

// stalled marks slow answers as failed.
func stalled(samples []probe.Sample) []probe.Sample {
	out := slices.Clone(samples)
	for i := range out {
		if out[i].OK && out[i].Done.Sub(out[i].Sent) > Slow {
			out[i].OK, out[i].Class = false, probe.ClassTimeout
		}
	}
	return out
}

// whole says whether the path answered at the end of the run. The very last
// samples may have been cut short by the end itself, so a single good streak
// within the settle phase is not enough: the last five answered ones count.
func (j *run) whole(samples []probe.Sample) bool {
	tail := samples[max(0, len(samples)-stableFor):]
	for _, s := range tail {
		if !s.OK {
			return false
		}
	}
	return len(tail) == stableFor
}

func (j *run) from(samples []probe.Sample, t time.Time) []probe.Sample {
	i := slices.IndexFunc(samples, func(s probe.Sample) bool { return !s.Sent.Before(t) })
	if i < 0 {
		return nil
	}
	return samples[i:]
}

func firstError(p *report.Path) string {
	for _, o := range p.Outages {
		if o.ToMS > 0 && o.First != "" {
			return ": " + o.First
		}
	}
	return ""
}

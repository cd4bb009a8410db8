package judge

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// serve moves a window that counts from the first apiserver that is ready
// again. It reports false, with a verdict, when there was none.
func (j *run) serve(p *report.Path, w *scenario.Window) bool {
	ready, ok := j.readyAgain()
	if !ok {
		p.Verdict, p.Reason = report.Inconclusive, "no apiserver was ready again while the fault was watched"
		return false
	}
	w.Max = ready.Sub(j.origin()) + w.Served
	w.Why = slices.Concat([]string{fmt.Sprintf("an apiserver ready again after %s", secs(j.ms(ready)))}, w.Why[:len(w.Why)-1])
	return true
}

// readyAgain is when the observer saw the first apiserver ready after the
// injection.
func (j *run) readyAgain() (time.Time, bool) { return j.first(record.KindReady) }

// first is the time of the first event of a kind after the injection.
func (j *run) first(kind string) (time.Time, bool) {
	for _, e := range j.rec.Events {
		if e.Kind == kind && !e.At.Before(j.origin()) {
			return e.At, true
		}
	}
	return time.Time{}, false
}

// disturbed counts the requests that failed while the faults were in force, and
// the gaps that they form. What comes after is the heal's: three apiservers that
// start at once take all that a small machine has.
func (j *run) disturbed(samples []probe.Sample) (failed, gaps int) {
	inForce := during(samples, j.origin(), j.healed())
	for _, s := range inForce {
		if !s.OK {
			failed++
		}
	}
	return failed, len(probe.Gaps(inForce))
}

// judgePromptness wants what fails to fail soon, while the first fault is in
// force.
func (j *run) judgePromptness(p *report.Path, within time.Duration, samples []probe.Sample) {
	if len(j.rec.Run.Faults) == 0 {
		return
	}
	f := j.rec.Run.Faults[0]
	to := f.To
	if to.IsZero() {
		to = j.healed()
	}
	for _, s := range during(samples, f.From, to) {
		if took := s.Done.Sub(s.Sent); !s.OK && took > within {
			p.Verdict, p.Reason = report.Fail, fmt.Sprintf("a request sent at %s failed after %s, allowed %s: %s", secs(j.ms(s.Sent)), secs(millis(took)), secs(millis(within)), why(s))
			return
		}
	}
}

// balancersOutOfBounds compares what the balancers did in a run with the agents
// with what the scenario allows.
func (j *run) balancersOutOfBounds() []string {
	if !j.rec.Run.Agents {
		return nil
	}
	var out []string
	bound := func(b *scenario.Bounds, n int, what string, first string) {
		switch {
		case b == nil:
		case n > b.Max:
			out = append(out, fmt.Sprintf("balancers made %s, at most %d allowed; the first: %s", count(n, what), b.Max, first))
		case n < b.Min:
			out = append(out, fmt.Sprintf("balancers made %s, at least %d expected", count(n, what), b.Min))
		}
	}
	n, first := j.graded()
	bound(j.rec.Case.Balance.Transitions, n, "change", first)
	n, first = j.resets()
	bound(j.rec.Case.Balance.Resets, n, "reset", first)
	return out
}

// graded counts changes of grade while the faults were in force, and tells the
// first.
func (j *run) graded() (n int, first string) {
	for _, e := range j.balancerEvents(record.KindGraded) {
		if n++; n == 1 {
			first = e.Source + ": " + e.Message
		}
	}
	return n, first
}

// resets counts the connections that were reset meanwhile, and tells the first.
func (j *run) resets() (n int, first string) {
	for _, e := range j.balancerEvents(record.KindReset) {
		if n == 0 {
			first = e.Source + ": " + e.Message
		}
		k, err := strconv.Atoi(e.Keys["count"])
		if err != nil {
			k = 1
		}
		n += k
	}
	return n, first
}

func (j *run) balancerEvents(kind string) []record.Event {
	var out []record.Event
	for _, e := range j.rec.Events {
		if e.Kind == kind && !e.At.Before(j.origin()) && e.At.Before(j.healed()) {
			out = append(out, e)
		}
	}
	return out
}

// balanceNumbers are the figures of a run whose clients go through balancers:
// requests that failed while the faults were in force, by how they were sent,
// how many of those over new connections after the balancer's promise; the
// latest recovery of a new and of a kept path; when a balancer first changed
// its mind and an apiserver first ceased to be ready or was ready again; what
// the balancers did in all.
func balanceNumbers(rec *record.Record, paths []report.Path) map[string]float64 {
	if !rec.Case.HasBalancers(rec.Run.Agents) || rec.Run.Injected.IsZero() {
		return nil
	}
	j := &run{rec: rec, paths: probe.ByPath(rec.Samples)}
	out := map[string]float64{}
	if slices.ContainsFunc(rec.Case.Paths, scenario.Path.Balanced) {
		out["failed_new"], out["failed_kept"], out["failed_late"] = 0, 0, 0
	}
	for _, p := range rec.Case.Paths {
		if p.Balanced() {
			j.countFailed(out, p)
		}
	}
	for _, p := range paths {
		name := "moved_ms"
		if p.Mode != "new" {
			name = "reset_ms"
		}
		if p.Role == scenario.RoleAffected && p.RecoveredMS != nil {
			out[name] = max(out[name], *p.RecoveredMS)
		}
	}
	for name, kind := range map[string]string{"noticed_ms": record.KindGraded, "unready_ms": record.KindUnready, "ready_ms": record.KindReady} {
		if at, ok := j.first(kind); ok {
			out[name] = j.ms(at)
		}
	}
	n, _ := j.graded()
	resets, _ := j.resets()
	out["transitions"], out["resets"] = float64(n), float64(resets)
	return out
}

func (j *run) countFailed(out map[string]float64, p scenario.Path) {
	late := j.rec.Run.Injected.Add(scenario.DefaultTimers().Move)
	for _, s := range during(j.paths[p.Name], j.rec.Run.Injected, j.healed()) {
		switch {
		case s.OK:
		case p.Kept():
			out["failed_kept"]++
		default:
			out["failed_new"]++
			if s.Sent.After(late) {
				out["failed_late"]++
			}
		}
	}
}

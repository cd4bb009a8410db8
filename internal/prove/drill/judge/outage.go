package judge

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

func (j *run) outage(g probe.Gap) report.Outage {
	errs := make(map[string]int, len(g.Errors))
	for class, n := range g.Errors {
		errs[string(class)] = n
	}
	return report.Outage{
		FromMS: j.ms(g.From()), ToMS: j.ms(g.To()),
		LowerMS: millis(g.Lower()), UpperMS: millis(g.Upper()),
		Open: g.Open, Errors: errs, First: g.First,
	}
}

// recovered is when a path answered for good while the fault was in force:
// the earliest answer to a request that was sent no earlier than the last one
// that failed or stalled. nil when there was none before the heal, or fewer
// than stableFor requests after it; 0 when nothing failed or stalled.
//
// Of a path from a pod only failures count, and the slow answers right after
// one: what is promised there is that nothing is lost, for minutes on end, and a
// machine that all sites share stalls now and then.
//
// Dating by the answer makes it a bound from above on the moment the service
// was back: it was back at the latest then. The last failed send bounds it
// from below.
func (j *run) recovered(path scenario.Path, samples []probe.Sample) *float64 {
	if j.rec.Run.Injected.IsZero() {
		return nil
	}
	inForce := during(samples, j.rec.Run.Injected, j.healed())
	last := lastDisturbed(inForce)
	if path.InPod() {
		last = lastLost(inForce)
	}
	if last < 0 {
		if len(inForce) == 0 {
			return nil
		}
		return ptr(0)
	}
	first, good := time.Time{}, 0
	for _, s := range inForce[last:] {
		if !s.OK || s.Done.After(j.healed()) {
			continue
		}
		if good++; first.IsZero() || s.Done.Before(first) {
			first = s.Done
		}
	}
	if good < stableFor {
		return nil
	}
	return ptr(j.ms(first))
}

// during selects the samples sent in [from, to).
func during(samples []probe.Sample, from, to time.Time) []probe.Sample {
	var out []probe.Sample
	for _, s := range samples {
		if !s.Sent.Before(from) && s.Sent.Before(to) {
			out = append(out, s)
		}
	}
	return out
}

// lastDisturbed is the index of the last sample that failed, or that stalled
// next to another that failed or stalled; -1 when there is none. A lone
// answer that took over a second on a shared machine is no outage.
func lastDisturbed(samples []probe.Sample) int {
	bad := func(i int) bool {
		return i >= 0 && i < len(samples) && (!samples[i].OK || samples[i].Done.Sub(samples[i].Sent) > Slow)
	}
	for i := len(samples) - 1; i >= 0; i-- {
		if !samples[i].OK || bad(i) && (bad(i-1) || bad(i+1)) {
			return i
		}
	}
	return -1
}

// lastLost is the index of the last sample that failed, or of the last of the
// slow ones right after it; -1 when none failed.
func lastLost(samples []probe.Sample) int {
	last := -1
	for i, s := range samples {
		if !s.OK || last == i-1 && last >= 0 && s.Done.Sub(s.Sent) > Slow {
			last = i
		}
	}
	return last
}

// strip draws the path: consecutive samples of one outcome. A stretch ends
// where the next begins; where samples are missing nothing is drawn.
func (j *run) strip(samples []probe.Sample) []report.Stretch {
	var out []report.Stretch
	var last time.Time
	for _, s := range samples {
		class := outcome(s)
		at := j.ms(s.Sent)
		hole := !last.IsZero() && s.Sent.Sub(last) > time.Second
		if n := len(out); n > 0 && !hole {
			out[n-1].ToMS = at
			if out[n-1].Class == class {
				last = s.Sent
				continue
			}
		}
		out = append(out, report.Stretch{FromMS: at, ToMS: at, Class: class})
		last = s.Sent
	}
	return out
}

func outcome(s probe.Sample) string {
	switch {
	case !s.OK:
		return string(s.Class)
	case s.Done.Sub(s.Sent) > Slow:
		return "slow"
	}
	return "ok"
}

package health

import (
	"math"
	"time"
)

// jitter is the share of a period by which checks may come early.
const jitter = 0.05

// launch starts the probes that are due.
func (j *Judge) launch(now time.Duration) {
	for {
		at, fresh, ok := j.due()
		if !ok || at > now {
			return
		}
		j.start(now, fresh)
	}
}

// due says when the next probe starts and how; false while none can.
func (j *Judge) due() (at time.Duration, fresh, ok bool) {
	n := len(j.flight)
	oneByOne := j.t.Suspect == 0
	switch {
	case n >= maxInFlight, oneByOne && n > 0:
		return 0, false, false
	case j.suspect.on:
		return j.suspect.recheck, true, true
	case j.hurry && j.begun > 0:
		return j.last + min(j.t.Recheck, j.t.Period), true, true
	case j.v.Grade.Usable() || j.v.Grade == Unknown:
		every := uint64(j.t.FreshEvery)
		return j.regular, every > 0 && (j.checks+1)%every == 0, n == 0
	case j.rising > 0:
		return j.rising, n > 0 || j.tally.cutOff(j.v.Grade), true
	default:
		return j.last + j.t.DownPeriod, n > 0 || j.tally.cutOff(j.v.Grade), true
	}
}

func (j *Judge) start(now time.Duration, fresh bool) {
	j.begun++
	p := probe{id: j.begun, start: now, heard: now, fresh: fresh, recheck: j.suspect.on}
	j.flight.add(p)
	j.actions = append(j.actions, Action{Kind: Start, Probe: p.id, Fresh: fresh})
	if j.suspect.on {
		j.suspect.recheck = now + j.t.Recheck
	} else if !j.hurry {
		j.checks++
	}
	j.last, j.rising = now, 0
	if fresh {
		j.hurry = false
	}
	j.regular = now + j.gap()
}

// gap is the time from a check to the next. The first is shorter by the phase,
// which puts many servers out of step; the others differ a little (by the
// golden ratio, which spreads best), so that no two stay in step.
func (j *Judge) gap() time.Duration {
	share := 1 - jitter*math.Mod(float64(j.begun)*math.Phi+j.phase, 1)
	if j.begun == 1 {
		share = max(j.phase, jitter)
	}
	return time.Duration(float64(j.t.Period) * share)
}

func (Nudge) apply(j *Judge, _ time.Duration) { j.hurry = true }

// nextWake is when time alone will change something.
func (j *Judge) nextWake(now time.Duration) time.Duration {
	wake := Never
	if at, _, ok := j.due(); ok {
		wake = at
	}
	for _, p := range j.flight {
		wake = min(wake, p.heard+j.limit())
		if at, ok := j.slowAt(p); ok {
			wake = min(wake, at)
		}
	}
	return max(wake, now)
}

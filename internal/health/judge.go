package health

import (
	"fmt"
	"math"
	"time"
)

// Lateness of the Judge's own wakes. The time by which one came late is time
// in which answers could not be read, so it is nobody's silence.
const (
	// forgiven from here on; below, it is scheduling as usual.
	lateForgiven = 50 * time.Millisecond
	// reported from here on.
	lateReported = 300 * time.Millisecond
	// doubtFor is how long a doubt is reported after its last cause.
	doubtFor = 10 * time.Second
)

// Never is the wake of a Judge that waits for events only.
const Never time.Duration = math.MaxInt64

// Verdict is what a Judge holds to be true.
type Verdict struct {
	Grade Grade
	// Suspect says that a usable server has just given cause for doubt: new
	// connections prefer others, nothing else changes.
	Suspect bool
	// Since is when Grade was reached, on the clock of Step, and At by the
	// wall clock; a Judge leaves At zero, a Checker fills it in.
	Since time.Duration
	At    time.Time
	// Reason is one line for people on Grade or, if Suspect, on the suspicion.
	Reason string
	// RTT is the smoothed time of a TCP handshake, 0 until one was measured.
	RTT time.Duration
	// Checks and Failures count finished probes, and failed ones among them.
	Checks, Failures uint64
	// CredentialsRefused says so of the last answer.
	CredentialsRefused bool
	// Doubt is why the checker has lately had cause to doubt itself, or empty.
	// It changes no grade; the owner of many checkers may weigh it.
	Doubt string
}

// Judge decides about one server when to probe it and what its grade is. It is
// pure: time comes in as a monotonic duration. Tell it what happens with Step,
// then call Next, do what that says, and call Next again at its wake or after
// the next Step.
type Judge struct {
	t     Timers
	phase float64

	v       Verdict
	tally   tally
	suspect suspicion
	flight  flight

	answer  smoothed // time of an answer on a kept connection
	connect smoothed // time of a TCP handshake

	begun   uint64        // probes started
	checks  uint64        // of them, regular ones
	last    time.Duration // start of the newest probe
	regular time.Duration // when the next regular probe starts
	hurry   bool          // a probe was asked for
	rising  time.Duration // when the next probe of an unusable server starts after a good answer; 0: no such

	wake       time.Duration
	doubtUntil time.Duration
	actions    []Action
}

// NewJudge returns a Judge that knows nothing. phase, in [0, 1), spreads the
// checks of many servers: the first comes at once, the second after that share
// of the period.
func NewJudge(t Timers, phase float64) *Judge {
	j := &Judge{t: t, phase: phase, tally: tally{t: t}, wake: Never}
	if t.Score {
		j.tally.score = scoreStart
		j.v = Verdict{Grade: Ready, Reason: "not checked yet, and trusted until it is"}
	}
	return j
}

// Verdict returns the verdict as of the last Step or Next.
func (j *Judge) Verdict() Verdict {
	v := j.v
	v.RTT = j.connect.value
	if j.suspect.on {
		v.Suspect, v.Reason = true, j.suspect.reason
	}
	return v
}

// Step takes an event that happened at now. Times never go back.
func (j *Judge) Step(now time.Duration, ev Event) {
	j.excuse(now)
	ev.apply(j, now)
}

// Next returns what to do at now and when to call it again at the latest.
func (j *Judge) Next(now time.Duration) (actions []Action, wake time.Duration) {
	j.excuse(now)
	if now >= j.doubtUntil {
		j.v.Doubt = ""
	}
	j.expire(now)
	j.doubtSlow(now)
	j.launch(now)
	actions, j.actions = j.actions, nil
	j.wake = j.nextWake(now)
	return actions, j.wake
}

// excuse moves what has been heard of the probes in flight by the time in
// which nobody listened. Other times stay: what is due is due.
func (j *Judge) excuse(now time.Duration) {
	late := now - j.wake
	if j.wake == Never || late < lateForgiven {
		return
	}
	j.wake = now
	j.flight.forgive(late)
	if late >= lateReported {
		j.distrust(now, fmt.Sprintf("the checker itself was late by %s", late.Round(time.Millisecond)))
	}
}

func (j *Judge) distrust(now time.Duration, why string) {
	j.v.Doubt, j.doubtUntil = why, now+doubtFor
}

func (ev Progress) apply(j *Judge, now time.Duration) {
	p := j.flight.find(ev.Probe)
	if p == nil {
		return
	}
	p.stage = max(p.stage, ev.Stage)
	if ev.Stage == Dialling {
		p.fresh = true
	}
	if ev.Stage == Spoke {
		p.heard = now
	}
}

func (ev Answered) apply(j *Judge, now time.Duration) {
	p, ok := j.flight.take(ev.Probe)
	if !ok {
		return // cancelled or expired meanwhile
	}
	r := ev.Result
	p.fresh = p.fresh || r.Fresh
	if r.Grade == Unknown {
		j.distrust(now, r.Reason)
		return
	}
	if r.Fresh && r.RTT > 0 {
		j.connect.addDelay(r.RTT)
	}
	if r.Grade.Usable() && !p.fresh {
		j.answer.add(now - p.start)
	}
	j.weigh(now, p, r, false)
}

// expire fails the probes that have been silent for too long.
func (j *Judge) expire(now time.Duration) {
	for {
		p, ok := j.flight.expired(now, j.limit())
		if !ok {
			return
		}
		j.cancel(p)
		j.weigh(now, p, Result{Grade: j.silentGrade(p), Reason: silentReason(p, now)}, true)
	}
}

// limit is how long a probe may be silent. Once one has been silent to the
// end, the one that was begun to confirm it need share only part of that.
func (j *Judge) limit() time.Duration {
	if j.t.Suspect > 0 && j.v.Grade.Usable() && j.tally.silent {
		return j.t.Timeout * 2 / 3
	}
	return j.t.Timeout
}

// silentGrade tells a frozen server from an unreachable one. A probe on a kept
// connection cannot; it goes by its fresh companion if there is one.
func (j *Judge) silentGrade(p probe) Grade {
	if !p.fresh {
		if other := j.flight.newestFresh(); other != nil {
			p = *other
		}
	}
	if p.fresh && p.stage < Connected {
		return Unreachable
	}
	return Frozen
}

func silentReason(p probe, now time.Duration) string {
	what := "no answer"
	switch {
	case p.fresh && p.stage < Connected:
		what = "no connection"
	case p.fresh && p.stage < Spoke:
		what = "connected, but no answer"
	}
	return fmt.Sprintf("%s in %s", what, (now - p.heard).Round(time.Millisecond))
}

// weigh puts the result of p on the scales; silent says that it is none.
func (j *Judge) weigh(now time.Duration, p probe, r Result, silent bool) {
	j.v.Checks++
	j.v.CredentialsRefused = r.CredentialsRefused
	r.Fresh = p.fresh
	good, was := r.Grade.Usable(), j.v.Grade
	if !good {
		j.v.Failures++
	}
	switch {
	case was.Usable() && good:
		j.acquit(now, p)
	case was.Usable():
		if p.start < j.suspect.refuted {
			return // a newer probe on a new connection has found it well
		}
		j.accuse(now, p, r)
	case good:
		j.rising = now + j.t.Recheck
	default:
		j.rising = 0
	}
	j.settle(now, j.tally.weigh(now, was, r, silent), r)
}

// settle makes g the grade after the result r.
func (j *Judge) settle(now time.Duration, g Grade, r Result) {
	was := j.v.Grade
	switch {
	case g == r.Grade:
		j.v.Reason = r.Reason
	case g == ShuttingDown:
		j.v.Reason = "shuts down, and lets nobody in any more"
	}
	if g == was {
		return
	}
	j.v.Grade, j.v.Since = g, now
	j.tally.reset()
	if was.Usable() != g.Usable() {
		j.turn()
	}
}

// turn starts a new chapter: what was asked before does not count for it.
func (j *Judge) turn() {
	j.suspect = suspicion{dials: j.suspect.dials, clients: j.suspect.clients, kept: j.suspect.kept}
	j.rising = 0
	for _, p := range j.flight {
		j.cancel(p)
	}
	j.flight = j.flight[:0]
	j.regular = j.last + j.gap()
}

func (j *Judge) cancel(p probe) {
	j.actions = append(j.actions, Action{Kind: Cancel, Probe: p.id})
}

// smoothed is a mean that forgets, with the weight of RFC 6298.
type smoothed struct{ value time.Duration }

func (s *smoothed) add(d time.Duration) {
	if s.value == 0 {
		s.value = d
		return
	}
	s.value += (d - s.value) / 8
}

// addDelay is for what noise can only lengthen, and is measured rarely: a
// shorter time is believed sooner.
func (s *smoothed) addDelay(d time.Duration) {
	if s.value > d {
		s.value -= (s.value - d) / 2
		return
	}
	s.add(d)
}

package health

import (
	"fmt"
	"time"
)

// A suspicion may come later than Timers.Suspect if the server is known to be
// slow, but at most by this factor: 0.25 s to 0.4 s.
const (
	suspectMost = 8
	suspectPer  = 5
)

// quietMost bounds how long refuted evidence is not listened to, in periods.
const quietMost = 16

// suspicion is what speaks against a usable server before it has failed.
type suspicion struct {
	on     bool
	reason string
	// since: only an answer on a connection begun at since or later clears
	// it. Negative: any good answer does.
	since time.Duration
	// recheck is when the next fresh probe starts.
	recheck time.Duration
	// refuted is the start of the newest fresh probe that found the server
	// well; failures of older probes no longer matter.
	refuted time.Duration
	// accuser is whose word raised it, nil for our own probes'.
	accuser *accuser

	// Failed dials, other trouble of clients, and our own kept connection: a
	// client that breaks its connections must not deafen us to refused ones.
	dials, clients, kept accuser
}

// accuser is a source of signs that may be wrong. Each sign that a probe
// refutes makes its next ones be ignored, twice as long each time, so that a
// storm of false ones costs a bounded number of probes. Regular checks go on.
type accuser struct{ until, step time.Duration }

func (a *accuser) refuted(now time.Duration, t Timers) {
	most := quietMost * t.Period
	if now > a.until+most {
		a.step = 0
	}
	a.step = min(max(2*a.step, t.Recheck), most)
	a.until = now + a.step
}

// clears reports whether a good answer to p ends the suspicion.
func (s *suspicion) clears(p probe) bool {
	return s.since < 0 || p.fresh && p.start >= s.since
}

// raise makes the server suspect, and asks for a probe at recheck.
func (j *Judge) raise(reason string, since, recheck time.Duration, by *accuser) {
	s := &j.suspect
	if j.t.Suspect == 0 {
		return
	}
	switch {
	case !s.on:
		s.on, s.reason, s.since, s.recheck, s.accuser = true, reason, since, recheck, by
	case s.since < 0 && since >= 0:
		s.reason, s.since, s.accuser = reason, since, by
		s.recheck = min(s.recheck, recheck)
	case by == nil: // more evidence of the same kind hastens nothing
		s.recheck = min(s.recheck, recheck)
	}
}

// acquit takes a good answer to p of a usable server.
func (j *Judge) acquit(now time.Duration, p probe) {
	s := &j.suspect
	if p.fresh {
		s.refuted = max(s.refuted, p.start)
		for {
			old, ok := j.flight.startedBefore(p.start)
			if !ok {
				break
			}
			j.cancel(old)
		}
	}
	if s.on && !s.clears(p) {
		return
	}
	if s.on && s.accuser != nil {
		s.accuser.refuted(now, j.t)
	}
	s.on = false
	j.tally.forgive()
}

// accuse takes a failed probe of a usable server.
func (j *Judge) accuse(now time.Duration, p probe, r Result) {
	since, recheck := time.Duration(-1), now+j.t.Recheck
	if p.fresh {
		since = p.start
	}
	if r.Grade == Refused && !p.fresh {
		recheck = now // a broken connection: whether anybody is there is known at once
	}
	j.raise(r.Reason, since, recheck, nil)
}

// doubtSlow makes the server suspect when a check takes long.
func (j *Judge) doubtSlow(now time.Duration) {
	for _, p := range j.flight {
		if at, ok := j.slowAt(p); ok && now >= at {
			since := time.Duration(-1)
			if p.fresh {
				since = p.start
			}
			j.raise(fmt.Sprintf("no answer for %s", (now-p.heard).Round(time.Millisecond)), since, now, nil)
		}
	}
}

// slowAt is when p will make the server suspect; false if it cannot.
func (j *Judge) slowAt(p probe) (time.Duration, bool) {
	if j.suspect.on || p.recheck || j.t.Suspect == 0 || !j.v.Grade.Usable() {
		return 0, false
	}
	patience := max(4*j.answer.value, j.t.Suspect)
	if p.fresh {
		patience += 2 * j.connect.value // a handshake of TCP, one of TLS 1.3
	}
	return p.heard + min(patience, j.t.Suspect*suspectMost/suspectPer), true
}

func (ev Evidence) apply(j *Judge, now time.Duration) {
	if j.t.Score {
		j.discredit(now, ev)
		return
	}
	by := &j.suspect.clients
	if ev == DialRefused || ev == DialTimeout {
		by = &j.suspect.dials
	}
	if j.t.Suspect == 0 || !j.v.Grade.Usable() || now < by.until {
		return
	}
	j.tally.hint = j.tally.hint || ev == DialRefused
	j.raise(ev.String(), now, now, by)
}

// discredit lets a client's failed dial count as a failed check, as the
// libraries do that the score comes from.
func (j *Judge) discredit(now time.Duration, ev Evidence) {
	var g Grade
	switch ev {
	case DialRefused:
		g = Refused
	case DialTimeout:
		g = Unreachable
	default:
		return
	}
	j.settle(now, j.tally.weighScore(j.v.Grade, g), Result{Grade: g, Reason: ev.String()})
}

func (Lost) apply(j *Judge, now time.Duration) {
	if j.t.Suspect == 0 || !j.v.Grade.Usable() || now < j.suspect.kept.until {
		return
	}
	j.tally.hint = true
	j.raise("the kept connection was lost", now, now, &j.suspect.kept)
}

package lease

import (
	"cmp"
	"time"
)

// contact is for how long the API has been reached without a break.
type contact struct {
	ok    bool
	since time.Duration
	// last is the latest time of which it is known that the API worked then: a
	// request that was answered was sent then, or a new record came.
	last time.Duration
	// trouble is when the first read was sent since which none was answered; never
	// when there is none. News on a watch may be old.
	trouble time.Duration
}

// Parts of a lease, and why.
const (
	// A peer hears of a renewal every two fifths. When one is late by a twentieth
	// it asks the API itself.
	checkPart = 0.45
	// When nothing came of that either, contact is broken: a good three sixths
	// before a lease that began with the last renewal runs out for the others.
	gapPart = 0.7
	// A call is given this long; a renewal at two fifths can be made twice more.
	callPart = 0.25
	// After a failed call, the pause grows from one to the other.
	retryPart, retryMaxPart = 0.1, 0.2
	// A holder whose renewal is late by latePart asks its peers, every askPart. A
	// peer that is asked asks the API, and says "not reached" when that has been
	// open for patiencePart. So with renewals at two fifths all have said so at 0.72
	// of a lease, and the deadline is at 0.9: four questions may be lost. It is not
	// less, for who says so without need puts off its own taking over by a lease.
	latePart, askPart, patiencePart = 0.08, 0.04, 0.2
	// When a peer says that the API works, a call is stuck that has been open for
	// stuckPart, and a failed one is repeated hastePart after it was sent.
	stuckPart, hastePart = 0.12, 0.06
	// Once no more than lastPart is left of the lease, both are rushPart, and not
	// only when a peer says so: the API may answer the holder an eighth of a lease
	// after it answers the others, which is at 0.81 when they were about to say "not
	// reached". Whatever answers within rushPart after that keeps the address.
	lastPart, rushPart = 0.3, 0.04
	// An expired record is taken only by who has read it, or its like, this short a
	// while before; longer than a call, and asked for half of it ahead.
	freshPart = 0.3
)

func part(d time.Duration, of float64) time.Duration { return time.Duration(float64(d) * of) }

// reached notes that the API worked at the given time.
func (m *Machine) reached(now, at time.Duration) {
	m.failed = 0
	c := &m.contact
	if at <= c.last {
		return
	}
	if !m.inContact(now) {
		c.ok, c.since = true, now
	}
	c.last = at
}

// inContact says that the API is reached, as far as is known.
func (m *Machine) inContact(now time.Duration) bool {
	return m.contact.ok && now-m.contact.last <= part(m.span(), gapPart)
}

// look reads the record when it has to be known, or when the API has not been
// heard of for a while.
func (m *Machine) look(now time.Duration) {
	if m.reading.busy || m.stopped {
		return
	}
	at := future
	switch {
	case !m.known, m.dirty:
		at = now
	case m.held:
	case !m.contact.ok, m.contact.trouble != never:
		at = now
	default:
		at = m.contact.last + part(m.span(), checkPart)
		if ahead := m.expires - part(m.span(), freshPart/2); m.contact.last < ahead {
			at = min(at, max(now, ahead))
		}
	}
	if at == future {
		return
	}
	if at = max(at, m.readAt); at > now {
		m.wake(at)
		return
	}
	m.read(now)
}

func (m *Machine) read(now time.Duration) {
	m.reading = call{id: m.number(), sent: now, busy: true}
	if m.contact.trouble == never {
		m.contact.trouble = now
	}
	m.do(Action{Do: Read, ID: m.reading.id, Timeout: part(m.cfg.Duration, callPart)})
}

func (m *Machine) hasRead(now time.Duration, outcome Outcome, seen Seen) {
	if outcome != Done {
		m.readAt = now + m.pause()
		return
	}
	m.reached(now, m.reading.sent)
	m.contact.trouble = never
	// An old version in an answer of the quorum to a question that came after a
	// newer one was seen: etcd was restored from a backup.
	if !m.known || seen.Version > m.seen.Version || m.reading.sent >= m.seenAt {
		m.accept(now, seen)
	}
	m.readAt = now
}

// pause after a failure.
func (m *Machine) pause() time.Duration {
	m.failed++
	if m.failed > 2 {
		return part(m.cfg.Duration, retryMaxPart)
	}
	return part(m.cfg.Duration, retryPart)
}

// accept takes seen for what the API has.
func (m *Machine) accept(now time.Duration, seen Seen) {
	changed := !m.known || seen.Version != m.seen.Version
	if changed && (!m.known || seen.Record.Mark != m.seen.Record.Mark || (seen.Version == 0) != (m.seen.Version == 0)) {
		m.since = now
	}
	m.seen, m.known, m.dirty, m.seenAt, m.top = seen, true, false, now, max(m.top, seen.Record.Turn)
	m.settle(now)
	m.recount()
	if !m.held || seen.Version == 0 || m.leaving.sent {
		return
	}
	r := &seen.Record
	if mine := r.Holder == m.cfg.Self && r.Mark.Incarnation == m.cfg.Incarnation; !mine && !r.Fresh {
		m.release(now, CauseSuperseded)
	}
}

// settle ends the doubt about writes to other versions than the one in force:
// they are done, which their mark says, or never will be.
func (m *Machine) settle(now time.Duration) {
	open := m.pending[:0]
	for _, p := range m.pending {
		switch {
		case p.mark == m.seen.Record.Mark && m.seen.Version != 0:
			m.done(now, p)
		case p.base == m.seen.Version:
			open = append(open, p)
		}
	}
	if m.pending = open; len(open) == 0 {
		m.offered = nil
	}
}

// done notes that a write of this peer is the record.
func (m *Machine) done(now time.Duration, p pending) {
	switch p.kind {
	case give:
		m.leaving.done = true
	case claim:
		until := p.sent + m.cfg.term()
		if until <= now || m.leaving.sent || m.stopped {
			return
		}
		m.turn, m.confirmed = m.seen.Record.Turn, max(m.confirmed, p.sent)
		if !m.held {
			m.hold(until, cmp.Or(p.cause, CauseFound))
		} else {
			m.extend(until)
		}
	}
}

package lease

import (
	"slices"
	"time"
)

// hold begins.
func (m *Machine) hold(until time.Duration, cause Cause) {
	m.held, m.announced, m.deadline = true, false, until
	m.do(Action{Do: Hold, Until: until, Cause: cause})
}

// extend moves the deadline of who holds, never back.
func (m *Machine) extend(until time.Duration) {
	if until > m.deadline {
		m.deadline = until
		m.do(Action{Do: Hold, Until: until})
	}
}

func (m *Machine) release(now time.Duration, cause Cause) {
	m.held, m.announced = false, false
	m.do(Action{Do: Release, Cause: cause})
	if m.leaving.sent {
		m.abstains = now + 2*m.span()
	}
}

// expire lets go at the deadline, whatever else is going on.
func (m *Machine) expire(now time.Duration) {
	if !m.held || now < m.deadline {
		return
	}
	m.release(now, m.why(now))
}

// why the deadline was not moved.
func (m *Machine) why(now time.Duration) Cause {
	switch {
	case m.leaving.sent:
		return CauseLingered
	case now-m.deadline > m.cfg.Margin:
		return CauseFrozen
	case m.cfg.Policy == Drop:
		return CauseDeadline
	}
	cause := CauseDeadline
	for i := range m.peers {
		switch p := &m.peers[i]; {
		case p.unreached+m.cfg.term() > m.deadline:
		case p.heard < m.confirmed+m.cfg.Renew:
			cause = CauseUnheard
		case p.reaches():
			return CauseReached
		}
	}
	return cause
}

// keep extends on the word of all peers that the record names, or may name. Each
// has promised not to take an expired record for a whole lease from when it
// answered, so from when it was asked.
func (m *Machine) keep(now time.Duration) {
	if !m.held || m.cfg.Policy != Keep || m.leaving.sent {
		return
	}
	oldest := now
	for i := range m.peers {
		oldest = min(oldest, m.peers[i].unreached)
	}
	if oldest == never {
		return
	}
	if len(m.peers) == 0 {
		// Nobody else may take it. Half a term apart, to spare the actor.
		half := m.cfg.term() / 2
		if m.deadline-now > half {
			m.wake(m.deadline - half)
			return
		}
	}
	m.extend(oldest + m.cfg.term())
}

// renew writes the record when it is due.
func (m *Machine) renew(now time.Duration) {
	m.rush(now)
	if !m.held || m.leaving.sent || m.writing.busy || m.dirty {
		return
	}
	if m.writeAt > now {
		m.wake(m.writeAt)
		return
	}
	r := m.mine()
	if m.seen.Record.Holder != m.cfg.Self {
		r.Turn = m.top + 1 // it was deleted
	}
	m.write(now, claim, r, "")
}

// mine is the record that says that this peer holds the address, in the same turn.
func (m *Machine) mine() Record {
	r := m.seen.Record
	r.Holder, r.Given, r.Fresh = m.cfg.Self, false, false
	r.Duration = m.cfg.Duration
	if m.held {
		// Only who holds the address decides who may hold it: a challenger's list
		// may be old, and whom it adds nobody asks.
		r.Peers = m.cfg.Peers
	}
	if m.seen.Version == 0 {
		r.Key = m.cfg.FreshKey
	}
	return r
}

// write sends a record to take the place of what was seen.
func (m *Machine) write(now time.Duration, k kind, r Record, cause Cause) {
	id := m.number()
	r.Mark = Mark{Incarnation: m.cfg.Incarnation, Serial: id}
	if len(m.pending) >= maxPending {
		m.pending = slices.Delete(m.pending, 0, 1)
	}
	m.pending = append(m.pending, pending{kind: k, id: id, base: m.seen.Version, mark: r.Mark, sent: now, cause: cause})
	if !samePeers(r.Peers, m.seen.Record.Peers) {
		m.offer(r.Peers)
	}
	m.writing = call{id: id, sent: now, busy: true}
	m.do(Action{Do: Write, ID: id, Record: r, Version: m.seen.Version, Timeout: part(m.cfg.Duration, callPart)})
}

// hasten asks again at once: a peer says that the API works, and the last call has
// failed, or is stuck as one on a dead connection is.
func (m *Machine) hasten(now time.Duration) {
	if !m.held || m.leaving.on {
		return
	}
	stuck := now - part(m.cfg.Duration, stuckPart)
	if m.writing.busy && m.writing.sent <= stuck {
		m.writing.busy = false
		m.writeAt = now
	}
	if m.reading.busy && m.reading.sent <= stuck {
		m.reading.busy = false
		m.readAt = now
	}
	if !m.writing.busy && m.failed > 0 {
		m.writeAt = min(m.writeAt, max(now, m.writing.sent+part(m.cfg.Duration, hastePart)))
	}
}

// rush repeats calls that are open although a peer reaches the API, or that have
// failed, when little is left of the lease.
func (m *Machine) rush(now time.Duration) {
	if !m.held || m.leaving.on || !m.elsewhere() {
		return
	}
	if from := m.deadline - part(m.cfg.Duration, lastPart); now < from {
		m.wake(from)
		return
	}
	again := part(m.cfg.Duration, rushPart)
	for _, c := range [2]struct {
		call *call
		at   *time.Duration
	}{{&m.writing, &m.writeAt}, {&m.reading, &m.readAt}} {
		if at := c.call.sent + again; now < at {
			m.wake(at)
		} else {
			c.call.busy = false
			*c.at = min(*c.at, now)
		}
	}
}

// elsewhere says that a peer reaches the API while this holder does not.
func (m *Machine) elsewhere() bool {
	for i := range m.peers {
		if p := &m.peers[i]; p.reaches() && p.heard >= m.confirmed+m.cfg.Renew {
			return true
		}
	}
	return false
}

// maxPending bounds what is remembered of an outage: of older writes an answer
// would be worth nothing any more.
const maxPending = 16

func (m *Machine) hasWritten(now, sent time.Duration, id uint64, outcome Outcome, seen Seen) {
	switch outcome {
	case Done:
		m.reached(now, sent)
		if seen.Version > m.seen.Version {
			m.accept(now, seen)
		}
		m.writeAt = sent + m.cfg.Renew
	case Conflict:
		m.reached(now, sent)
		m.pending = slices.DeleteFunc(m.pending, func(p pending) bool { return p.id == id })
		m.dirty, m.readAt, m.writeAt = true, now, now
	case Failed:
		m.writeAt = now + m.pause()
	}
}

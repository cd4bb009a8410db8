package lease

import "time"

// yielded is what a holder that does not reach the API has told this peer: it
// stops, and will not hold by anything that it wrote before. Serials of one
// incarnation only grow, so that is every mark up to that of the message.
type yielded struct {
	holder string
	mark   Mark
}

func (y *yielded) covers(r *Record) bool {
	return r.Holder == y.holder && r.Mark.Incarnation == y.mark.Incarnation && r.Mark.Serial <= y.mark.Serial && r.Holder != ""
}

// challenge takes the record when it may be taken.
func (m *Machine) challenge(now time.Duration) {
	if m.held || m.writing.busy || m.dirty || !m.known || m.stopped || m.leaving.on {
		return
	}
	cause, at := m.opportunity(now)
	if at == future {
		return
	}
	if at = max(at, m.writeAt, m.abstains); cause == CauseExpired {
		m.expires = at
	}
	if at > now {
		m.wake(at)
		return
	}
	if cause == CauseExpired && m.contact.last < now-part(m.span(), freshPart) {
		return // look reads
	}
	if m.seen.Version == 0 {
		m.create(now)
		return
	}
	r := m.mine()
	r.Turn++
	m.write(now, claim, r, cause)
}

// opportunity is when the record may be taken if it stays as it is.
func (m *Machine) opportunity(now time.Duration) (Cause, time.Duration) {
	r := &m.seen.Record
	named := r.Names(m.cfg.Self)
	switch {
	case m.seen.Version == 0:
		if m.fit() && m.inContact(now) {
			return "", now
		}
	case !named:
	case r.Given && r.Holder == m.cfg.Self:
		// Also when it is not ready any more: it may give it on.
		return CauseGiven, now
	case m.yielded.covers(r):
		return CauseYielded, now
	case !m.fit():
	case r.free():
		return CauseFree, now
	case r.Holder == m.cfg.Self && r.Mark.Incarnation == m.cfg.Incarnation && !r.Given:
		// Nobody has taken it since this process let go.
		return CauseFound, now
	case m.inContact(now):
		span := m.span()
		return CauseExpired, max(m.since+span, m.contact.since+span, m.promised)
	}
	return "", future
}

// create makes a record that nobody holds. It is waited for like a holder: who
// held it when somebody deleted it does not know yet.
func (m *Machine) create(now time.Duration) {
	m.write(now, create, Record{
		Fresh: true, Turn: m.top, Duration: m.cfg.Duration, Peers: m.cfg.Peers, Key: m.cfg.FreshKey,
	}, "")
}

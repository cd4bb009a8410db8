package vrrp

import (
	"net/netip"
	"time"
)

// receiveActive is the receipt of an advert in Active (RFC 9568 section 6.4.3).
func (m *Machine) receiveActive(now time.Duration, a *Advert, src netip.Addr) {
	if m.cfg.Owner && a.Priority == ownerPriority {
		// Section 7.1 has an owner discard every advert. Two of them would
		// then be two holders for ever, so they settle it like equals.
		m.emit(Note{Kind: NoteOwner, From: src})
	}
	switch {
	case a.Priority == 0:
		// Send an advert, reset the Adver_Timer to Advertisement_Interval.
		// It has announced the addresses as its own a while ago: again.
		m.advertise(now)
		m.emit(Announce{CauseResigned})
	case m.beats(a, src):
		// Cancel the Adver_Timer, learn the interval, set the
		// Active_Down_Timer to Active_Down_Interval, transition to Backup.
		m.emit(Note{Kind: NoteSuperior, From: src})
		m.follow(now, a, src, Backup, CauseSuperior)
	default:
		// Discard, and send an advert at once to assert the Active state. The
		// Adver_Timer is left alone, unless one was just sent: it may be the very
		// one that this answers, of a holder whose priority has fallen since, and
		// waiting a whole interval would leave the two side by side for it.
		m.emit(Note{Kind: NoteInferior, From: src})
		if at := m.sent + assertGap(m.cfg.Interval); now >= at {
			m.send(now, m.priority)
		} else if at < m.timer {
			m.arm(at)
		}
		// It has told the clients to talk to it, and they believe the last
		// who spoke.
		m.emit(Announce{CauseInferior})
	}
}

// follow leaves the addresses to a holder that has been heard.
func (m *Machine) follow(now time.Duration, a *Advert, src netip.Addr, after State, cause Cause) {
	m.become(after, cause)
	if after != Backup {
		return
	}
	m.backup.interval, m.backup.cause = a.Interval, CauseSilence
	m.note(now, a, src)
	m.listen(now, down(m.cfg.Version, m.priority, a.Interval))
}

// expireActive is the firing of the Adver_Timer (RFC 9568 section 6.4.3):
// send an advert, reset the Adver_Timer to Advertisement_Interval.
func (m *Machine) expireActive(now time.Duration) { m.advertise(now) }

// advertise sends an advert and sets the Adver_Timer. It counts from where
// the timer stood, so that a shell that is always a little late keeps the
// promised rate, but never from the past.
func (m *Machine) advertise(now time.Duration) {
	m.send(now, m.priority)
	next := now + m.cfg.Interval
	if m.armed && now-m.timer >= 0 && now-m.timer < m.cfg.Interval/2 {
		next = m.timer + m.cfg.Interval
	}
	m.arm(next)
}

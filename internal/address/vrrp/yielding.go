package vrrp

import (
	"net/netip"
	"time"
)

// resignation is how a holder goes.
type resignation struct {
	until time.Duration
	after State // Backup or Initialize
	cause Cause
	// unclaimed says that the bound has passed and the Group is to decide.
	unclaimed bool
}

// resign is the Shutdown event in Active (RFC 9568 section 6.4.3: cancel the
// Adver_Timer, send an advert with priority 0), except that the addresses are
// answered until somebody else does. Those who hear it wait Skew_Time, so the
// address would be gone for up to an interval.
func (m *Machine) resign(now time.Duration, after State, cause Cause) {
	m.yielding = resignation{until: now + m.cfg.linger(), after: after, cause: cause}
	m.become(Yielding, cause)
	m.retire(now)
}

// retire says once more that we go, and sets the time to say it again: that
// advert may be lost. One interval apart, since a backup that counts anew
// each time it hears it (as the RFC has it) counts at most one interval.
func (m *Machine) retire(now time.Duration) {
	m.send(now, 0)
	m.arm(min(now+m.cfg.Interval, m.yielding.until))
}

// receiveYielding: whoever advertises holds the addresses, good or bad. Of
// two that yield at once, left over from a partition, the higher address goes
// on.
func (m *Machine) receiveYielding(now time.Duration, a *Advert, src netip.Addr) {
	released := m.yielding.cause == CauseRelease
	if a.Priority == 0 {
		if !m.cfg.Address.Less(src) {
			return
		}
		m.become(m.yielding.after, CauseSuperior)
		if m.state == Backup {
			m.backup.released = released
			m.listen(now, down(m.cfg.Version, m.priority, a.Interval))
		}
		return
	}
	m.backup.released = m.backup.released || released
	m.follow(now, a, src, m.yielding.after, CauseHandedOver)
}

// expireYielding says it again, or comes to the end of Config.Linger.
func (m *Machine) expireYielding(now time.Duration) {
	y := &m.yielding
	switch {
	case now < y.until:
		m.retire(now)
	case y.after == Initialize:
		m.become(Initialize, CauseLinger)
	case m.grouped:
		y.unclaimed, m.armed = true, false
	case y.cause == CauseRelease:
		m.resume(now)
	default:
		m.leave(now)
	}
}

// resume goes on as before: nobody wanted the addresses.
func (m *Machine) resume(now time.Duration) {
	m.become(Active, CauseUnclaimed)
	m.emit(Announce{CauseUnclaimed})
	m.advertise(now)
}

// leave gives the addresses up although no successor was heard.
func (m *Machine) leave(now time.Duration) {
	m.become(Backup, CauseLinger)
	m.listen(now, down(m.cfg.Version, m.priority, m.cfg.Interval))
}

package vrrp

import "time"

// startup is the Startup event in Initialize (RFC 9568 section 6.4.1). delay
// is for how long nothing is taken over whatever is heard.
func (m *Machine) startup(now time.Duration, cause Cause, delay time.Duration) {
	m.backup = listener{interval: m.cfg.Interval, notBefore: now + delay}
	m.become(Backup, cause)
	if m.cfg.Owner {
		// Priority 255: send an advert, announce, transition to Active.
		m.backup.cause = CauseOwner
		m.arm(now + delay)
		if delay == 0 {
			m.want(now)
		}
		return
	}
	// Else Active_Adver_Interval is our own interval until one is heard,
	// Active_Down_Timer is Active_Down_Interval, transition to Backup.
	m.listen(now, down(m.cfg.Version, m.priority, m.cfg.Interval))
}

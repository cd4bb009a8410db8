package vrrp

import (
	"net/netip"
	"time"
)

// listener is what a backup knows about the holder.
type listener struct {
	// interval is Active_Adver_Interval: what the holder promises.
	interval time.Duration
	// notBefore is the end of Config.StartDelay.
	notBefore time.Duration
	holder    holder
	// settled is from when adverts are news. What waited in the socket of a
	// process that stood still is a part of the past, maybe of several lives of
	// the holder: it shows that somebody was there, and no more.
	settled time.Duration
	// inferior is since when the holder has been of lower priority than we,
	// once heard so; PreemptDelay counts from there.
	inferior time.Duration
	heard    bool // inferior is set
	// due is when a holder that is heard may be preempted, once set: the
	// Active_Down_Timer as the RFC leaves it running.
	due   time.Duration
	isDue bool
	// cause is why the timer will have run out.
	cause Cause
	// wants says that the timer has run out and the Group has not let us yet.
	wants bool
	// released lasts until we hold the addresses again: what was handed over
	// by hand is not taken back.
	released bool
}

// holder is the best router that was heard of late.
type holder struct {
	src  netip.Addr
	at   time.Duration
	last uint8 // its latest priority
	peak uint8 // its highest since it holds the addresses
}

// reset forgets what a former life as a backup has heard.
func (l *listener) reset() {
	*l = listener{interval: l.interval, notBefore: l.notBefore, settled: l.settled, released: l.released}
}

// listen sets the Active_Down_Timer.
func (m *Machine) listen(now, d time.Duration) {
	m.backup.wants = false
	m.arm(max(now+d, m.backup.notBefore))
}

// receiveBackup is the receipt of an advert in Backup (RFC 9568 section 6.4.2).
func (m *Machine) receiveBackup(now time.Duration, a *Advert, src netip.Addr) {
	l := &m.backup
	if a.Priority == 0 {
		m.holderResigns(now, src)
		return
	}
	m.note(now, a, src)
	cause := m.mayPreempt(now, a, src)
	if cause == "" {
		// Preempt_Mode is false, or the priority is at least ours: learn the
		// interval, set the Active_Down_Timer to Active_Down_Interval.
		l.isDue = false
		m.heardHolder(now, a)
		return
	}
	m.preempt(now, a, cause)
}

// heardHolder sets the timer by the interval that the holder promises.
func (m *Machine) heardHolder(now time.Duration, a *Advert) {
	l := &m.backup
	l.interval, l.cause = a.Interval, CauseSilence
	m.listen(now, down(m.cfg.Version, m.priority, a.Interval))
}

// preempt is an advert that is to be discarded: Preempt_Mode is true and the
// priority is lower. In the RFC the timer runs out in at most three intervals,
// wherever the holder is just then; here it is relieved upon the first advert
// after that. So it is there to hear of it, and two holders do not stand side
// by side until the dead-man of one that was frozen runs out.
func (m *Machine) preempt(now time.Duration, a *Advert, cause Cause) {
	l := &m.backup
	if l.wants && l.cause != CauseSilence {
		l.cause = cause
		return // the rest of the group is not ready
	}
	if !l.isDue {
		l.isDue, l.due = true, m.timer
	}
	m.heardHolder(now, a)
	if now >= l.due && now >= l.settled {
		l.cause = cause
		m.arm(max(now+m.skewOf(m.priority)/preemptSkew, l.notBefore))
	}
}

// reweigh is a change of our own priority: the Active_Down_Timer goes on from
// where it was set, but a preemption that may have lost its reason waits for
// the holder to be heard again.
func (m *Machine) reweigh(now time.Duration, was uint8) {
	l := &m.backup
	l.isDue, l.heard = l.isDue && m.priority > was, l.heard && m.priority > was
	switch {
	case m.priority < was && (l.cause == CausePreempt || l.cause == CauseRelieve):
		l.cause = CauseSilence
		m.listen(now, down(m.cfg.Version, m.priority, l.interval))
	case m.armed:
		m.arm(max(m.timer+m.skewOf(m.priority)-m.skewOf(was), l.notBefore))
	}
}

// holderResigns is priority 0 in Backup: set the Active_Down_Timer to
// Skew_Time. Not by one whom we do not follow: somebody else holds the addresses,
// as long as no more than one of its adverts is missing. Not when it may have
// been said long ago. And never later than it stood: a holder that says it again
// does not put off its successor.
func (m *Machine) holderResigns(now time.Duration, src netip.Addr) {
	l := &m.backup
	at := now
	switch {
	case now < l.settled:
		m.emit(Note{Kind: NoteResigner, From: src})
		return
	case l.holder.src.IsValid() && l.holder.src != src:
		m.emit(Note{Kind: NoteResigner, From: src})
		at = max(now, l.holder.at+2*l.interval)
	default:
		l.holder = holder{}
	}
	if at += m.skewOf(m.priority); !l.wants && at < m.timer {
		l.cause = CauseResigned
		m.arm(max(at, l.notBefore))
	}
}

// note remembers who holds the addresses. Of two that hold them at once the
// better one is followed, as long as no more than one of its adverts is
// missing.
func (m *Machine) note(now time.Duration, a *Advert, src netip.Addr) {
	h, interval := &m.backup.holder, m.backup.interval
	heard := holder{src: src, at: now, last: a.Priority, peak: a.Priority}
	switch current := h.src.IsValid() && now-h.at < 2*interval; {
	case src == h.src && now-h.at < lapse(interval) && h.at >= m.backup.settled:
		heard.peak = max(h.peak, a.Priority)
	case current && src != h.src && (a.Priority < h.last || a.Priority == h.last && src.Less(h.src)):
		return
	}
	*h = heard
}

// mayPreempt returns why the sender of an advert may be relieved of the
// addresses, or "" if it may not.
func (m *Machine) mayPreempt(now time.Duration, a *Advert, src netip.Addr) Cause {
	l := &m.backup
	if a.Priority >= m.priority {
		l.heard = false
		return ""
	}
	if !l.heard {
		l.heard, l.inferior = true, now
	}
	switch {
	case l.released:
		return ""
	case !m.cfg.Stay && src == l.holder.src && a.Priority < l.holder.peak:
		return CauseRelieve
	case m.cfg.Preempt && now-l.inferior >= m.cfg.PreemptDelay:
		return CausePreempt
	}
	return ""
}

// doubt is a backup that was not called in time. A machine that stood still
// lost what arrived, so it listens as long as one that starts: a holder that
// was frozen meanwhile is silenced by its dead-man within that time, too. A
// machine that stands still again and again does not take over, and had
// better not.
func (m *Machine) doubt(now, idle time.Duration) {
	m.emit(Note{Kind: NoteLate, Late: idle})
	m.listen(now, down(m.cfg.Version, m.priority, m.backup.interval))
	m.backup.cause, m.backup.settled = CauseSilence, now+m.backup.interval
}

// expireBackup is the firing of the Active_Down_Timer (RFC 9568 section 6.4.2).
func (m *Machine) expireBackup(now time.Duration) { m.want(now) }

// want takes over, or tells the Group that we could.
func (m *Machine) want(now time.Duration) {
	if m.grouped {
		m.backup.wants, m.armed = true, false
		return
	}
	m.take(now)
}

// take makes us active. The RFC has the advert first; here it comes last,
// because the old holder stops answering when it hears it.
func (m *Machine) take(now time.Duration) {
	cause := m.backup.cause
	if cause == "" {
		cause = CauseSilence
	}
	m.backup.released = false
	m.become(Active, cause)
	m.emit(Announce{cause})
	m.advertise(now)
}

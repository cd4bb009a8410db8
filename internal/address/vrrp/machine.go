package vrrp

import (
	"net/netip"
	"slices"
	"time"
)

// Machine is one virtual router on this machine. It is pure: time comes in as
// now, a duration on one monotonic clock that never goes back; what to do
// comes out as actions. It is not safe for use by several goroutines.
//
// The shell calls Tick when Next says so, and before that Receive with every
// advert that has arrived meanwhile: what waits in a socket was said in time.
//
// The slice of actions is valid until the next call.
type Machine struct {
	cfg      Config
	state    State
	priority uint8
	running  bool // between Start and Stop
	faulted  bool

	// timer is what Next returns while armed: Active_Down_Timer in Backup,
	// Adver_Timer in Active, the next sign of resignation in Yielding.
	timer time.Duration
	armed bool
	// sent is when the last advert went out: lapse(Interval) later we hold
	// nothing any more.
	sent time.Duration
	// called is when the machine was last called, so that it notices that it
	// was not; see awake.
	called time.Duration

	backup   listener
	yielding resignation

	grouped bool // the Group decides when we take over; see wants
	out     []Action
}

// New returns a machine in Initialize. The configuration must be valid.
func New(cfg Config) *Machine {
	cfg.Addresses = slices.Clone(cfg.Addresses)
	cfg.Address = cfg.Address.WithZone("")
	return &Machine{cfg: cfg, priority: cfg.Priority}
}

// State returns the state.
func (m *Machine) State() State { return m.state }

// Priority returns the priority in force; see SetPriority.
func (m *Machine) Priority() uint8 { return m.priority }

// Holder returns the router that was last heard to hold the addresses, while
// this one is Backup; else an invalid address.
func (m *Machine) Holder() netip.Addr {
	if m.state != Backup {
		return netip.Addr{}
	}
	return m.backup.holder.src
}

// Next returns when to call Tick, if nothing else happens. Who has to notice that
// it did not run wants it twice an interval even when nothing is due.
func (m *Machine) Next() (at time.Duration, ok bool) {
	at, ok = m.timer, m.armed
	var check time.Duration
	switch m.state {
	case Backup:
		check = m.called + pulse(m.backup.interval)
	case Yielding:
		check = m.called + pulse(m.cfg.Interval)
	default:
		return at, ok
	}
	if !ok || check < at {
		at, ok = check, true
	}
	return at, ok
}

// Advert returns what a Send of this priority carries. It shares the
// configuration's list of addresses.
func (m *Machine) Advert(priority uint8) Advert {
	return Advert{
		Version: m.cfg.Version, VRID: m.cfg.VRID, Priority: priority, Interval: m.cfg.Interval,
		Addresses: m.cfg.Addresses, PlainChecksum: m.cfg.PlainChecksum,
	}
}

// SetAddress tells our primary address, which decides between equals.
func (m *Machine) SetAddress(a netip.Addr) { m.cfg.Address = a.WithZone("") }

// Start begins: RFC 9568 section 6.4.1.
func (m *Machine) Start(now time.Duration) []Action {
	m.out = m.out[:0]
	m.running = true
	m.called = now
	if m.state == Initialize && !m.faulted {
		m.startup(now, CauseStart, m.cfg.StartDelay)
	}
	return m.out
}

// Receive hands over an advert that Parse and CheckTTL found sound.
func (m *Machine) Receive(now time.Duration, a Advert, src netip.Addr) []Action {
	m.out = m.out[:0]
	src = src.Unmap().WithZone("")
	m.awake(now)
	if m.state == Initialize || !m.concerns(&a, src) {
		return m.out
	}
	switch m.state {
	case Backup:
		m.receiveBackup(now, &a, src)
	case Active:
		m.receiveActive(now, &a, src)
	case Yielding:
		m.receiveYielding(now, &a, src)
	}
	return m.out
}

// Tick does what is due.
func (m *Machine) Tick(now time.Duration) []Action {
	m.out = m.out[:0]
	m.awake(now)
	if !m.armed || now < m.timer {
		return m.out
	}
	switch m.state {
	case Backup:
		m.expireBackup(now)
	case Active:
		m.expireActive(now)
	case Yielding:
		m.expireYielding(now)
	}
	return m.out
}

// SetPriority changes the priority, as the weight of a health check does; 0
// and 255 become 1 and 254. An owner's stays 255.
func (m *Machine) SetPriority(now time.Duration, p uint8) []Action {
	m.out = m.out[:0]
	m.awake(now)
	if p = max(1, min(p, ownerPriority-1)); m.cfg.Owner || p == m.priority {
		return m.out
	}
	was := m.priority
	m.priority = p
	switch m.state {
	case Backup:
		m.reweigh(now, was)
	case Active:
		m.advertise(now) // the backups ought to know at once
	}
	return m.out
}

// Fault says that this machine cannot serve the addresses, or can again. It
// gives them up without lingering: there is nothing to answer with.
func (m *Machine) Fault(now time.Duration, fault bool) []Action {
	m.out = m.out[:0]
	m.awake(now)
	was := m.faulted
	m.faulted = fault
	switch {
	case fault && m.state != Initialize:
		m.quit(now, CauseFault)
	case was && !fault && m.running && m.state == Initialize:
		m.startup(now, CauseRecovered, 0)
	}
	return m.out
}

// Release hands the addresses over and stays as a backup that does not
// preempt the successor. If nobody takes them within Config.Linger, they stay
// here: nothing is gained by an address that nobody holds.
func (m *Machine) Release(now time.Duration) []Action {
	m.out = m.out[:0]
	m.awake(now)
	if m.state == Active {
		m.resign(now, Backup, CauseRelease)
	}
	return m.out
}

// Stop hands the addresses over and ends in Initialize, where Next has
// nothing more to say.
func (m *Machine) Stop(now time.Duration) []Action {
	m.out = m.out[:0]
	m.awake(now)
	m.running = false
	switch m.state {
	case Backup:
		// RFC 9568 section 6.4.2, shutdown: cancel the Active_Down_Timer,
		// transition to Initialize.
		m.become(Initialize, CauseStop)
	case Active:
		m.resign(now, Initialize, CauseStop)
	case Yielding:
		m.yielding.after = Initialize // the bound stays
	}
	return m.out
}

// awake is the first thing in every call: has this process been running? A
// machine that stood still lost what arrived, so the time until now says
// nothing about the others.
func (m *Machine) awake(now time.Duration) {
	idle := now - m.called
	m.called = now
	switch m.state {
	case Active:
		if now-m.sent >= lapse(m.cfg.Interval) {
			m.expelled(now)
		}
	case Yielding:
		// Nobody waits for three adverts of one that has resigned: a successor
		// that was not heard may hold the addresses since long, and may be the
		// next that stands still.
		if now-m.sent >= lapse(m.cfg.Interval) || idle > patience(m.cfg.Interval) {
			m.expelled(now)
		}
	case Backup:
		if idle > patience(m.backup.interval) {
			m.doubt(now, idle)
		}
	}
}

// expelled is a holder that has not run for three adverts. It holds nothing
// any more, whatever it remembers: its kernel has fallen silent, and somebody
// else may have taken over, whom an advert of ours would unseat.
func (m *Machine) expelled(now time.Duration) {
	m.emit(Note{Kind: NoteLapsed, Late: now - m.sent})
	after := Backup
	if m.state == Yielding {
		after = m.yielding.after
	}
	m.become(after, CauseLapsed)
	if after == Backup {
		m.backup.settled = now + m.cfg.Interval
		// Whoever holds them now may be slower than we are.
		m.listen(now, down(m.cfg.Version, m.priority, max(m.cfg.Interval, m.backup.interval)))
	}
}

// quit is a shutdown without lingering (RFC 9568 sections 6.4.2 and 6.4.3).
func (m *Machine) quit(now time.Duration, cause Cause) {
	if m.state == Active {
		m.send(now, 0)
	}
	m.become(Initialize, cause)
}

// become changes the state; the caller arms what the new one waits for.
func (m *Machine) become(s State, cause Cause) {
	m.state, m.armed = s, false
	if s != Yielding {
		m.backup.reset()
	}
	m.emit(Become{s, cause})
}

func (m *Machine) arm(at time.Duration) { m.timer, m.armed = at, true }

func (m *Machine) send(now time.Duration, priority uint8) {
	m.sent = now
	m.emit(Send{priority})
}

func (m *Machine) emit(a Action) { m.out = append(m.out, a) }

// skewOf is Skew_Time by the interval of the router that we follow.
func (m *Machine) skewOf(priority uint8) time.Duration {
	return skew(m.cfg.Version, priority, m.backup.interval)
}

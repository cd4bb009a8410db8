package lease

import (
	"math"
	"slices"
	"time"
)

const (
	// Far enough that a sum with any lease does not overflow.
	never  = time.Duration(math.MinInt64 / 2)
	future = time.Duration(math.MaxInt64 / 2)
)

// Machine decides for one peer and one address. It is pure: time comes in as
// now, since any origin of one monotonic clock that does not stop while the
// machine sleeps, and what is to be done goes out as actions. The actions are
// valid until the next call.
type Machine struct {
	cfg     Config
	actions []Action
	next    time.Duration
	serial  uint64 // of the last call, mark or nonce

	// What the API showed.
	seen   Seen
	known  bool          // seen is something
	dirty  bool          // seen must be read again before it is written
	since  time.Duration // the record's mark was first seen then
	seenAt time.Duration // seen was accepted then

	reading, writing call
	readAt, writeAt  time.Duration // not before
	failed           int           // calls in a row
	pending          []pending
	offered          []Peer // of pending writes, which may yet become the record's
	contact          contact
	// promised: no taking of an expired record before, for a holder was told that
	// this peer does not reach the API.
	promised time.Duration
	expires  time.Duration // the record may be taken then; never when that is not in sight
	yielded  yielded

	ready     bool
	held      bool
	announced bool
	turn      uint64        // in which this peer holds, or held last
	top       uint64        // the highest that was seen
	deadline  time.Duration // while held: an instant at which it is over
	confirmed time.Duration // when the last write that is known to be done was sent
	leaving   leaving
	abstains  time.Duration // no taking before: the address was given away
	stopped   bool
	peers     []peer // the others that the record or a pending write names
}

// call is a request that is under way.
type call struct {
	id   uint64
	sent time.Duration
	busy bool
}

// kind is what a write is for.
type kind uint8

const (
	claim  kind = iota // to hold, or to go on holding
	give               // to another, or to nobody
	create             // the record, held by nobody
)

// pending is a write whose outcome is not known.
type pending struct {
	kind  kind
	id    uint64
	base  uint64 // the version it replaces
	mark  Mark
	sent  time.Duration
	cause Cause
}

// New returns the machine of a peer that has just started. The configuration has
// passed Check.
func New(cfg Config) *Machine {
	return &Machine{
		cfg: cfg.WithDefaults(), ready: true, next: never,
		since: never, seenAt: never, promised: never, abstains: never, readAt: never, writeAt: never, confirmed: never,
		contact: contact{last: never, trouble: never},
	}
}

// Next is when Tick is due at the latest.
func (m *Machine) Next() time.Duration { return m.next }

// Tick lets time pass.
func (m *Machine) Tick(now time.Duration) []Action {
	m.enter(now)
	return m.decide(now)
}

// News is a record that a watch shows. One that shows that the record is gone
// passes the zero Seen.
func (m *Machine) News(now time.Duration, seen Seen) []Action {
	m.enter(now)
	switch {
	case seen.Version == 0:
		// A watch does not tell when that was.
		m.dirty = m.dirty || m.known && m.seen.Version != 0
	case !m.known || seen.Version > m.seen.Version:
		m.accept(now, seen)
		m.reached(now, now)
	}
	return m.decide(now)
}

// Called is the outcome of a Read or Write. seen is what it showed, when Done.
func (m *Machine) Called(now time.Duration, id uint64, outcome Outcome, seen Seen) []Action {
	m.enter(now)
	switch {
	case m.reading.busy && m.reading.id == id:
		m.reading.busy = false
		m.hasRead(now, outcome, seen)
	case m.writing.busy && m.writing.id == id:
		m.writing.busy = false
		m.hasWritten(now, m.writing.sent, id, outcome, seen)
		m.leaving.waits = false
	case outcome == Done && seen.Version > m.seen.Version:
		m.accept(now, seen) // of a write that was given up
	}
	return m.decide(now)
}

// SetReady says whether this peer could serve the address.
func (m *Machine) SetReady(now time.Duration, ready bool) []Action {
	m.enter(now)
	m.ready = ready
	return m.decide(now)
}

// SetPeers changes who may hold the address, once this peer holds it. The peers
// have passed Config.Check.
func (m *Machine) SetPeers(now time.Duration, peers []Peer) []Action {
	m.enter(now)
	m.cfg.Peers = peers
	return m.decide(now)
}

// Until is the instant at which this peer no longer holds the address unless it
// is told otherwise; false when it does not hold it now.
func (m *Machine) Until(now time.Duration) (time.Duration, bool) {
	return m.deadline, m.held && now < m.deadline
}

// Key is what messages are signed with; nil: it is not known yet.
func (m *Machine) Key() []byte {
	if m.cfg.Key != nil || !m.known || len(m.seen.Record.Key) == 0 {
		return m.cfg.Key
	}
	return m.seen.Record.Key
}

// fit says that this peer could serve the address, and is meant to.
func (m *Machine) fit() bool { return m.ready && m.configured() }

func (m *Machine) configured() bool {
	return slices.ContainsFunc(m.cfg.Peers, func(p Peer) bool { return p.Name == m.cfg.Self })
}

// enter comes before anything that is learnt: what is over cannot be extended.
func (m *Machine) enter(now time.Duration) {
	m.actions = m.actions[:0]
	m.expire(now)
}

// decide does what is due, and finds when more will be.
func (m *Machine) decide(now time.Duration) []Action {
	m.next = future
	m.expires = never
	m.keep(now)
	m.leave(now)
	m.renew(now)
	m.challenge(now)
	m.look(now)
	m.question(now)
	if m.held {
		m.wake(m.deadline)
	}
	return m.actions
}

func (m *Machine) wake(at time.Duration) { m.next = min(m.next, at) }

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

func (m *Machine) number() uint64 {
	m.serial++
	return m.serial
}

// span is how long everybody waits: the longest of the leases that matter.
func (m *Machine) span() time.Duration {
	span := m.cfg.Duration
	if m.known {
		span = max(span, m.seen.Record.Duration)
	}
	return span
}

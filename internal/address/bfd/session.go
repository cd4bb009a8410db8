package bfd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// slowest is the shortest interval at which a session that is not Up may send,
// RFC 5880 section 6.8.3: it keeps what is spent on absent peers negligible.
const slowest = time.Second

// Timers are what one end asks for.
type Timers struct {
	// DesiredMinTx is the shortest interval at which this end wishes to send
	// while Up. What is sent is the longer of this and the peer's RequiredMinRx.
	DesiredMinTx time.Duration
	// RequiredMinRx is the shortest interval at which this end can receive.
	RequiredMinRx time.Duration
	// DetectMult is how many of this end's packets the peer has to miss in a
	// row.
	DetectMult uint8
}

// Validate returns an error of one line that names field, value and remedy.
func (t Timers) Validate() error {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"desired-min-tx", t.DesiredMinTx}, {"required-min-rx", t.RequiredMinRx}} {
		if f.d < time.Millisecond || f.d > longest {
			return fmt.Errorf("%s: %v is out of range; use 10ms to 1h (100ms is usual)", f.name, f.d)
		}
	}
	if t.DetectMult == 0 {
		return errors.New("detect-mult: 0 would never let a packet arrive in time; use 1 to 255 (3 is usual)")
	}
	return nil
}

// Action is what a session asks its shell for: a Send or a Change.
type Action interface{ action() }

// Send is a packet to be sent at once.
type Send struct{ Packet Packet }

// Change is a change of the session's state.
type Change struct {
	From, To State
	// Diag says why, RFC 5880 section 4.1; DiagNone on the way up.
	Diag Diag
	// Remote and RemoteDiag are what the peer last said of itself.
	Remote     State
	RemoteDiag Diag
	// At is on the clock of the session.
	At time.Duration
}

func (Send) action()   {}
func (Change) action() {}

// Failed says whether the path or the peer has failed. A peer that was put
// away (AdminDown) on purpose has not, nor has this end, RFC 5882 section 3.2:
// what rests on the session must go on as if there were none.
func (c Change) Failed() bool {
	return c.From == Up && c.To == Down && c.Remote != AdminDown
}

// Lost says whether the path has failed, by Failed, and for good as far as can be
// told. A peer that says down although this end has said up has begun anew, unless
// it no longer hears us, which is a reason of its own: FRR does so when its BGP
// session comes up, after which it knows the address to send from, and when its
// bfdd alone is restarted.
func (c Change) Lost() bool {
	anew := c.Diag == DiagNeighborDown && (c.RemoteDiag == DiagNone || c.RemoteDiag == DiagNeighborDown)
	return c.Failed() && !anew
}

// peer is what is known of the other end, with the names of RFC 5880 section
// 6.8.1 in comments.
type peer struct {
	// heard is false before the first packet and after a detection time
	// without one; then the rest is as newPeer has it.
	heard  bool
	at     time.Duration // when the last packet arrived
	discr  uint32        // bfd.RemoteDiscr
	state  State         // bfd.RemoteSessionState
	diag   Diag          // as last heard, kept for status
	minRx  time.Duration // bfd.RemoteMinRxInterval
	minTx  time.Duration // its Desired Min TX Interval
	mult   uint8         // its Detect Mult
	demand bool          // bfd.RemoteDemandMode
}

func newPeer() peer { return peer{state: Down, minRx: time.Microsecond} }

// Session is one end of a session, RFC 5880 section 6.8: pure, for one
// goroutine. Every time handed in is on one monotonic clock. The actions that a
// method returns are valid until the next call.
type Session struct {
	random *rand.Rand
	discr  uint32
	want   Timers
	state  State
	diag   Diag
	peer   peer

	// tx and rx are what packets say: bfd.DesiredMinTxInterval and
	// bfd.RequiredMinRxInterval.
	tx, rx time.Duration
	// txUsed and rxUsed are what is in force: a slower tx and a faster rx wait
	// until the peer has answered a Poll, so that neither end measures the
	// other by a rule that the other does not know yet, section 6.8.3.
	txUsed, rxUsed time.Duration
	poll           poll

	started bool
	sentAt  time.Duration // the last packet that was not a mere Final
	pace    time.Duration // the interval that sendAt was drawn for; 0: none
	sendAt  time.Duration
	// excused is set once a detection time was prolonged because the session
	// was asked late, until the next packet.
	excused bool

	out []Action
}

// NewSession returns a session in Down that does nothing before Start. discr is
// not 0 and unique among the sessions of this machine.
func NewSession(discr uint32, t Timers, random *rand.Rand) *Session {
	s := &Session{random: random, discr: discr, want: t, state: Down, peer: newPeer()}
	s.negotiate()
	return s
}

// Start sends the first packet at once: waiting for the slow interval would
// cost a returning node a second.
func (s *Session) Start(now time.Duration) []Action {
	s.out = s.out[:0]
	if !s.started {
		s.started = true
		s.transmit(now, false)
	}
	return s.out
}

// SetTimers changes what this end asks for; the peer learns it by a Poll.
func (s *Session) SetTimers(t Timers) []Action {
	s.out = s.out[:0]
	s.want = t
	s.negotiate()
	s.schedule()
	return s.out
}

// AdminDown holds the session down on purpose, RFC 5880 section 6.8.16, and
// tells the peer so. Whoever ends goes on until Released, or a second passes.
func (s *Session) AdminDown(now time.Duration) []Action {
	s.out = s.out[:0]
	if s.state != AdminDown {
		s.become(now, AdminDown, DiagAdminDown)
		s.tell(now)
	}
	return s.out
}

// AdminUp lets the session come up again.
func (s *Session) AdminUp(now time.Duration) []Action {
	s.out = s.out[:0]
	if s.state == AdminDown {
		s.become(now, Down, DiagNone)
		s.tell(now)
	}
	return s.out
}

// Tick does what is due at now. What has arrived until now must have been handed
// to Receive before.
func (s *Session) Tick(now time.Duration) []Action {
	s.out = s.out[:0]
	if s.peer.heard && now >= s.expiry() {
		s.expire(now)
	}
	if s.sending() && now >= s.sendAt {
		s.doubt(now)
		s.transmit(now, false)
	}
	return s.out
}

// Next is when Tick has to be called at the latest; false: not before the next
// call of another method.
func (s *Session) Next() (at time.Duration, ok bool) {
	if s.sending() {
		at, ok = s.sendAt, true
	}
	if s.peer.heard && (!ok || s.expiry() < at) {
		at, ok = s.expiry(), true
	}
	return at, ok
}

// State is the session's state.
func (s *Session) State() State { return s.state }

// Released says whether the peer knows that this end is not Up, or is not heard
// itself: nobody is left who could take the end of this session for a failure.
func (s *Session) Released() bool { return s.peer.state == Down || s.peer.state == AdminDown }

// become is the only place where the state changes.
func (s *Session) become(now time.Duration, to State, why Diag) {
	from := s.state
	s.state, s.diag = to, why
	s.negotiate()
	s.out = append(s.out, Change{From: from, To: to, Diag: why, Remote: s.peer.state, RemoteDiag: s.peer.diag, At: now})
}

// negotiate works out what packets say and what is in force after a change of
// the state or of the wanted timers, RFC 5880 section 6.8.3.
func (s *Session) negotiate() {
	tx, rx := s.want.DesiredMinTx, s.want.RequiredMinRx
	if s.state != Up {
		s.tx, s.rx, s.txUsed, s.rxUsed = max(tx, slowest), rx, max(tx, slowest), rx
		s.poll = poll{}
		return
	}
	if tx != s.tx || rx != s.rx {
		s.poll.request()
	}
	s.tx, s.rx = tx, rx
	s.txUsed, s.rxUsed = min(s.txUsed, tx), max(s.rxUsed, rx)
}

package bfd

import "time"

// Packets leave after 75 to 90 % of the interval. RFC 5880 section 6.8.7 lets
// the upper bound be 100 % where the multiplier is not 1; the tenth is kept back
// so that a packet late by a few milliseconds, after two that were lost, still
// arrives within a detection time of three.
const (
	jitterFrom = 75
	jitterTo   = 90
)

// poll is a Poll Sequence, RFC 5880 section 6.5.
type poll struct {
	active bool // scheduled packets carry the Poll bit
	sent   bool // at least one has left
	// again: values have changed since a Poll left, so that its Final says
	// nothing of them. After the Final, one packet goes without Poll, to let
	// Finals still under way arrive where nobody counts them; then resume.
	again, resume bool
}

func (p *poll) request() {
	if p.active && p.sent {
		p.again = true
		return
	}
	p.active = true
}

// final ends a Poll Sequence: what waited for the peer's answer is in force.
func (s *Session) final() {
	switch {
	case !s.poll.active || !s.poll.sent:
	case s.poll.again:
		s.poll = poll{resume: true}
	default:
		s.poll = poll{}
		s.txUsed, s.rxUsed = s.tx, s.rx
	}
}

// doubt asks a peer that is overdue for a sign of life with a packet that is
// sent anyway, see the package comment.
func (s *Session) doubt(now time.Duration) {
	if s.state == Up && s.peer.heard && now-s.peer.at > s.interval() {
		s.poll.active = true
	}
}

// sending says whether packets are due periodically, RFC 5880 section 6.8.7.
func (s *Session) sending() bool { return s.started && s.agreed() > 0 }

// agreed is the interval of this end's packets before jitter, RFC 5880 section
// 6.8.2; 0: the peer wants none.
func (s *Session) agreed() time.Duration {
	switch {
	case s.peer.minRx == 0:
		return 0
	case s.peer.demand && s.state == Up && s.peer.state == Up && !s.poll.active && !s.poll.resume:
		return 0 // section 6.6
	}
	return max(s.txUsed, s.peer.minRx)
}

// schedule draws the time of the next packet if the interval has changed: an
// interval counts from the last packet, RFC 5880 section 6.8.3, whether it has
// become shorter or longer.
func (s *Session) schedule() {
	pace := s.agreed()
	if !s.started || pace == s.pace {
		return
	}
	s.pace = pace
	s.draw()
}

func (s *Session) draw() {
	permille := 10 * jitterFrom
	permille += s.random.IntN(10*(jitterTo-jitterFrom) + 1)
	s.sendAt = s.sentAt + s.pace/1000*time.Duration(permille)
}

// transmit sends a packet that counts as a periodic one.
func (s *Session) transmit(now time.Duration, final bool) {
	s.sentAt = now
	s.send(final)
	s.pace = s.agreed()
	s.draw()
}

// tell sends a packet out of turn because its content differs, RFC 5880
// section 6.8.7: the peer must not wait for a change of state.
func (s *Session) tell(now time.Duration) {
	if s.started {
		s.transmit(now, false)
	}
}

// answer sends a Final at once, whatever the interval says. Only with a change
// of state does it stand for a periodic packet too.
func (s *Session) answer(now time.Duration, changed bool) {
	if changed {
		s.transmit(now, true)
		return
	}
	s.send(true)
}

func (s *Session) send(final bool) {
	p := Packet{
		Diag: s.diag, State: s.state, Final: final, Poll: s.poll.active && !final,
		DetectMult: s.want.DetectMult, MyDiscr: s.discr, YourDiscr: s.peer.discr,
		DesiredMinTx: s.tx, RequiredMinRx: s.rx,
	}
	s.out = append(s.out, Send{Packet: p})
	if p.Poll {
		s.poll.sent = true
	}
	if s.poll.resume && !final {
		s.poll = poll{active: true}
	}
}

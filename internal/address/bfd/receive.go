package bfd

import "time"

// Receive takes a packet that Parse, the hop limit and the addresses have let
// pass and whose discriminator is this session's or 0. It arrived at the time
// at, which is not after now; the rest of RFC 5880 section 6.8.6 is here.
func (s *Session) Receive(now, at time.Duration, p Packet) []Action {
	s.out = s.out[:0]
	if !s.started || p.YourDiscr != 0 && p.YourDiscr != s.discr {
		return s.out
	}
	if p.YourDiscr == 0 && p.State != Down && p.State != AdminDown {
		return s.out
	}
	s.learn(at, p)
	if p.Final {
		s.final()
	}
	if s.state == AdminDown {
		s.schedule() // and discard
		return s.out
	}
	// What has waited for longer than a detection time says how things were:
	// it may end a session, but brings none up.
	changed := (s.state == Up || now-at <= s.detection()) && s.step(now, p.State)
	switch {
	case p.Poll:
		s.answer(now, changed)
	case changed:
		s.tell(now)
	}
	s.schedule()
	return s.out
}

// learn keeps what the peer says of itself. Packets are handed over in the
// order of their arrival, but the clock of their stamps may have been set back.
func (s *Session) learn(at time.Duration, p Packet) {
	if s.peer.heard {
		at = max(at, s.peer.at)
	}
	s.peer = peer{
		heard: true, at: at, discr: p.MyDiscr, state: p.State, diag: p.Diag,
		minRx: p.RequiredMinRx, minTx: p.DesiredMinTx, mult: p.DetectMult, demand: p.Demand,
	}
	s.excused = false
}

// step is the state machine of RFC 5880 sections 6.2 and 6.8.6 for a packet
// whose sender is in state theirs. It says whether the state has changed.
func (s *Session) step(now time.Duration, theirs State) bool {
	before := s.state
	switch s.state {
	case Down:
		s.stepDown(now, theirs)
	case Init:
		s.stepInit(now, theirs)
	case Up:
		s.stepUp(now, theirs)
	}
	return s.state != before
}

// stepDown: the peer hears us when it says Init, and does not yet when it says
// Down. A peer that says Up speaks of a session that this end has forgotten; it
// will hear our Down and follow.
func (s *Session) stepDown(now time.Duration, theirs State) {
	switch theirs {
	case Down:
		s.become(now, Init, s.diag)
	case Init:
		s.become(now, Up, DiagNone)
	}
}

// stepInit: both directions are proven once the peer has left Down.
func (s *Session) stepInit(now time.Duration, theirs State) {
	switch theirs {
	case AdminDown:
		s.become(now, Down, DiagNeighborDown)
	case Init, Up:
		s.become(now, Up, DiagNone)
	}
}

// stepUp: a peer that says Down no longer hears us, or has started anew.
func (s *Session) stepUp(now time.Duration, theirs State) {
	if theirs == AdminDown || theirs == Down {
		s.become(now, Down, DiagNeighborDown)
	}
}

// interval is the agreed interval of the peer's packets, RFC 5880 section
// 6.8.4.
func (s *Session) interval() time.Duration { return max(s.rxUsed, s.peer.minTx) }

// detection is the detection time, RFC 5880 section 6.8.4.
func (s *Session) detection() time.Duration { return time.Duration(s.peer.mult) * s.interval() }

func (s *Session) expiry() time.Duration { return s.peer.at + s.detection() }

// expire judges a peer that has not been heard for a detection time, RFC 5880
// section 6.8.4, and forgets its discriminator, section 6.8.1.
func (s *Session) expire(now time.Duration) {
	// Whoever asks this late may be on a machine that stood still as a whole,
	// so that packets are still on their way through its kernel. One interval
	// brings one, and costs no more than the lateness did.
	if late := now - s.expiry(); late > s.interval() && !s.excused {
		s.peer.at, s.excused = now-s.detection()+s.interval(), true
		return
	}
	diag := s.peer.diag
	s.peer = newPeer()
	s.peer.diag = diag
	if s.state == Init || s.state == Up {
		s.become(now, Down, DiagDetectionExpired)
		s.tell(now)
	}
	s.schedule()
}

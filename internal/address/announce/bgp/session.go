package bgp

import (
	"math/rand/v2"
	"net/netip"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// State of a session, RFC 4271 section 8.2.2.
type State int

// The states.
const (
	Idle State = iota
	Connect
	Active
	OpenSent
	OpenConfirm
	Established
)

func (s State) String() string {
	return [...]string{"idle", "connect", "active", "open-sent", "open-confirm", "established"}[s]
}

// Line names one connection with a peer, for as long as the session lives.
type Line int

// Action is what a session asks its shell for.
type Action interface{ action() }

// Dial asks for a connection to the peer: Opened or Unreachable must follow.
// Urgent ends a try that is under way.
type Dial struct{ Urgent bool }

// Send is a message on a line.
type Send struct {
	Line    Line
	Message *packet.BGPMessage
}

// Hangup closes a line after what was sent on it. Nothing of it is heard again.
type Hangup struct{ Line Line }

// Change is a change of the session's state. Cause is set when it was lost.
type Change struct {
	From, To State
	Cause    Cause
}

// Trouble is why the session does not come up; told once until the cause is
// another one.
type Trouble struct{ Cause Cause }

func (Dial) action()    {}
func (Send) action()    {}
func (Hangup) action()  {}
func (Change) action()  {}
func (Trouble) action() {}

// patience is how long a peer that took the connection may keep its OPEN to
// itself. RFC 4271 section 8.2.2 suggests 4 minutes; a bgpd that has stopped
// for so long need not cost as much.
const patience = 10 * time.Second

// session is one peer as a pure machine: messages and times in, actions out.
// Times are since any one moment of a monotonic clock.
//
// A peer may be connected twice for a moment, when both ends dial. Each line
// then has its own state, and RFC 4271 section 6.8 says which of them stays.
type session struct {
	config   *peerConfig
	routerID netip.Addr
	random   *rand.Rand

	state   State // the furthest of all lines
	lines   map[Line]*line
	next    Line
	dialing bool
	// redial is when the peer is to be dialed next; never: not at all.
	redial  time.Duration
	backoff backoff
	// stopped says that no session is wanted.
	stopped bool
	// told is the trouble that was told last, in words.
	told   string
	routes routes
}

// never is later than any time.
const never = time.Duration(1<<63 - 1)

// line is one connection.
type line struct {
	id      Line
	inbound bool
	state   State // OpenSent and up
	local   Local
	agreed  Agreed
	since   time.Duration
	// deadline is when the peer has been silent for too long, heartbeat when it
	// is to hear of us next.
	deadline, heartbeat time.Duration
}

func newSession(c *peerConfig, routerID netip.Addr, random *rand.Rand) *session {
	return &session{
		config: c, routerID: routerID, random: random, lines: map[Line]*line{}, redial: never, stopped: true,
		routes: routes{want: map[netip.Prefix]bool{}, sent: map[netip.Prefix]bool{}},
	}
}

// start lets the session come up, RFC 4271 section 8.2.2, Idle.
func (s *session) start(now time.Duration) []Action {
	if !s.stopped {
		return nil
	}
	s.stopped, s.redial = false, now
	return s.tick(now)
}

// stop ends the session on purpose; text tells the peer why (RFC 9003).
func (s *session) stop(now time.Duration, text string) []Action {
	s.stopped = true
	actions := s.dropAll(now, packet.BGP_ERROR_CEASE, packet.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN, communication(text), Cause{Kind: Stopped})
	s.redial = never
	return append(actions, s.settle(Cause{Kind: Stopped})...)
}

// communication is text as RFC 9003 section 2 puts it.
func communication(text string) []byte {
	text = text[:min(len(text), packet.BGP_ERROR_ADMINISTRATIVE_COMMUNICATION_MAX)]
	return append([]byte{byte(len(text))}, text...)
}

// tick performs what is due.
func (s *session) tick(now time.Duration) []Action {
	var actions []Action
	for _, l := range s.ordered() {
		switch {
		case now >= l.deadline && l.state == OpenSent:
			actions = append(actions, s.lost(now, l, note(packet.BGP_ERROR_HOLD_TIMER_EXPIRED, 0, nil), Cause{Kind: Mute})...)
		case now >= l.deadline:
			// RFC 4271 section 6.5.
			actions = append(actions, s.lost(now, l, note(packet.BGP_ERROR_HOLD_TIMER_EXPIRED, 0, nil), Cause{Kind: Silent, Seconds: l.agreed.Hold})...)
		case now >= l.heartbeat:
			actions = append(actions, Send{l.id, packet.NewBGPKeepAliveMessage()})
			s.beat(now, l)
		}
	}
	if now >= s.redial && !s.dialing && !s.config.passive {
		s.redial, s.dialing = never, true
		actions = append(actions, Dial{})
	}
	return append(actions, s.settle(Cause{})...)
}

// due is when tick wants to be called next.
func (s *session) due() time.Duration {
	at := s.redial
	if s.dialing || s.config.passive {
		at = never
	}
	for _, l := range s.lines {
		at = min(at, l.deadline, l.heartbeat)
	}
	return at
}

// opened is a connection with the peer: one that was dialed, or inbound.
func (s *session) opened(now time.Duration, inbound bool, local Local) (Line, []Action) {
	if !inbound {
		s.dialing = false
	}
	s.next++
	id := s.next
	// RFC 4271 section 6.8: an established session is left alone.
	if s.stopped || s.established() != nil {
		return id, []Action{Send{id, note(packet.BGP_ERROR_CEASE, packet.BGP_ERROR_SUB_CONNECTION_REJECTED, nil)}, Hangup{id}}
	}
	var actions []Action
	for _, other := range s.ordered() {
		if other.inbound == inbound {
			// The peer, or the network, has lost the older one.
			delete(s.lines, other.id)
			actions = append(actions, Hangup{other.id})
		}
	}
	return id, append(actions, s.greet(now, id, inbound, local)...)
}

// greet sends OPEN on a new line.
func (s *session) greet(now time.Duration, id Line, inbound bool, local Local) []Action {
	m, err := opening(s.config, s.routerID)
	if err != nil {
		s.redial = now + patience
		return append([]Action{Hangup{id}}, s.settle(Cause{Kind: Malformed, Text: err.Error()})...)
	}
	s.lines[id] = &line{id: id, inbound: inbound, state: OpenSent, local: local, since: now, deadline: now + patience, heartbeat: never}
	s.redial = never
	return append([]Action{Send{id, m}}, s.settle(Cause{})...)
}

// unreachable is a dial that has failed.
func (s *session) unreachable(now time.Duration, c Cause) []Action {
	s.dialing = false
	if len(s.lines) == 0 && !s.stopped {
		s.redial = now + s.backoff.wait(c, 0, s.random)
	}
	return s.settle(c)
}

// pathDown is the failure of BFD: the peer is not there, whatever TCP still
// hopes for (RFC 5882 section 4.2). RFC 9384 has the code.
func (s *session) pathDown(now time.Duration) []Action {
	if s.established() == nil {
		return nil
	}
	const bfdDown = 10
	actions := s.dropAll(now, packet.BGP_ERROR_CEASE, bfdDown, nil, Cause{Kind: PathDown})
	return append(actions, s.settle(Cause{Kind: PathDown})...)
}

// pathUp is BFD that hears the peer: now is the time to dial, without waiting for
// a try that was made in vain.
func (s *session) pathUp(now time.Duration) []Action {
	if s.stopped || s.config.passive || len(s.lines) > 0 || s.backoff.refused > 0 {
		return nil
	}
	s.redial, s.dialing = never, true
	return append([]Action{Dial{Urgent: true}}, s.settle(Cause{})...)
}

// closed is a line that the peer or the network has closed.
func (s *session) closed(now time.Duration, id Line, why Cause) []Action {
	l := s.lines[id]
	if l == nil {
		return nil
	}
	if l.state == OpenSent && why.Kind == Closed {
		why.Kind = NoOpen
	}
	actions := s.lost(now, l, nil, why)
	return append(actions, s.settle(why)...)
}

// lost takes a line away, and tells the peer first unless m is nil.
func (s *session) lost(now time.Duration, l *line, m *packet.BGPMessage, c Cause) []Action {
	var actions []Action
	if m != nil {
		actions = append(actions, Send{l.id, m})
	}
	delete(s.lines, l.id)
	actions = append(actions, Hangup{l.id})
	lived := time.Duration(0)
	if l.state == Established {
		lived = now - l.since
		clear(s.routes.sent)
	}
	if len(s.lines) == 0 && !s.stopped {
		if !s.dialing {
			s.redial = now + s.backoff.wait(c, lived, s.random)
		}
		actions = append(actions, s.settle(c)...)
	}
	return actions
}

func (s *session) dropAll(now time.Duration, code, subcode uint8, data []byte, c Cause) []Action {
	var actions []Action
	for _, l := range s.ordered() {
		actions = append(actions, s.lost(now, l, note(code, subcode, data), c)...)
	}
	return actions
}

func note(code, subcode uint8, data []byte) *packet.BGPMessage {
	return packet.NewBGPNotificationMessage(code, subcode, data)
}

// settle says what has become of the session, and of its troubles.
func (s *session) settle(c Cause) []Action {
	to := Active
	switch {
	case s.stopped:
		to = Idle
	case s.dialing:
		to = Connect
	}
	for _, l := range s.lines {
		to = max(to, l.state)
	}
	var actions []Action
	if to != s.state {
		change := Change{From: s.state, To: to}
		if s.state == Established {
			change.Cause = c
			s.told = c.String()
		}
		s.state = to
		actions = append(actions, change)
	}
	switch {
	case to == Established && len(actions) > 0:
		s.told = ""
	case c.trouble() && c.String() != s.told:
		s.told = c.String()
		actions = append(actions, Trouble{c})
	}
	return actions
}

// established is the line that carries routes, or nil.
func (s *session) established() *line {
	for _, l := range s.lines {
		if l.state == Established {
			return l
		}
	}
	return nil
}

// ordered are the lines, oldest first.
func (s *session) ordered() []*line {
	var all []*line
	for id := Line(1); id <= s.next && len(all) < len(s.lines); id++ {
		if l := s.lines[id]; l != nil {
			all = append(all, l)
		}
	}
	return all
}

// beat plans the next sign of life, RFC 4271 section 4.4 and, for the jitter,
// section 10.
func (s *session) beat(now time.Duration, l *line) {
	if l.agreed.Hold == 0 {
		l.heartbeat = never
		return
	}
	third := time.Duration(l.agreed.Hold) * time.Second / 3
	if s.config.keep > 0 {
		third = min(third, s.config.keep)
	}
	l.heartbeat = now + time.Duration(float64(third)*(0.75+0.25*s.random.Float64()))
}

// heard starts the peer's time anew.
func (s *session) heard(now time.Duration, l *line) {
	l.deadline = never
	if l.agreed.Hold > 0 {
		l.deadline = now + time.Duration(l.agreed.Hold)*time.Second
	}
}

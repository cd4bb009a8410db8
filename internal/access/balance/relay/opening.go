package relay

import (
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// keptMax bounds what is kept of a client's first bytes. A ClientHello is
	// 300 bytes to 2 kB.
	keptMax = 16 << 10
	// maxTried ends the attempts of one client when a Picker never says None.
	maxTried = 32
	// localRetry is the wait after this machine could not make a socket.
	localRetry = 50 * time.Millisecond
)

// opening is a session before a target has won it.
type opening struct {
	route *route
	race  race
	// kept is what the client has said so far, to be said to every target
	// that is tried.
	kept  []byte
	class class
	// shared is how much of kept may be said to several targets: all, until
	// something follows the ClientHello.
	shared int
	// clientDone: the client has finished or is gone.
	clientDone bool
	// bare: the PROXY header has not been read yet.
	bare bool
	// local is the address that the client connected to, for the header that
	// a target wants.
	local    netip.AddrPort
	attempts []*attempt
	tried    []*Target
	waiter   waiter
}

// attempt is a connection to a target.
type attempt struct {
	conn
	target *Target
	// place is the position in the loop's group of the target.
	place int
	group *group
	// began is when connect was called, accepted when it succeeded.
	// greeted when it was given a whole ClientHello; 0 for not yet.
	began, accepted, greeted int64
	// out is what the target's socket did not take yet, sent how much of kept
	// it was given.
	out  []byte
	sent int
	// dialing: not accepted yet. silent: reported so.
	dialing, silent bool
	// headed: the PROXY header is among what was sent or stands in out.
	headed bool
}

// begin starts the race for a target, behind those who wait already.
func (s *session) begin() {
	o := s.opening
	if o.route.queue.busy() {
		s.enqueue()
		return
	}
	s.startRace()
	s.advance()
}

func (s *session) startRace() {
	s.stage = stageOpening
	s.opening.race = race{stagger: int64(s.set.Stagger), budget: int64(s.set.Budget), firstByte: int64(s.set.FirstByte)}
	s.opening.race.start(s.loop.now)
}

// advance asks for targets until the race says to wait.
func (s *session) advance() {
	for s.stage == stageOpening {
		switch s.opening.race.verdict(s.loop.now) {
		case giveUp:
			s.refuse(BudgetSpent, nil)
		case ask:
			s.ask()
		case wait:
			s.arm(s.opening.race.wakeAt())
			return
		}
	}
}

func (s *session) ask() {
	o := s.opening
	s.overdue(s.loop.now)
	target, answer := s.pick()
	switch {
	case answer == Use:
		s.dial(target)
	case !o.race.idle():
		o.race.later(s.loop.now, o.race.stagger)
	case answer == Wait:
		s.enqueue()
	default:
		s.refuse(Refused, nil)
	}
}

// pick asks the Picker, and takes an answer that would never end as None.
func (s *session) pick() (*Target, Answer) {
	o := s.opening
	if o.route.picker == nil || len(o.tried) >= maxTried {
		return nil, None
	}
	var some [4]*Target
	pending := some[:0]
	for _, a := range o.attempts {
		pending = append(pending, a.target)
	}
	target, answer := o.route.picker.Pick(s.peer, o.tried, pending)
	if answer == Use && (target == nil || slices.ContainsFunc(o.attempts, func(a *attempt) bool { return a.target == target })) {
		return nil, None
	}
	return target, answer
}

// dial begins an attempt.
func (s *session) dial(target *Target) {
	l, o := s.loop, s.opening
	a := &attempt{target: target, began: clock(), dialing: true}
	fd, local, errno := l.connect(target, s.set)
	if local {
		s.event(Event{Kind: LocalFault, Target: target, Err: errno})
		o.race.later(l.now, int64(localRetry))
		return
	}
	o.tried = append(o.tried, target)
	target.connecting.Add(1)
	o.race.asked(l.now)
	o.attempts = append(o.attempts, a)
	a.conn = conn{fd: int32(fd), session: s, attempt: a}
	l.join(a)
	if errno == 0 || errno == unix.EINPROGRESS {
		if failed := l.watch(&a.conn, readable|writable); failed != 0 {
			s.event(Event{Kind: LocalFault, Target: target, Err: failed})
			sysClose(fd)
			a.fd = -1
			s.abandon(a)
			o.tried = o.tried[:len(o.tried)-1]
			o.race.dialFailed(l.now)
			o.race.later(l.now, int64(localRetry))
			return
		}
	}
	switch errno {
	case 0:
		s.accepted(a)
	case unix.EINPROGRESS:
	default:
		sysClose(fd)
		a.fd = -1
		s.dialFailed(a, errno)
	}
}

// progress acts on an event of an attempt.
func (s *session) progress(a *attempt, events uint32) {
	if a.dialing {
		if events&gone != 0 {
			errno := sysSocketError(int(a.fd))
			if errno == 0 {
				errno = unix.ECONNRESET
			}
			s.dialFailed(a, errno)
			s.advance()
			return
		}
		if events&writable == 0 {
			return
		}
		s.accepted(a)
	} else if a.out != nil && a.conn.out {
		s.offer(a)
	}
	if s.stage == stageOpening && a.in && a.fd >= 0 {
		s.firstByte(a)
	}
	s.advance()
}

func (s *session) dialFailed(a *attempt, errno unix.Errno) {
	a.target.failed.Add(1)
	s.event(Event{Kind: DialFailed, Target: a.target, Err: errno})
	s.abandon(a)
	s.opening.race.dialFailed(s.loop.now)
}

// accepted: first to connect wins over those still dialing.
func (s *session) accepted(a *attempt) {
	o := s.opening
	now := clock()
	a.dialing, a.accepted = false, now
	a.conn.out = true
	a.target.connecting.Add(-1)
	a.target.active.Add(1)
	a.target.total.Add(1)
	s.event(Event{Kind: Connected, Target: a.target, RTT: time.Duration(now - a.began)})
	for i := len(o.attempts) - 1; i >= 0; i-- {
		if other := o.attempts[i]; other.dialing {
			if now-other.began >= int64(s.set.Stagger) {
				s.event(Event{Kind: Overtaken, Target: other.target, RTT: time.Duration(now - other.began)})
			}
			s.abandon(other)
		}
	}
	o.race.accepted()
	s.offer(a)
}

// offer gives a connected target what it has not been given yet, and commits
// to it when that cannot be said again to another.
func (s *session) offer(a *attempt) {
	o, l := s.opening, s.loop
	said := len(o.kept)
	if o.class == foreign && o.race.connected > 1 {
		said = o.shared // whoever speaks first gets the rest
	}
	fresh := o.kept[a.sent:said]
	message := s.message(a, fresh)
	if len(message) > 0 {
		n, errno := l.send(&a.conn, message)
		if errno != 0 {
			s.lost(a, errno)
			return
		}
		a.target.bytesToward.Add(uint64(len(fresh)))
		a.sent = said
		a.out = nil
		if n < len(message) {
			a.out = slices.Clone(message[n:])
		}
	}
	switch {
	case o.class == foreign && o.race.connected == 1, o.class == unsaid && o.clientDone:
		s.commit(a)
	case o.class == hello && a.out == nil && a.greeted == 0:
		a.greeted = l.now
		o.race.greeted(l.now)
	}
}

// message is what the attempt's socket is to be given now: what it did not
// take, the header before anything else, and fresh bytes.
func (s *session) message(a *attempt, fresh []byte) []byte {
	version := a.target.SendProxy
	if version == 0 || a.headed {
		if a.out == nil {
			return fresh
		}
		return append(a.out, fresh...)
	}
	a.headed = true
	return append(appendProxy(nil, version, s.peer, s.localAddr()), fresh...)
}

// localAddr is the address that the client connected to.
func (s *session) localAddr() netip.AddrPort {
	if o := s.opening; !o.local.IsValid() {
		var a sockaddr
		if sysSockName(int(s.client.fd), &a) == 0 {
			o.local = a.addrPort()
		}
	}
	return s.opening.local
}

// firstByte reads from an attempt; the first to say something wins.
func (s *session) firstByte(a *attempt) {
	l := s.loop
	n, errno := sysRead(int(a.fd), l.buf)
	switch {
	case errno == unix.EAGAIN, errno == unix.EINTR:
		a.in = errno == unix.EINTR
		if a.in {
			s.firstByte(a)
		}
		return
	case errno != 0 || n == 0:
		s.lost(a, errno)
		return
	}
	if a.silent {
		s.event(Event{Kind: Spoke, Target: a.target, RTT: time.Duration(l.now - a.accepted)})
	}
	a.target.bytesFrom.Add(uint64(n))
	s.spoke = true
	s.commit(a)
	s.lastByte = l.now
	s.unanswered = false
	if errno := l.deliver(&s.down, &s.client, l.buf[:n]); errno != 0 {
		s.closed(nil)
		return
	}
	if n < len(l.buf) && !a.hup {
		a.in = false
	}
	s.move()
}

// lost: a connected target went away before its first byte. Its client sees
// nothing of it, unless it was the client that left, or the target merely
// closed a connection on which nobody had said anything for long.
func (s *session) lost(a *attempt, errno unix.Errno) {
	o, now := s.opening, s.loop.now
	if errno == 0 && a.sent == 0 && now-a.accepted > int64(s.set.FirstByte) {
		a.in, a.hup = true, true
		s.commit(a)
		s.move()
		return
	}
	if !o.clientDone {
		a.target.failed.Add(1)
		var err error
		if errno != 0 {
			err = errno
		}
		s.event(Event{Kind: ResetEarly, Target: a.target, Err: err})
	}
	s.abandon(a)
	o.race.lost(now)
}

// overdue reports targets that have not answered in time.
func (s *session) overdue(now int64) {
	for _, a := range s.opening.attempts {
		if a.greeted > 0 && !a.silent && now >= a.greeted+int64(s.set.FirstByte) {
			a.silent = true
			s.event(Event{Kind: Silent, Target: a.target, RTT: time.Duration(now - a.accepted)})
		}
	}
}

// commit makes an attempt the session's target and closes the others.
func (s *session) commit(a *attempt) {
	o, l := s.opening, s.loop
	for i := len(o.attempts) - 1; i >= 0; i-- {
		if o.attempts[i] != a {
			s.abandon(o.attempts[i])
		}
	}
	s.up.rest = append(a.out, o.kept[a.sent:]...)
	if len(s.up.rest) == 0 {
		s.up.rest = nil
	}
	a.target.bytesToward.Add(uint64(len(o.kept) - a.sent))
	a.out = nil
	s.up.eof = o.clientDone
	s.backend, s.opening = a, nil
	s.stage = stageOpen
	s.unanswered = a.sent > 0 || s.up.rest != nil
	s.tune(l.now)
	s.expire(l.now)
	l.again(s)
}

// abandon closes an attempt without a word to anybody.
func (s *session) abandon(a *attempt) {
	o := s.opening
	if i := slices.Index(o.attempts, a); i >= 0 {
		o.attempts = slices.Delete(o.attempts, i, i+1)
	}
	s.loop.leave(a, true)
}

package relay

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// stage is how far a session has come.
type stage uint8

const (
	// stageHello: the PROXY header, or the ClientHello that decides the
	// route, has not come yet.
	stageHello stage = iota
	// stageQueued: every target is at its limit.
	stageQueued
	// stageOpening: attempts are made, and none has won: a target wins with
	// its first byte, or when it is given bytes that cannot be said twice.
	stageOpening
	// stageOpen: bytes go both ways between the client and one target.
	stageOpen
	stageClosed
)

// session is one client and the target that serves it.
type session struct {
	loop     *loop
	listener *Listener
	set      *settings
	alarm    alarm
	client   conn
	// opening is what is needed only before a target has won.
	opening *opening
	// backend is the winner.
	backend  *attempt
	up, down flow

	// peer is whom a Picker is told of: the client's address, or what its
	// PROXY header says.
	peer netip.AddrPort
	// began and lastByte are times of the engine's clock; oldAt is when the
	// session has reached its maximum age, 0 for never.
	began, lastByte, oldAt int64

	stage stage
	// onReady: on the loop's list of those with more to do.
	onReady bool
	// counted: in the count of its client address.
	counted bool
	// spoke: the target has said a byte. unanswered: it has not since the
	// client's last one.
	spoke, unanswered bool
	// tuned: the target's socket has its keepalive and user timeout.
	tuned bool
}

// admit makes a session of an accepted socket.
func (l *loop) admit(ln *Listener, fd int, peer netip.AddrPort) {
	s := &session{loop: l, listener: ln, set: ln.set.Load(), began: l.now, lastByte: l.now, peer: peer}
	s.alarm.session = s
	s.client = conn{fd: int32(fd), session: s, out: true}
	s.opening = &opening{route: s.set.fallback, bare: s.set.AcceptProxy}
	if age := float64(s.set.MaxAge); age > 0 {
		s.oldAt = s.began + int64(age*(0.8+0.4*l.random.Float64()))
	}
	ln.accepted.Add(1)
	if errno := l.watch(&s.client, readable); errno != 0 {
		s.event(Event{Kind: LocalFault, Err: errno})
		sysClose(fd)
		s.client.fd = -1
		s.end(false)
		return
	}
	if !l.sweeping() {
		l.timers.set(&l.sweeper, l.now+int64(sweepEvery))
	}
	if s.set.AcceptProxy || s.set.needsHello() {
		s.arm(s.began + int64(s.set.HelloTimeout))
		return
	}
	s.introduce()
}

// introduce counts the client by its address, which is known now, and starts
// to look for a target.
func (s *session) introduce() {
	if limit := s.set.MaxPerClient; limit > 0 && s.peer.IsValid() {
		if !s.listener.clients.enter(s.peer.Addr(), limit) {
			s.refuse(ClientLimited, nil)
			return
		}
		s.counted = true
	}
	s.begin()
}

// handle acts on an event of one of the session's sockets.
func (s *session) handle(c *conn, events uint32) {
	switch {
	case c.attempt == nil && events&unix.EPOLLERR != 0:
		// The client has reset: nobody is left to read an answer, and a stalled
		// direction would not notice.
		s.clientGone()
	case s.stage == stageOpen:
		s.move()
	case c.attempt != nil:
		s.progress(c.attempt, events)
	default:
		s.listen()
	}
}

// move carries bytes both ways.
func (s *session) move() {
	l, b := s.loop, s.backend
	up, upErr := l.pump(&s.up, &s.client, &b.conn)
	if n := s.up.take(); n > 0 {
		b.target.bytesToward.Add(uint64(n))
		s.lastByte, s.unanswered = l.now, true
	}
	down, downErr := l.pump(&s.down, &b.conn, &s.client)
	if n := s.down.take(); n > 0 {
		b.target.bytesFrom.Add(uint64(n))
		s.lastByte, s.unanswered, s.spoke = l.now, false, true
	}
	switch {
	case up == sourceFailed, down == sinkFailed: // the client's side
		s.closed(nil)
	case down == sourceFailed:
		s.closed(downErr)
	case up == sinkFailed:
		s.sinkGone(upErr)
	default:
		s.settle(up == unfinished || down == unfinished)
	}
}

// clientGone ends a session whose client is no more.
func (s *session) clientGone() {
	if s.stage == stageOpen {
		s.closed(nil)
		return
	}
	s.end(true)
}

// settle passes on ends, and goes on later with what is left to do.
func (s *session) settle(unfinished bool) {
	switch {
	case s.down.finished() && s.up.dead:
		s.closed(unix.ECONNRESET)
	case s.down.finished() && s.up.finished():
		s.note(Event{Kind: Closed})
		s.end(false)
	default:
		s.passEnd(&s.up, &s.backend.conn)
		s.passEnd(&s.down, &s.client)
		if unfinished {
			s.loop.again(s)
		}
	}
}

// passEnd tells a sink once that its source has finished (RFC 9293, 3.6).
func (s *session) passEnd(f *flow, sink *conn) {
	if f.shut && !f.told {
		f.told = true
		sysShutdown(int(sink.fd))
	}
}

// sinkGone goes on reading from a target that takes no more bytes: its last
// words, perhaps why it closed, may still be on their way to the client.
func (s *session) sinkGone(errno unix.Errno) {
	s.up.dead = true
	s.loop.drop(&s.up)
	if s.down.finished() {
		s.closed(errno)
		return
	}
	s.backend.in, s.backend.hup = true, true
	s.loop.again(s)
}

// closed ends an established session with RST to both sides. errno is zero
// or nil when the client's side was the first to go.
func (s *session) closed(err error) {
	if errno, ok := err.(unix.Errno); ok && errno == 0 {
		err = nil
	}
	switch {
	case err == nil:
	case !s.spoke && !s.up.eof:
		s.backend.target.failed.Add(1)
		s.note(Event{Kind: ResetEarly, Err: err})
	default:
		s.backend.target.broken.Add(1)
	}
	s.note(Event{Kind: Closed, Err: err})
	s.end(true)
}

// refuse resets the client.
func (s *session) refuse(kind EventKind, err error) {
	s.event(Event{Kind: kind, Err: err})
	s.end(true)
}

// event reports something about the client alone, note something about its
// target.
func (s *session) event(e Event) {
	e.Frontend = s.set.Name
	s.listener.count(e.Kind)
	s.loop.engine.observe(e)
}

func (s *session) note(e Event) {
	e.Target = s.backend.target
	s.event(e)
}

// end closes whatever is open and gives back what the session held.
func (s *session) end(reset bool) {
	if s.stage == stageClosed {
		return
	}
	l := s.loop
	s.leaveQueue()
	s.stage = stageClosed
	l.timers.stop(&s.alarm)
	l.drop(&s.up)
	l.drop(&s.down)
	if o := s.opening; o != nil {
		for len(o.attempts) > 0 {
			s.abandon(o.attempts[0])
		}
		s.opening = nil
	}
	if s.backend != nil {
		l.leave(s.backend, reset)
	}
	l.close(&s.client, reset)
	if s.counted {
		s.listener.clients.leave(s.peer.Addr())
	}
	l.sessions.Add(-1)
	l.engine.released(s.listener)
}

// tick acts on the passing of time.
func (s *session) tick() {
	now := s.loop.now
	switch s.stage {
	case stageHello:
		if now >= s.began+int64(s.set.HelloTimeout) {
			s.refuse(SlowHello, nil)
			return
		}
		s.arm(s.began + int64(s.set.HelloTimeout))
	case stageQueued:
		s.tickQueued(now)
	case stageOpening:
		if s.opening.race.connected > 0 && s.expire(now) {
			return
		}
		s.advance()
	case stageOpen:
		s.tune(now)
		s.expire(now)
	}
}

// arm makes sure that tick is called at the given time or before. An alarm set
// for earlier is left alone: firing for nothing is cheaper than moving it for
// each short connection.
func (s *session) arm(at int64) {
	if at == never || s.alarm.index != 0 && s.alarm.at <= at {
		return
	}
	s.loop.timers.set(&s.alarm, at)
}

// lasting is the age at which a connection is worth the calls that watch over
// it when it is idle; most end earlier.
const lasting = int64(time.Second)

// quiet is how long no byte must have passed before a connection is closed for
// reasons that can wait; pending the same where the client spoke last, and may
// wait for an answer. It may also have acknowledged something (WINDOW_UPDATE of
// HTTP/2), so that this ends, too.
const (
	quiet   = int64(100 * time.Millisecond)
	pending = int64(3 * time.Second)
)

// quietAt is when the connection is quiet if no byte passes until then.
func (s *session) quietAt() int64 {
	if s.unanswered {
		return s.lastByte + pending
	}
	return s.lastByte + quiet
}

func (s *session) isQuiet(now int64) bool { return now >= s.quietAt() }

// tune gives the target's socket its keepalive and user timeout once the
// session has lasted.
func (s *session) tune(now int64) {
	switch {
	case s.tuned:
	case now < s.began+lasting:
		s.arm(s.began + lasting)
	default:
		s.tuned = true
		if s.backend.target.Network == "tcp" {
			s.set.tune(int(s.backend.fd))
		}
	}
}

// expire ends what is idle or old, and says whether it did.
func (s *session) expire(now int64) bool {
	if idle := int64(s.set.IdleTimeout); idle > 0 {
		if now >= s.lastByte+idle {
			s.overstayed(Idle)
			return true
		}
		s.arm(s.lastByte + idle)
	}
	return s.oldAt > 0 && s.age(now)
}

// age ends a session that is old and quiet, within the rate allowed.
func (s *session) age(now int64) bool {
	switch {
	case now < s.oldAt:
		s.arm(s.oldAt)
	case !s.isQuiet(now):
		s.arm(s.quietAt())
	case !s.loop.engine.ages.take(now):
		// Many are old: they need not all ask ten times a second.
		s.arm(now + int64(time.Second) + s.loop.random.Int64N(int64(time.Second)))
	default:
		s.overstayed(Aged)
		return true
	}
	return false
}

func (s *session) overstayed(kind EventKind) {
	e := Event{Kind: kind}
	if s.backend != nil {
		e.Target = s.backend.target
	}
	s.event(e)
	s.end(true)
}

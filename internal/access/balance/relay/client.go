package relay

import "golang.org/x/sys/unix"

// listen reads a client's first bytes, before there is a target to give them to.
func (s *session) listen() {
	o, l := s.opening, s.loop
	for s.client.in && len(o.kept) < keptMax {
		size := keptMax - len(o.kept)
		n, errno := sysRead(int(s.client.fd), l.buf[:size])
		switch {
		case errno == unix.EAGAIN:
			s.client.in = false
		case errno == unix.EINTR:
			continue
		case errno != 0: // the client is gone
			s.end(true)
			return
		case n == 0:
			s.client.in, o.clientDone = false, true
		default:
			o.kept = append(o.kept, l.buf[:n]...)
			if n < size && !s.client.hup {
				s.client.in = false
			}
		}
	}
	s.heard()
}

// heard acts on what the client has said so far.
func (s *session) heard() {
	o := s.opening
	if s.stage == stageHello && !s.unwrap() {
		return
	}
	o.classify()
	gaveUp := o.clientDone && (o.class == helloPart || o.class == hello)
	switch s.stage {
	case stageHello:
		s.routed()
	case stageQueued:
		if gaveUp || o.clientDone && o.class == unsaid {
			s.end(true)
		}
	case stageOpening:
		if gaveUp {
			// A TLS client has no use for half a connection: it has closed.
			s.end(true)
			return
		}
		s.offerAll()
		s.advance()
	}
}

// routed goes on once the client has said enough to know its route.
func (s *session) routed() {
	o := s.opening
	if s.set.needsHello() {
		if o.class.open() && !o.clientDone && len(o.kept) < keptMax {
			return
		}
		o.route = s.set.route(serverName(o.kept, o.class))
	}
	s.introduce()
}

// offerAll gives what the client said to every target that has accepted.
func (s *session) offerAll() {
	for i := len(s.opening.attempts) - 1; i >= 0; i-- {
		if a := s.opening.attempts[i]; !a.dialing {
			s.offer(a)
		}
		if s.stage != stageOpening {
			return
		}
	}
}

// unwrap takes the PROXY header off; false when it is not whole yet, or when
// the client was turned away.
func (s *session) unwrap() bool {
	o := s.opening
	if !o.bare {
		return true
	}
	if !s.set.mayProxy(s.peer.Addr()) {
		s.refuse(BadProxy, errProxyPeer)
		return false
	}
	h, n, err := parseProxy(o.kept)
	switch {
	case err != nil:
		s.refuse(BadProxy, err)
		return false
	case n == 0 && o.clientDone:
		s.refuse(BadProxy, errProxyShort)
		return false
	case n == 0:
		return false
	}
	if h.source.IsValid() {
		s.peer, o.local = h.source, h.destination
	}
	o.kept = o.kept[n:]
	o.bare = false
	return true
}

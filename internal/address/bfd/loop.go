package bfd

import (
	"errors"
	"net/netip"
	"time"
)

const (
	// tardy is from when on the loop counts itself as late.
	tardy = 20 * time.Millisecond
	// gulp bounds how many packets are read before sessions have their turn,
	// so that a flood does not silence them; a socket of usual size holds
	// fewer.
	gulp = 2048
	// acquaintances bounds the strangers that the log has room for.
	acquaintances = 16
)

// loop is the only goroutine that touches sockets and sessions.
func (m *Manager) loop() error {
	for {
		due, ok := m.next()
		if err := m.wait(due, ok); err != nil {
			return err
		}
		// What has arrived before now is read before anything is judged by
		// now, however long the reading takes.
		now, wall := m.clock()
		if ok {
			m.lateness(now - due)
		}
		m.drain(now, wall)
		for _, f := range m.take() {
			f(now)
		}
		m.tick(now)
		if m.done(now) {
			return nil
		}
	}
}

// clock reads both clocks at the same moment: a pause between the two readings
// would age packets by as much.
func (m *Manager) clock() (now time.Duration, wall time.Time) {
	for range 5 {
		t := time.Now()
		if now, wall = t.Sub(m.start), t.Round(0); time.Since(t) < 200*time.Microsecond {
			break
		}
	}
	return now, wall
}

// next is when the first session is due.
func (m *Manager) next() (due time.Duration, ok bool) {
	for _, h := range m.all() {
		h.mu.Lock()
		at, has := h.session.Next()
		if h.leaving && (!has || h.deadline < at) {
			at, has = h.deadline, true
		}
		h.mu.Unlock()
		if has && (!ok || at < due) {
			due, ok = at, true
		}
	}
	return due, ok
}

func (m *Manager) lateness(late time.Duration) {
	if late <= tardy {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health.Late++
	m.health.Latest = max(m.health.Latest, late)
}

func (m *Manager) take() []func(time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	commands := m.commands
	m.commands = nil
	return commands
}

// drain reads the sockets until they are empty.
func (m *Manager) drain(now time.Duration, wall time.Time) {
	all := true
	for _, l := range m.listeners {
		all = m.sip(l, now, wall) && all
	}
	if all {
		m.empty = now
	}
}

// sip reads one socket and says whether it is empty.
func (m *Manager) sip(l *listener, now time.Duration, wall time.Time) bool {
	for range gulp {
		a, ok := l.read()
		if !ok {
			return true
		}
		m.receive(a, now, wall)
	}
	return false
}

// receive handles one packet. now and wall are from before it was read.
func (m *Manager) receive(a arrival, now time.Duration, wall time.Time) {
	read := time.Since(m.start)
	at := read
	if !a.stamp.IsZero() {
		at = arrived(now+a.stamp.Sub(wall), m.empty, read)
	}
	p, h, err := m.admit(a)
	if err != nil {
		m.drop(a, h, err)
		return
	}
	h.mu.Lock()
	h.counters.Received++
	h.mu.Unlock()
	m.perform(h, func() []Action { return h.session.Receive(read, at, p) })
}

// arrived bounds what the stamp of a packet says, because the wall clock may have
// been set meanwhile: a packet has not arrived before its socket was last empty,
// nor after it was read.
func arrived(stamp, empty, read time.Duration) time.Duration {
	return min(max(stamp, empty), read)
}

// admit finds the session of a packet, RFC 5880 section 6.3 and RFC 5881
// sections 3 and 5. With an error, the session is the one whose peer seems to
// have sent the packet, or nil.
func (m *Manager) admit(a arrival) (Packet, *Handle, error) {
	if a.ttl != TTL {
		return Packet{}, m.match(a), malformed(ReasonTTL, "TTL or hop limit is %d and not %d: the sender is more than one hop away, or does not follow RFC 5881", a.ttl, TTL)
	}
	p, err := Parse(a.payload)
	if err != nil {
		return p, m.match(a), err
	}
	if p.YourDiscr == 0 {
		h := m.match(a)
		if h == nil {
			return p, nil, malformed(ReasonSession, "no session with %v is configured", a.from)
		}
		return p, h, nil
	}
	m.mu.Lock()
	h := m.handles[p.YourDiscr]
	m.mu.Unlock()
	switch {
	case h == nil:
		return p, m.match(a), malformed(ReasonSession, "discriminator %d is unknown", p.YourDiscr)
	case h.config.Peer != a.from || !m.through(h, a.ifindex):
		return p, m.match(a), malformed(ReasonSource, "discriminator %d belongs to a session with %v, not with %v", p.YourDiscr, h.config.Peer, a.from)
	}
	return p, h, nil
}

// match finds a session by the addresses and the interface of a packet; one
// that names its own address goes before one that does not.
func (m *Manager) match(a arrival) *Handle {
	m.mu.Lock()
	var candidates []*Handle
	for k, h := range m.keys {
		switch {
		case k.peer != a.from:
		case k.local == a.to:
			candidates = append([]*Handle{h}, candidates...)
		case !k.local.IsValid():
			candidates = append(candidates, h)
		}
	}
	m.mu.Unlock()
	for _, h := range candidates {
		if m.through(h, a.ifindex) {
			return h
		}
	}
	return nil
}

// through says whether the interface of that number is the session's. The name
// decides, because an interface that was made anew has another number.
func (m *Manager) through(h *Handle, ifindex int) bool {
	switch {
	case h.config.Interface == "" || ifindex == h.sender.ifindex:
		return true
	case len(m.listeners) == 0 || index(m.listeners[0].fd, h.config.Interface) != ifindex:
		return false
	}
	h.sender.close() // bound to what is no more
	return true
}

// drop counts a packet and says so once.
func (m *Manager) drop(a arrival, h *Handle, err error) {
	var bad *MalformedError
	if !errors.As(err, &bad) {
		return
	}
	m.mu.Lock()
	m.health.Dropped[bad.Reason]++
	m.mu.Unlock()
	if h == nil {
		m.stranger(a.from, bad)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counters.Dropped[bad.Reason]++
	// A peer goes on with the discriminator of our last run until it has heard
	// of this one: no news.
	if bad.Reason != ReasonSession && !h.complained[bad.Reason] {
		h.complained[bad.Reason] = true
		h.log.Warn("drop packet of BFD peer", "reason", string(bad.Reason), "detail", bad.Detail)
	}
}

func (m *Manager) stranger(from netip.Addr, bad *MalformedError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.strangers) < acquaintances && !m.strangers[from] {
		m.strangers[from] = true
		m.log.Warn("drop BFD packet", "from", from, "reason", string(bad.Reason), "detail", bad.Detail)
	}
}

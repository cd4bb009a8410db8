package lease

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
)

// peer is what is known of another by its answers. Times are those of the
// questions, on the own clock; never when there was none.
type peer struct {
	Peer
	// unreached: it answered "API not reached" to a question of then. It stands
	// when the next answer is another: the promise was given.
	unreached time.Duration
	heard     time.Duration
	flags     ask.Flags // of the answer to the question of heard

	asked     time.Duration
	yieldedAt time.Duration
	open      [16]question // a ring: at ten a lease, all that could matter
	at        int
}

type question struct {
	serial uint64
	at     time.Duration
}

func (p *peer) reaches() bool { return p.flags&(ask.Reached|ask.Holding) != 0 }

func (m *Machine) peer(name string) *peer {
	for i := range m.peers {
		if m.peers[i].Name == name {
			return &m.peers[i]
		}
	}
	return nil
}

// offer remembers whom a write names until its outcome is known. When it was
// lost, the record may come to name them at any time.
func (m *Machine) offer(peers []Peer) {
	for _, p := range peers {
		if !slices.ContainsFunc(m.offered, func(o Peer) bool { return o.Name == p.Name }) {
			m.offered = append(m.offered, p)
		}
	}
	m.recount()
}

// recount makes peers those that are named.
func (m *Machine) recount() {
	if m.seen.Version == 0 {
		// Deleted. Who was named may have taken it before, and whoever makes it anew
		// may name anybody that is configured.
		for _, p := range m.cfg.Peers {
			m.name(p)
		}
		return
	}
	for i := range m.peers {
		m.peers[i].at = -1 - m.peers[i].at // marked, unless it is found below
	}
	for _, list := range [2][]Peer{m.seen.Record.Peers, m.offered} {
		for _, p := range list {
			m.name(p)
		}
	}
	m.peers = slices.DeleteFunc(m.peers, func(p peer) bool { return p.at < 0 })
}

func (m *Machine) name(named Peer) {
	if named.Name == m.cfg.Self {
		return
	}
	if p := m.peer(named.Name); p != nil {
		p.Peer = named
		if p.at < 0 {
			p.at = -1 - p.at
		}
		return
	}
	m.peers = append(m.peers, peer{Peer: named, unreached: never, heard: never, asked: never, yieldedAt: never})
}

func samePeers(a, b []Peer) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// Heard is a message of another peer, whose signature was good.
func (m *Machine) Heard(now time.Duration, msg ask.Message) []Action {
	m.enter(now)
	if msg.To != m.cfg.Self || msg.From == m.cfg.Self {
		return m.decide(now)
	}
	switch msg.Kind {
	case ask.Question:
		m.answer(now, msg)
	case ask.Answer:
		m.answered(now, msg)
	case ask.Claim:
		m.claimed(now, msg.From, msg.Turn)
	case ask.Yield:
		m.yielded = yielded{holder: msg.From, mark: Mark(msg.Nonce)}
		m.dirty = m.dirty || !m.held // it may have come to write, which a watch may bring later
	}
	return m.decide(now)
}

// answer tells a holder what this peer knows. "Not reached" is a promise.
func (m *Machine) answer(now time.Duration, q ask.Message) {
	flags := m.knows(now)
	if flags&(ask.Reached|ask.Holding) == 0 {
		m.contact.ok = false
		m.promised = max(m.promised, now+q.Duration)
	}
	urgent := q.Flags&ask.Urgent != 0
	if urgent && !m.held && !m.reading.busy && m.readAt <= now && m.contact.last < now {
		m.read(now)
	}
	if m.stopped {
		flags &^= ask.Ready
	}
	m.do(Action{Do: Send, Peer: Peer{Name: q.From}, Message: q.Reply(flags, m.seen.Record.Turn)})
}

// knows is what is true of this peer. Without Reached and Holding it does not
// hold the address, no write of its own can make it hold it, and it does not
// reach the API.
func (m *Machine) knows(now time.Duration) (flags ask.Flags) {
	if m.fit() && !m.leaving.on && m.abstains <= now {
		flags |= ask.Ready
	}
	if m.held {
		flags |= ask.Holding
	}
	if m.announced {
		flags |= ask.Announced
	}
	for _, p := range m.pending {
		if p.kind == claim && now < p.sent+m.cfg.term() {
			return flags | ask.Reached
		}
	}
	if m.inContact(now) && !m.unanswered(now) {
		flags |= ask.Reached
	}
	return flags
}

// unanswered says that the API owes an answer to a question that is not new.
func (m *Machine) unanswered(now time.Duration) bool {
	since := m.contact.trouble
	return since != never && now-since >= part(m.span(), patiencePart)
}

func (m *Machine) answered(now time.Duration, a ask.Message) {
	p := m.peer(a.From)
	if p == nil || a.Nonce.Incarnation != m.cfg.Incarnation {
		return
	}
	i := slices.IndexFunc(p.open[:], func(q question) bool { return q.serial == a.Nonce.Serial && q.serial != 0 })
	if i < 0 {
		return
	}
	at := p.open[i].at
	p.open[i] = question{}
	if at >= p.heard {
		p.heard, p.flags = at, a.Flags
	}
	if a.Flags&(ask.Reached|ask.Holding) == 0 {
		p.unreached = max(p.unreached, at)
	} else {
		m.hasten(now)
	}
	if a.Flags&ask.Announced != 0 {
		m.claimed(now, a.From, a.Turn)
	}
}

// claimed notes that a peer answers for the address in a turn.
func (m *Machine) claimed(now time.Duration, from string, turn uint64) {
	switch l := &m.leaving; {
	case !m.held || turn <= m.turn:
	case !l.sent:
		m.dirty = true // which cannot be; look
	case l.to == "" || l.to == from:
		m.heardSuccessor(now)
	}
}

// Announced says that the address answers here, and that the network was told.
func (m *Machine) Announced(now time.Duration) []Action {
	m.enter(now)
	if m.held && !m.leaving.sent && !m.announced {
		m.announced = true
		for i := range m.peers {
			p := &m.peers[i]
			m.do(Action{Do: Send, Peer: p.Peer, Message: ask.Message{
				Kind: ask.Claim, Flags: ask.Holding | ask.Announced, From: m.cfg.Self, To: p.Name, Turn: m.turn,
				Duration: m.cfg.Duration, Nonce: ask.Nonce{Incarnation: m.cfg.Incarnation, Serial: m.number()},
			}})
		}
	}
	return m.decide(now)
}

// question asks the others, as often as matters are urgent.
func (m *Machine) question(now time.Duration) {
	if !m.held {
		return
	}
	every, flags := m.cfg.Renew, ask.Holding
	late := m.confirmed + m.cfg.Renew + part(m.cfg.Duration, latePart)
	switch {
	case m.leaving.on:
		every = hurry
	case m.cfg.Policy == Keep && now >= late:
		every, flags = part(m.cfg.Duration, askPart), ask.Holding|ask.Urgent
	case m.cfg.Policy == Keep:
		m.wake(late)
	}
	for i := range m.peers {
		p := &m.peers[i]
		if m.leaving.sent && m.leaving.to != "" && m.leaving.to != p.Name {
			continue
		}
		if at := p.asked + every; p.asked != never && at > now {
			m.wake(at)
			continue
		}
		m.ask(now, p, flags)
		m.wake(now + every)
	}
}

func (m *Machine) ask(now time.Duration, p *peer, flags ask.Flags) {
	n := m.number()
	p.asked = now
	p.open[p.at] = question{serial: n, at: now}
	p.at = (p.at + 1) % len(p.open)
	m.do(Action{Do: Send, Peer: p.Peer, Message: ask.Message{
		Kind: ask.Question, Flags: flags, From: m.cfg.Self, To: p.Name, Turn: m.turn, Duration: m.cfg.Duration,
		Nonce: ask.Nonce{Incarnation: m.cfg.Incarnation, Serial: n},
	}})
}

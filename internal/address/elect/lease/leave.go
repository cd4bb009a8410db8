package lease

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
)

// leaving is a hand-over: ask who could hold the address, name one of them in one
// write, and answer for it until that one is heard.
type leaving struct {
	on    bool
	began time.Duration
	// want is who was asked for; empty: anybody.
	want string
	// stop: this process ends. unready: it cannot serve, and stays if nobody can.
	stop, unready bool
	// sent: the record is given away, or will be, or was not; from here on nothing
	// extends the deadline.
	sent   bool
	sentAt time.Duration
	// to is the successor; empty: whoever comes first.
	to    string
	waits bool // a write is under way
	done  bool // the write is known to be done
}

const (
	// choose bounds the search for a successor: a round trip between sites, twice.
	choose = 150 * time.Millisecond
	// hurry is the time between questions then, and between yields.
	hurry = 25 * time.Millisecond
)

// Release gives the address away: to the named peer, or to any that is ready. It
// does nothing when the address is not held. When nobody is found, a named peer
// not ready above all, the address stays, and an action Refused says so.
func (m *Machine) Release(now time.Duration, to string) []Action {
	m.enter(now)
	switch l := &m.leaving; {
	case !m.held:
	case !l.on:
		*l = leaving{on: true, began: now, want: to}
	case !l.sent:
		l.want, l.unready = to, false
	}
	return m.decide(now)
}

// Stop gives the address away and ends. Until the action Stopped the machine
// wants to be told of what happens.
func (m *Machine) Stop(now time.Duration) []Action {
	m.enter(now)
	switch {
	case m.stopped:
	case m.leaving.on:
		m.leaving.stop, m.leaving.unready = true, false
	default:
		m.leaving = leaving{on: true, began: now, stop: true}
	}
	return m.decide(now)
}

// Rival says that another is heard on the network claiming the address, which a
// holder waits for that has given it away.
func (m *Machine) Rival(now time.Duration) []Action {
	m.enter(now)
	m.heardSuccessor(now)
	return m.decide(now)
}

func (m *Machine) heardSuccessor(now time.Duration) {
	if m.held && m.leaving.sent {
		m.release(now, CauseHandedOver)
	}
}

// leave goes on with a hand-over, or begins one.
func (m *Machine) leave(now time.Duration) {
	l := &m.leaving
	if m.held && !l.on && !m.fit() && m.successor(now-2*m.cfg.Renew, "") != "" {
		*l = leaving{on: true, began: now, unready: true}
	}
	switch {
	case !l.on:
	case !m.held && !l.sent && m.writing.busy:
		// A claim is under way. When it is done it is to be given away, lest the
		// record name one that is gone.
	case !m.held:
		m.stopped = l.stop
		*l = leaving{}
		if m.stopped {
			m.do(Action{Do: Stopped})
		}
	case !l.sent:
		m.seek(now)
	default:
		m.giveAway(now)
	}
}

// seek looks for a successor.
func (m *Machine) seek(now time.Duration) {
	l := &m.leaving
	to := m.successor(l.began, l.want)
	switch end := l.began + choose; {
	case to != "":
	case now < end && len(m.peers) > 0:
		m.wake(end)
		return
	case l.unready:
		*l = leaving{} // as well here as anywhere
		return
	case !l.stop && l.want != "":
		*l = leaving{}
		m.do(Action{Do: Refused})
		return
	}
	l.to, l.sent, l.sentAt = to, true, now
	m.deadline = min(m.deadline, now+m.cfg.Linger)
	// What was sent before in order to go on holding is not what is wanted now.
	m.pending, m.writing.busy, m.writeAt = m.pending[:0], false, now
	m.do(Action{Do: Hold, Until: m.deadline, Lingering: true})
	m.giveAway(now)
}

// giveAway writes the hand-over until it is known to be done, and tells the
// successor itself: the API may be out of reach for this peer alone.
func (m *Machine) giveAway(now time.Duration) {
	l := &m.leaving
	// The API is quicker as a rule, and two ways at once hinder each other.
	if grace := l.sentAt + 2*hurry; l.to != "" && now >= grace {
		m.yield(now)
	} else if l.to != "" {
		m.wake(grace)
	}
	r := m.seen.Record
	if l.done || l.waits || m.dirty || r.Holder != m.cfg.Self || r.Mark.Incarnation != m.cfg.Incarnation {
		return
	}
	if m.writeAt > now {
		m.wake(m.writeAt)
		return
	}
	r.Holder, r.Given = l.to, l.to != ""
	m.write(now, give, r, "")
	l.waits = true
}

func (m *Machine) yield(now time.Duration) {
	p := m.peer(m.leaving.to)
	if p == nil {
		return
	}
	if at := p.yieldedAt + hurry; at > now && p.yieldedAt >= m.leaving.began {
		m.wake(at)
		return
	}
	p.yieldedAt = now
	m.wake(now + hurry)
	m.do(Action{Do: Send, Peer: p.Peer, Message: ask.Message{
		Kind: ask.Yield, From: m.cfg.Self, To: p.Name, Turn: m.turn, Duration: m.cfg.Duration,
		Nonce: ask.Nonce{Incarnation: m.cfg.Incarnation, Serial: m.number()},
	}})
}

// successor is a peer that could hold the address by an answer to a question
// asked at since or later.
func (m *Machine) successor(since time.Duration, want string) string {
	for i := range m.peers {
		p := &m.peers[i]
		fit := p.heard >= since && p.flags&(ask.Reached|ask.Ready) == ask.Reached|ask.Ready
		if fit && (want == "" || want == p.Name) {
			return p.Name
		}
	}
	return ""
}

package lease

import (
	"context"
	"maps"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
)

// Keys of log lines.
const (
	keyCause  = "cause"
	keyTurn   = "turn"
	keyError  = "error"
	keyRecord = "record"
)

// Announced says that the address answers here and the network has been told,
// after each Holding that began.
func (a *Agent) Announced() {
	a.post(func(now time.Duration) []Action { return a.machine.Announced(now) })
}

// Rival says that another is heard claiming the address.
func (a *Agent) Rival() { a.post(func(now time.Duration) []Action { return a.machine.Rival(now) }) }

// SetReady says whether this node could serve the address. An agent starts ready.
func (a *Agent) SetReady(ready bool) {
	a.post(func(now time.Duration) []Action { return a.machine.SetReady(now, ready) })
}

// SetPeers changes who may hold the address; see Machine.SetPeers.
func (a *Agent) SetPeers(peers []Peer) error {
	config := a.config
	config.Peers = peers
	if err := config.checkPeers(); err != nil {
		return err
	}
	a.post(func(now time.Duration) []Action { return a.machine.SetPeers(now, peers) })
	return nil
}

// Release gives the address away, to the named peer or to any, and waits until
// that one is heard, or is not. Errors are ErrNotHeld, ErrRefused, that it was lost
// meanwhile, and that of ctx.
func (a *Agent) Release(ctx context.Context, to string) error {
	ended := make(chan error, 1)
	a.post(func(now time.Duration) []Action {
		if _, held := a.machine.Until(now); !held {
			ended <- ErrNotHeld
			return nil
		}
		a.waiting = append(a.waiting, ended)
		return a.machine.Release(now, to)
	})
	select {
	case err := <-ended:
		return err
	case <-a.done:
		return ErrNotHeld
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Alive says that the loop turns.
func (a *Agent) Alive() bool { return Now()-time.Duration(a.beat.Load()) < 3*maxNap }

// Tally counts what an agent did.
type Tally struct {
	// Reads and Writes by Outcome, Sent and Received by ask.Kind.
	Reads, Writes  [Failed + 1]uint64
	Sent, Received [ask.Yield + 1]uint64
	// Refused are datagrams with a wrong signature or content.
	Refused uint64
	// Held and Released by cause.
	Held, Released map[Cause]uint64
}

func count(m map[Cause]uint64, c Cause) map[Cause]uint64 {
	if m == nil {
		m = map[Cause]uint64{}
	}
	m[c]++
	return m
}

// Status is what an agent knows.
type Status struct {
	// Held: this node holds the address, for Left unless it is prolonged; Lingering
	// after it gave it away.
	Held, Lingering bool
	Left            time.Duration
	// Ready: this node could serve it.
	Ready bool
	// Holder is who has it by the record as it was seen last; Unchanged for how
	// long it has been seen as it is.
	Holder    string
	Turn      uint64
	Unchanged time.Duration
	// Named: the record names this node.
	Named bool
	// Foreign says why the record is not one of ours.
	Foreign string
	// Contact is for how long the API has been reached without a break; 0: it is
	// not reached.
	Contact time.Duration
	// APIError is that of the last call, empty when it went well.
	APIError string
	Peers    []PeerStatus
	Tally    Tally
}

// PeerStatus is what a holder knows of a peer.
type PeerStatus struct {
	Peer
	// Answered: it has answered a question; Age ago that was asked.
	Answered bool
	Age      time.Duration
	// Reached, Ready and Holding are what it said.
	Reached, Ready, Holding bool
}

// Status asks the loop.
func (a *Agent) Status(ctx context.Context) (Status, error) {
	answer := make(chan Status, 1)
	a.post(func(now time.Duration) []Action {
		s := a.machine.Status(now)
		s.Tally, s.Foreign = a.tally, a.foreign
		s.Tally.Held, s.Tally.Released = maps.Clone(a.tally.Held), maps.Clone(a.tally.Released)
		if a.apiError != nil {
			s.APIError = a.apiError.Error()
		}
		answer <- s
		return nil
	})
	select {
	case s := <-answer:
		return s, nil
	case <-a.done:
		return Status{}, ErrNotHeld
	case <-ctx.Done():
		return Status{}, context.Cause(ctx)
	}
}

// Status is what the machine knows.
func (m *Machine) Status(now time.Duration) Status {
	until, held := m.Until(now)
	s := Status{Held: held, Lingering: held && m.leaving.sent, Ready: m.fit()}
	if held {
		s.Left = until - now
	}
	if m.known && m.seen.Version != 0 {
		r := &m.seen.Record
		s.Holder, s.Turn, s.Unchanged, s.Named = r.Holder, r.Turn, now-m.since, r.Names(m.cfg.Self)
	}
	if m.inContact(now) {
		s.Contact = now - m.contact.since
	}
	for i := range m.peers {
		p := &m.peers[i]
		ps := PeerStatus{Peer: p.Peer, Answered: p.heard != never}
		if ps.Answered {
			ps.Age = now - p.heard
			ps.Reached, ps.Ready, ps.Holding = p.flags&ask.Reached != 0, p.flags&ask.Ready != 0, p.flags&ask.Holding != 0
		}
		s.Peers = append(s.Peers, ps)
	}
	return s
}

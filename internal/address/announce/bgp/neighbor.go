package bgp

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/holdfast-ha/holdfast/internal/address/bfd"
)

// PeerStatus is a peer at one moment.
type PeerStatus struct {
	Address netip.Addr
	AS      uint32
	State   State
	// Since is when State began.
	Since time.Time
	// Cause is why the session was lost, or does not come up; empty while it is up.
	Cause Cause
	// Announced is how many prefixes the peer was told of.
	Announced int
	// Hold is what was agreed, 0 while there is no session.
	Hold time.Duration
	// Ups counts how often the session came up, Losses how often it was lost, by
	// cause, Tries how often the peer was dialed.
	Ups, Tries     uint64
	Losses         map[Kind]uint64
	Sent, Received uint64 // messages
	// BFD is the state beside it, nil without.
	BFD *bfd.Status
}

// neighbor is the shell around one session: it owns the connections, and one
// goroutine owns the session.
type neighbor struct {
	speaker *Speaker
	config  *peerConfig
	log     *slog.Logger
	session *session
	start   time.Time
	events  chan func(now time.Duration) []Action
	ended   chan struct{}

	// Of the loop.
	lines   map[Line]*connection
	dials   int // the number of the last dial
	hangup  context.CancelFunc
	leaving sync.WaitGroup // writers

	mu     sync.Mutex // guards the rest
	status PeerStatus
	bfd    *bfd.Handle
	offers map[netip.Prefix]bool // not yet taken by the loop
}

func newNeighbor(s *Speaker, p *peerConfig) *neighbor {
	return &neighbor{
		speaker: s, config: p, log: s.log.With("peer", p.address, "as", p.as), start: time.Now(),
		session: newSession(p, s.config.routerID, newRandom()),
		events:  make(chan func(time.Duration) []Action, 16), ended: make(chan struct{}),
		lines: map[Line]*connection{}, hangup: func() {},
		status: PeerStatus{Address: p.address, AS: p.as, Since: time.Now(), Losses: map[Kind]uint64{}},
	}
}

func (n *neighbor) now() time.Duration { return time.Since(n.start) }

// post has the loop handle an event; it is lost when the loop has ended.
func (n *neighbor) post(f func(now time.Duration) []Action) bool {
	select {
	case n.events <- f:
		return true
	case <-n.ended:
		return false
	}
}

// offer hands routes to the loop, without waiting for it.
func (n *neighbor) offer(routes map[netip.Prefix]bool) {
	n.mu.Lock()
	first := n.offers == nil
	n.offers = routes
	n.mu.Unlock()
	if first {
		go n.post(func(time.Duration) []Action { return n.take() })
	}
}

func (n *neighbor) take() []Action {
	n.mu.Lock()
	routes := n.offers
	n.offers = nil
	n.mu.Unlock()
	if routes == nil {
		return nil
	}
	return n.session.set(routes)
}

// run serves the peer until ctx ends; then the session is ended on purpose.
func (n *neighbor) run(ctx context.Context) error {
	defer close(n.ended)
	if err := n.watch(); err != nil {
		n.log.Error("no BGP session", "reason", err)
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	n.perform(n.session.start(n.now()))
	for {
		timer.Reset(min(n.session.due()-n.now(), time.Hour))
		select {
		case f := <-n.events:
			n.perform(f(n.now()))
		case <-timer.C:
			n.perform(n.session.tick(n.now()))
		case <-ctx.Done():
			n.perform(append(n.take(), n.session.stop(n.now(), "the agent ends")...))
			n.hangup()
			n.leaving.Wait()
			n.unwatch()
			return nil
		}
	}
}

// watch starts BFD.
func (n *neighbor) watch() error {
	if n.config.bfd == nil {
		return nil
	}
	b := n.config.bfd
	h, err := n.speaker.options.BFD.Add(bfd.SessionConfig{
		Peer: n.config.address, Local: n.config.local, Interface: n.config.iface,
		Timers:   bfd.Timers{DesiredMinTx: b.Interval, RequiredMinRx: b.Interval, DetectMult: uint8(b.Multiplier)},
		OnChange: n.path,
	})
	if err != nil {
		return fmt.Errorf("add BFD for %v: %w", n.config.address, err)
	}
	n.mu.Lock()
	n.bfd = h
	n.mu.Unlock()
	return nil
}

func (n *neighbor) unwatch() {
	if n.bfd != nil {
		n.bfd.Remove()
	}
}

// path is a change of BFD.
func (n *neighbor) path(c bfd.Change) {
	switch {
	case c.Lost():
		n.post(n.session.pathDown)
	case c.To == bfd.Up:
		n.post(n.session.pathUp)
	}
}

func (n *neighbor) alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bfd != nil && n.bfd.State() == bfd.Up
}

// perform does what the session asks for.
func (n *neighbor) perform(actions []Action) {
	for len(actions) > 0 {
		a := actions[0]
		actions = actions[1:]
		switch a := a.(type) {
		case Dial:
			n.dial(a.Urgent)
		case Send:
			if c := n.lines[a.Line]; c != nil && !c.send(a.Message) {
				n.log.Warn("dropped a connection that takes no messages")
				actions = append(actions, n.session.closed(n.now(), a.Line, Cause{Kind: Closed, Text: "the peer takes no messages"})...)
			}
			n.count(func(s *PeerStatus) { s.Sent++ })
		case Hangup:
			if c := n.lines[a.Line]; c != nil {
				delete(n.lines, a.Line)
				c.hangup()
			}
		case Change:
			n.changed(a)
		case Trouble:
			n.count(func(s *PeerStatus) { s.Cause = a.Cause })
			n.log.Warn("no BGP session", "reason", a.Cause)
		}
	}
	n.count(func(s *PeerStatus) {
		s.Announced, s.Hold = len(n.session.routes.sent), 0
		if l := n.session.established(); l != nil {
			s.Hold = time.Duration(l.agreed.Hold) * time.Second
		}
	})
}

func (n *neighbor) count(f func(*PeerStatus)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(&n.status)
}

func (n *neighbor) changed(c Change) {
	n.count(func(s *PeerStatus) {
		s.State, s.Since = c.To, time.Now()
		if c.To == Established {
			s.Ups++
			s.Cause = Cause{}
		}
		if c.From == Established {
			s.Losses[c.Cause.Kind]++
			s.Cause = c.Cause
		}
	})
	switch {
	case c.To == Established:
		n.log.Info("BGP session is up")
	case c.From == Established && c.Cause.Kind == Stopped:
		n.log.Info("BGP session has ended")
	case c.From == Established:
		n.log.Warn("BGP session is lost", "reason", c.Cause)
	}
	if f := n.speaker.options.OnChange; f != nil {
		f(Event{Peer: n.config.address, From: c.From, To: c.To, Cause: c.Cause})
	}
}

func (n *neighbor) report() PeerStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.status
	s.Losses = maps.Clone(s.Losses)
	if n.bfd != nil {
		b := n.bfd.Status()
		s.BFD = &b
	}
	return s
}

// dial connects in the background.
func (n *neighbor) dial(urgent bool) {
	if urgent {
		n.hangup()
	}
	n.dials++
	this := n.dials
	n.count(func(s *PeerStatus) { s.Tries++ })
	ctx, cancel := context.WithCancel(context.Background())
	n.hangup = cancel
	go func() {
		defer cancel()
		tcp, err := dial(ctx, n.config)
		if err != nil {
			c := causeOf(err, n.config, n.alive())
			n.post(func(now time.Duration) []Action {
				if this != n.dials {
					return nil
				}
				return n.session.unreachable(now, c)
			})
			return
		}
		local := localOf(tcp)
		if !n.post(func(now time.Duration) []Action {
			if this != n.dials {
				_ = tcp.Close()
				return nil
			}
			return n.open(now, tcp, false, local)
		}) {
			_ = tcp.Close()
		}
	}()
}

// accept takes a connection that the peer has made.
func (n *neighbor) accept(tcp *net.TCPConn) bool {
	local := localOf(tcp)
	if at, ok := tcp.LocalAddr().(*net.TCPAddr); n.config.local.IsValid() && (!ok || at.AddrPort().Addr().Unmap().WithZone("") != n.config.local.WithZone("")) {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	var tuned error
	if err := raw.Control(func(fd uintptr) { tuned = tune(int(fd), n.config) }); err != nil || tuned != nil {
		return false
	}
	return n.post(func(now time.Duration) []Action { return n.open(now, tcp, true, local) })
}

func (n *neighbor) open(now time.Duration, tcp *net.TCPConn, inbound bool, local Local) []Action {
	id, actions := n.session.opened(now, inbound, local)
	n.leaving.Add(1)
	n.lines[id] = serve(
		tcp,
		func(m *packet.BGPMessage, bad *packet.MessageError) {
			n.post(func(now time.Duration) []Action {
				n.count(func(s *PeerStatus) { s.Received++ })
				return n.session.received(now, id, m, bad)
			})
		},
		func(err error) {
			n.post(func(now time.Duration) []Action { return n.session.closed(now, id, causeOfEnd(err)) })
		},
		n.leaving.Done,
	)
	return actions
}

// listenOn opens a listener that checks the passwords of its peers.
func (s *Speaker) listenOn(at netip.AddrPort) (net.Listener, error) {
	network := "tcp4"
	if at.Addr().Is6() {
		network = "tcp6"
	}
	lc := net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		for i := range s.config.peers {
			p := &s.config.peers[i]
			if p.address.Is4() != at.Addr().Is4() {
				continue
			}
			var failed error
			if err := c.Control(func(fd uintptr) { failed = sign(int(fd), p) }); err != nil || failed != nil {
				return failed
			}
		}
		return nil
	}}
	return lc.Listen(context.Background(), network, at.String())
}

package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/internal/address/bfd"
)

// Options of a Speaker.
type Options struct {
	Log *slog.Logger
	// BFD runs the sessions beside those of BGP, for as long as Run takes. It may
	// be nil where no peer has bfd.
	BFD Paths
	// OnChange, unless nil, is called with every change of a session, in order for
	// each peer. It must not block.
	OnChange func(Event)
}

// Paths runs sessions of BFD; a *bfd.Manager does.
type Paths interface {
	Add(c bfd.SessionConfig) (*bfd.Handle, error)
}

// Event is a change of a session.
type Event struct {
	Peer     netip.Addr
	From, To State
	// Cause is why the session was lost.
	Cause Cause
}

// Speaker announces addresses to routers. It belongs to the network namespace of
// the process. All methods are safe for concurrent use.
type Speaker struct {
	config    *config
	log       *slog.Logger
	options   Options
	neighbors []*neighbor
	listeners []net.Listener

	mu     sync.Mutex
	routes map[netip.Prefix]bool // with GRACEFUL_SHUTDOWN
	ending bool
	// strangers are those of whom the log speaks already.
	strangers map[netip.Addr]bool
}

// New makes a Speaker, which speaks with Run. It opens what is to be listened on.
func New(s Settings, o Options) (*Speaker, error) {
	c, errs := s.understand("")
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if !c.routerID.IsValid() {
		var err error
		if c.routerID, err = identifier(); err != nil {
			return nil, err
		}
	}
	sp := &Speaker{config: c, log: o.Log, options: o, routes: map[netip.Prefix]bool{}, strangers: map[netip.Addr]bool{}}
	if sp.log == nil {
		sp.log = slog.New(slog.DiscardHandler)
	}
	for i := range c.peers {
		p := &c.peers[i]
		if p.bfd != nil && o.BFD == nil {
			return nil, fmt.Errorf("peers[%d].bfd: set, but BFD does not run; leave it out", i)
		}
		sp.neighbors = append(sp.neighbors, newNeighbor(sp, p))
	}
	if err := sp.listen(); err != nil {
		sp.hush()
		return nil, err
	}
	return sp, nil
}

// Announce has peers send packets for a prefix here. It takes effect with Run,
// and with every session that comes up.
func (s *Speaker) Announce(p netip.Prefix) { s.change(p, true, false) }

// Drain goes on announcing a prefix, but asks peers to prefer others that do
// (GRACEFUL_SHUTDOWN, RFC 8326).
func (s *Speaker) Drain(p netip.Prefix) { s.change(p, true, true) }

// Withdraw takes a prefix back.
func (s *Speaker) Withdraw(p netip.Prefix) { s.change(p, false, false) }

// Up and Down are Announce and Withdraw of one address.
func (s *Speaker) Up(a netip.Addr) { s.Announce(netip.PrefixFrom(a.WithZone(""), a.BitLen())) }

// Down is the opposite of Up.
func (s *Speaker) Down(a netip.Addr) { s.Withdraw(netip.PrefixFrom(a.WithZone(""), a.BitLen())) }

// Yield is Drain of one address that is announced.
func (s *Speaker) Yield(a netip.Addr) {
	p := netip.PrefixFrom(a.WithZone(""), a.BitLen())
	s.mu.Lock()
	_, announced := s.routes[p]
	s.mu.Unlock()
	if announced {
		s.Drain(p)
	}
}

// Retreat has peers send packets for an address elsewhere before this machine
// ends, as Shutdown says. It returns for how long those that are under way still
// want an answer: 0 if no peer knows of the address.
func (s *Speaker) Retreat(a netip.Addr) time.Duration {
	p := netip.PrefixFrom(a.WithZone(""), a.BitLen())
	s.mu.Lock()
	_, announced := s.routes[p]
	s.mu.Unlock()
	s.change(p, announced && s.config.gshut, true)
	if !announced || !s.heard() {
		return 0
	}
	return s.config.wait
}

// Grace is for how long packets are under way for an address after Down: 0 where
// there is no session.
func (s *Speaker) Grace() time.Duration {
	if !s.heard() {
		return 0
	}
	return min(s.config.wait, defaultWaitWithdraw)
}

// heard says whether there is a session.
func (s *Speaker) heard() bool {
	for _, n := range s.neighbors {
		if n.report().State == Established {
			return true
		}
	}
	return false
}

func (s *Speaker) change(p netip.Prefix, up, drained bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending && up {
		return
	}
	p = p.Masked()
	if old, ok := s.routes[p]; ok == up && old == drained {
		return
	}
	delete(s.routes, p)
	if up {
		s.routes[p] = drained
	}
	s.spread()
}

// spread tells the neighbors of the routes. Called with mu held.
func (s *Speaker) spread() {
	for _, n := range s.neighbors {
		n.offer(maps.Clone(s.routes))
	}
}

// Status tells how the peers are doing.
func (s *Speaker) Status() []PeerStatus {
	var all []PeerStatus
	for _, n := range s.neighbors {
		all = append(all, n.report())
	}
	return all
}

// Run speaks until ctx ends; then it takes its routes back as Shutdown says,
// waits, and ends the sessions.
func (s *Speaker) Run(ctx context.Context) error {
	defer s.hush()
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var g errgroup.Group
	for _, n := range s.neighbors {
		g.Go(func() error { return n.run(living) })
	}
	for _, l := range s.listeners {
		go s.accept(l)
	}
	<-ctx.Done()
	s.leave()
	end()
	return g.Wait()
}

// leave has peers send packets elsewhere while they still can come here. It waits
// for nothing where they have been told before (Retreat).
func (s *Speaker) leave() {
	s.mu.Lock()
	s.ending = true
	told := false
	for p, drained := range s.routes {
		told = told || !drained
		if s.config.gshut {
			s.routes[p] = true
		} else {
			delete(s.routes, p)
		}
	}
	s.spread()
	s.mu.Unlock()
	if told && s.heard() {
		s.log.Info("waiting for routers to go elsewhere", "wait", s.config.wait)
		<-time.After(s.config.wait)
	}
}

func (s *Speaker) listen() error {
	for _, at := range s.config.listen {
		l, err := s.listenOn(at)
		if errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("listen on %v: %w; give the agent the capability NET_BIND_SERVICE, or leave listen out", at, err)
		}
		if err != nil {
			return fmt.Errorf("listen on %v: %w", at, err)
		}
		s.listeners = append(s.listeners, l)
	}
	return nil
}

// Close gives up a Speaker that does not run.
func (s *Speaker) Close() { s.hush() }

// hush closes the listeners.
func (s *Speaker) hush() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
}

// accept hands connections to their neighbors until the listener is closed.
func (s *Speaker) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, perhaps for a moment.
			<-time.After(time.Second)
			continue
		}
		if tcp, ok := c.(*net.TCPConn); !ok || !s.hand(tcp) {
			_ = c.Close()
		}
	}
}

func (s *Speaker) hand(tcp *net.TCPConn) bool {
	remote, ok := tcp.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	from := remote.AddrPort().Addr().Unmap()
	for _, n := range s.neighbors {
		if n.config.address == from {
			return n.accept(tcp)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.strangers) < 64 && !s.strangers[from] {
		s.strangers[from] = true
		s.log.Warn("refused a connection of a router that is not a peer", "from", from)
	}
	return false
}

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

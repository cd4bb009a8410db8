package bfd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/base/realtime"
)

// Linger is for how long at most a peer is told AdminDown at the end: long
// enough for a second packet, which may leave only after a second.
const Linger = 1200 * time.Millisecond

// Options of a Manager.
type Options struct {
	// Listen are the addresses to receive on; nil: all of both families, or of
	// IPv4 alone where the machine has no IPv6.
	Listen []netip.Addr
	Log    *slog.Logger
	// Realtime runs the process before every ordinary one of the machine; see
	// package realtime. It takes CAP_SYS_NICE; without, one line in the log says so.
	Realtime bool
}

// Manager runs sessions on the sockets of one network namespace: that of the
// thread that calls New and Run.
type Manager struct {
	log       *slog.Logger
	realtime  bool
	random    *rand.Rand // the loop's
	start     time.Time
	listeners []*listener
	wakeup    int // an eventfd
	waiter    *waiter

	mu       sync.Mutex // guards the rest
	handles  map[uint32]*Handle
	keys     map[key]*Handle
	commands []func(now time.Duration)
	closed   bool
	ending   bool
	health   Health
	// strangers are those of whom the log speaks already.
	strangers map[netip.Addr]bool

	// empty is when the sockets were last known to be empty; the loop's.
	empty time.Duration
}

// key is what a packet without our discriminator is matched by, RFC 5881
// section 3.
type key struct {
	peer, local netip.Addr
	device      string
}

// Health of a Manager since it was made.
type Health struct {
	// Dropped are all packets that were not taken, those of strangers too.
	Dropped map[Reason]uint64
	// Late counts how often the loop ran more than 20 ms after it was due, and
	// Latest is the longest such time: this machine's own part in a failure.
	Late   uint64
	Latest time.Duration
}

// ErrClosed is returned after Run has ended.
var ErrClosed = errors.New("BFD has ended")

// New opens the port. The caller has to call Run, which closes it.
func New(o Options) (*Manager, error) {
	m := &Manager{
		log: o.Log, realtime: o.Realtime, start: time.Now(), random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), wakeup: -1,
		handles: map[uint32]*Handle{}, keys: map[key]*Handle{}, strangers: map[netip.Addr]bool{},
		health: Health{Dropped: map[Reason]uint64{}},
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if err := m.open(o.Listen); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *Manager) open(addresses []netip.Addr) error {
	every := len(addresses) == 0
	if every {
		addresses = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	for _, a := range addresses {
		l, err := listen(a)
		if every && a.Is6() && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) {
			continue
		}
		if err != nil {
			return err
		}
		m.listeners = append(m.listeners, l)
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("open eventfd: %w", err)
	}
	m.wakeup = fd
	fds := []int{fd}
	for _, l := range m.listeners {
		fds = append(fds, l.fd)
	}
	m.waiter, err = newWaiter(fds...)
	return err
}

// Add adds a session, which starts at once, or with Run.
func (m *Manager) Add(c SessionConfig) (*Handle, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.plain()
	h := &Handle{
		manager: m, config: c, since: time.Now(), complained: map[Reason]bool{},
		counters: Counters{Dropped: map[Reason]uint64{}},
		log:      m.log.With("peer", c.Peer, "interface", c.Interface),
	}
	if err := m.register(h); err != nil {
		return nil, err
	}
	m.post(func(now time.Duration) {
		m.perform(h, func() []Action { return h.session.Start(now) })
	})
	return h, nil
}

func (m *Manager) register(h *Handle) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := key{h.config.Peer, h.config.Local, h.config.Interface}
	switch {
	case m.closed || m.ending:
		return ErrClosed
	case m.keys[k] != nil:
		return fmt.Errorf("peer: %v has a session already; name it once, or with another local address or interface", h.config.Peer)
	}
	// Neither predictable nor 0, RFC 5880 section 6.3.
	for h.discr == 0 || m.handles[h.discr] != nil {
		h.discr = rand.Uint32()
	}
	h.session = NewSession(h.discr, h.config.Timers, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	h.sender = &sender{
		peer: h.config.Peer, local: h.config.Local, device: h.config.Interface, fd: -1,
		random: m.random, taken: func(port int) bool { return m.taken(h, port) },
	}
	m.handles[h.discr], m.keys[k] = h, h
	return nil
}

// taken says whether a session other than h sends from port.
func (m *Manager) taken(h *Handle, port int) bool {
	for _, other := range m.all() {
		if other != h && other.sender.fd >= 0 && other.sender.port == port {
			return true
		}
	}
	return false
}

// forget makes room for a new session with the same peer.
func (m *Manager) forget(h *Handle) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := (key{h.config.Peer, h.config.Local, h.config.Interface}); m.keys[k] == h {
		delete(m.keys, k)
	}
}

func (m *Manager) all() []*Handle {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*Handle, 0, len(m.handles))
	for _, h := range m.handles {
		all = append(all, h)
	}
	return all
}

// Health tells how the manager itself is doing.
func (m *Manager) Health() Health {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.health
	h.Dropped = map[Reason]uint64{}
	for _, r := range Reasons {
		h.Dropped[r] = m.health.Dropped[r]
	}
	return h
}

// post has the loop run f.
func (m *Manager) post(f func(now time.Duration)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.commands = append(m.commands, f)
	m.wake()
}

// wake ends the wait of the loop. Called with mu held, so that the descriptor is
// open.
func (m *Manager) wake() {
	if m.wakeup >= 0 {
		_, _ = unix.Write(m.wakeup, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// Run serves the sessions until ctx ends; then it tells all peers AdminDown,
// for at most Linger. Packets are sent by the calling goroutine.
func (m *Manager) Run(ctx context.Context) error {
	defer m.close()
	stop := context.AfterFunc(ctx, func() { m.post(m.end) })
	defer stop()
	if m.realtime {
		leave, err := realtime.Enter(m.log)
		defer leave()
		if err != nil {
			m.log.Warn("BFD runs as ordinary processes do", "error", err)
		}
	}
	return m.loop()
}

// end lets all sessions go.
func (m *Manager) end(now time.Duration) {
	m.mu.Lock()
	m.ending = true
	m.mu.Unlock()
	for _, h := range m.all() {
		m.leave(h, now)
	}
}

func (m *Manager) close() {
	for _, h := range m.all() {
		h.sender.close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.waiter != nil {
		m.waiter.close()
		m.waiter = nil
	}
	for _, l := range m.listeners {
		l.close()
	}
	m.listeners = nil
	if m.wakeup >= 0 {
		_ = unix.Close(m.wakeup)
		m.wakeup = -1
	}
}

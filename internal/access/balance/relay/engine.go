package relay

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxLoops: more would not help, the kernel does most of the work.
	maxLoops = 4
	// reservedFiles are descriptors left to the rest of the process: logs,
	// checks of backends, configuration.
	reservedFiles = 128
	// imbalance is by how many connections a loop must be ahead before it
	// gives new ones away. With 4, sixteen kept connections ended up 10 to 6, at a
	// tenth less requests per second.
	imbalance = 2
)

// Options of an Engine. The zero value is usable.
type Options struct {
	// Loops is the number of event loops; 0 means one per processor that Go
	// uses, at most 4.
	Loops int
	// Log gets faults of the engine itself, not of connections. Default: none.
	Log *slog.Logger
	// Observe is called on a loop for each event; it must not block, nor call
	// Listener.Close. Several loops call it at a time.
	Observe func(Event)
	// MaxAgePerSecond bounds the connections closed by Frontend.MaxAge;
	// default 10.
	MaxAgePerSecond int
}

// Engine carries the connections of all frontends.
type Engine struct {
	log     *slog.Logger
	observe func(Event)
	loops   []*loop
	stop    atomic.Bool
	// capacity is the number of sessions that the descriptors suffice for.
	capacity atomic.Int64
	sessions atomic.Int64
	// waiting is the number of clients in queues, paused that of acceptors
	// that have stopped at a limit.
	waiting, paused atomic.Int64
	ages            ages

	mu        sync.Mutex
	started   bool
	listeners []*Listener
	drained   chan struct{}
}

// New makes an engine; Run starts it and frees it.
func New(o Options) (*Engine, error) {
	n := o.Loops
	if n <= 0 {
		n = min(runtime.GOMAXPROCS(0), maxLoops)
	}
	e := &Engine{log: o.Log, observe: o.Observe}
	sessions, pipes := room(descriptors(), int64(n))
	e.capacity.Store(sessions)
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.observe == nil {
		e.observe = func(Event) {}
	}
	if e.ages.perSecond = o.MaxAgePerSecond; e.ages.perSecond <= 0 {
		e.ages.perSecond = 10
	}
	for i := range n {
		l, err := newLoop(e, i)
		if err != nil {
			for _, l := range e.loops {
				l.release()
			}
			return nil, fmt.Errorf("make relay: %w", err)
		}
		l.pipes.quota = pipes
		e.loops = append(e.loops, l)
	}
	return e, nil
}

// descriptors is how many the process may have.
func descriptors() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1 << 30
	}
	return int64(min(limit.Cur, 1<<30))
}

// room divides descriptors: pipes (two each) get an eighth at most, and
// sessions (two sockets each) what is left then. The pipes are per loop.
func room(limit, loops int64) (sessions int64, pipes int) {
	left := max(limit-reservedFiles, 16)
	each := min(maxPipes, left/16/loops)
	return left/2 - each*loops, int(each)
}

// Run carries connections until ctx ends; then every connection is reset and
// every listener closed. It returns nil.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	e.started = true
	e.mu.Unlock()
	var wg sync.WaitGroup
	for _, l := range e.loops {
		wg.Go(func() { l.run(&e.stop) })
	}
	<-ctx.Done()
	e.stop.Store(true)
	for _, l := range e.loops {
		l.post(func(*loop) {})
	}
	wg.Wait()
	for _, ln := range e.current() {
		_ = ln.Close()
	}
	return nil
}

// readMailAtRest does the loops' work before Run.
func (e *Engine) readMailAtRest() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		return
	}
	for _, l := range e.loops {
		l.readMail()
	}
}

// Serve accepts clients from a listening socket, of which it keeps a duplicate
// (and makes it non-blocking): close l afterwards.
func (e *Engine) Serve(f Frontend, l *os.File) (*Listener, error) {
	if f.Picker == nil {
		return nil, fmt.Errorf("serve frontend %s: %w", f.Name, errNoPicker)
	}
	fd, err := duplicate(l)
	if err != nil {
		return nil, fmt.Errorf("serve frontend %s: %w", f.Name, err)
	}
	ln := &Listener{engine: e, fd: fd}
	ln.Update(f)
	e.mu.Lock()
	e.listeners = append(e.listeners, ln)
	e.mu.Unlock()
	for _, l := range e.loops {
		ln.attached.Add(1)
		if !l.post(func(l *loop) { l.attach(ln) }) {
			ln.attached.Done()
		}
	}
	return ln, nil
}

// duplicate works on the raw descriptor: Fd would take it from the runtime.
func duplicate(l *os.File) (int, error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var dupErr error
	if err := raw.Control(func(original uintptr) {
		if fd, dupErr = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0); dupErr == nil {
			dupErr = unix.SetNonblock(fd, true)
		}
	}); err != nil {
		return -1, err
	}
	return fd, dupErr
}

// Reset closes the connections to a target with RST on both sides, in random
// order evenly over spread (0: 300 ms), the first batch at once. Clients that
// the target has not spoken to yet are given another target. cause stands in
// the events.
func (e *Engine) Reset(t *Target, cause string, spread time.Duration) {
	if spread == 0 {
		spread = 300 * time.Millisecond
	}
	for _, l := range e.loops {
		l.post(func(l *loop) { l.reset(t, cause, spread) })
	}
}

// Rebalance resets at most n connections to a target, quiet ones only: those on
// which no byte has passed for 100 ms, or for 3 s where the client spoke last.
func (e *Engine) Rebalance(t *Target, n int) {
	left := &atomic.Int64{}
	left.Store(int64(n))
	for _, l := range e.loops {
		l.post(func(l *loop) { l.rebalance(t, left) })
	}
}

// Wake lets clients that wait ask again: the backends have changed.
func (e *Engine) Wake() {
	if e.waiting.Load() == 0 {
		return
	}
	for _, ln := range e.current() {
		ln.mu.Lock()
		for _, q := range ln.queues {
			q.wake()
		}
		ln.mu.Unlock()
	}
}

// Active is the number of open client connections.
func (e *Engine) Active() int { return int(e.sessions.Load()) }

// Drained returns a channel that is closed when no client connection is open,
// at once if so now. Close the listeners first.
func (e *Engine) Drained() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.drained == nil {
		e.drained = make(chan struct{})
	}
	c := e.drained
	e.checkDrained()
	return c
}

// checkDrained is called with mu held.
func (e *Engine) checkDrained() {
	if e.drained != nil && e.sessions.Load() == 0 {
		close(e.drained)
		e.drained = nil
	}
}

// current returns the listeners at work.
func (e *Engine) current() []*Listener {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.listeners)
}

func (e *Engine) forget(ln *Listener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners = slices.DeleteFunc(e.listeners, func(x *Listener) bool { return x == ln })
}

// reserve counts one more client unless a limit is reached.
func (e *Engine) reserve(ln *Listener) bool {
	limit := int64(ln.set.Load().MaxConns)
	if n := ln.active.Add(1); limit > 0 && n > limit {
		ln.active.Add(-1)
		return false
	}
	if e.sessions.Add(1) > e.capacity.Load() {
		e.unreserve(ln)
		return false
	}
	return true
}

func (e *Engine) unreserve(ln *Listener) {
	ln.active.Add(-1)
	e.sessions.Add(-1)
}

// released: a client's session has ended.
func (e *Engine) released(ln *Listener) {
	e.unreserve(ln)
	e.resume()
	if e.sessions.Load() == 0 {
		e.mu.Lock()
		e.checkDrained()
		e.mu.Unlock()
	}
}

// resume lets loops accept again that stopped at a limit.
func (e *Engine) resume() {
	if e.paused.Load() == 0 {
		return
	}
	for _, l := range e.loops {
		l.post((*loop).rearm)
	}
}

// lightest returns the loop that should take the next client.
func (e *Engine) lightest(l *loop) *loop {
	best := l
	for _, other := range e.loops {
		if other.sessions.Load() < best.sessions.Load() {
			best = other
		}
	}
	if l.sessions.Load()-best.sessions.Load() < imbalance {
		return l
	}
	return best
}

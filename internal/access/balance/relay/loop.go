package relay

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// bufferSize is what one read takes at most: 64 kB is where larger reads
	// stopped to gain.
	bufferSize = 64 << 10
	// longest is how long a loop without alarms sleeps.
	longest = time.Hour
	// wakeSlot marks the descriptor by which other goroutines wake a loop.
	wakeSlot = ^uint32(0)
)

// started is the zero of the engine's clock.
var started = time.Now()

// clock is the time in nanoseconds since the program started, monotonic.
func clock() int64 { return int64(time.Since(started)) }

// loop is one goroutine with one epoll instance. Every connection belongs to
// one loop for life; whatever stands here and in a session is touched by that
// loop only, save the mailbox.
type loop struct {
	engine *Engine
	index  int
	epfd   int
	wakefd int
	// gate is what Go's poller watches; deadline is that of its file.
	gate     *gate
	deadline int64

	// now is the time of the last wake.
	now    int64
	events [128]unix.EpollEvent
	buf    []byte
	slots  slots
	timers timers
	ready  []*session
	groups map[*Target]*group
	pipes  pipes
	random *rand.Rand
	// acceptors stand for the listeners on this loop.
	acceptors map[*Listener]*acceptor
	sweeper   alarm

	// sessions is read by other loops that look for the least busy one.
	sessions atomic.Int64
	mailbox
}

// mailbox carries calls from other goroutines to a loop.
type mailbox struct {
	mu     sync.Mutex
	closed bool
	calls  []func(*loop)
	// pending and asleep order a poster against a loop about to sleep: the
	// poster sets pending and then reads asleep, the loop the other way round.
	pending, asleep atomic.Bool
}

func newLoop(e *Engine, index int) (*loop, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	wakefd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		sysClose(epfd)
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	g, err := newGate(epfd)
	if err != nil {
		sysClose(epfd)
		sysClose(wakefd)
		return nil, err
	}
	l := &loop{
		gate:   g,
		engine: e, index: index, epfd: epfd, wakefd: wakefd, now: clock(),
		buf:    make([]byte, bufferSize),
		groups: map[*Target]*group{}, acceptors: map[*Listener]*acceptor{},
		random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	l.sweeper.fire = (*loop).sweep
	l.pipes.look.fire = (*loop).look
	// Edge-triggered: each post is an edge, and nobody needs to read the count.
	if errno := sysEpollCtl(epfd, unix.EPOLL_CTL_ADD, wakefd, unix.EPOLLIN|unix.EPOLLET, wakeSlot, 0); errno != 0 {
		l.release()
		return nil, fmt.Errorf("watch eventfd: %w", errno)
	}
	return l, nil
}

// post hands a call to the loop; false when the loop has ended.
func (l *loop) post(call func(*loop)) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.calls = append(l.calls, call)
	l.mu.Unlock()
	l.pending.Store(true)
	if l.asleep.Load() {
		one := [8]byte{1}
		_, _ = unix.Write(l.wakefd, one[:])
	}
	return true
}

func (l *loop) readMail() {
	if !l.pending.Load() {
		return
	}
	l.pending.Store(false)
	l.mu.Lock()
	calls := l.calls
	l.calls = nil
	l.mu.Unlock()
	for _, call := range calls {
		call(l)
	}
}

// run goes round until stop says so, and closes what the loop owns.
func (l *loop) run(stop *atomic.Bool) {
	for !stop.Load() {
		n := l.wait()
		l.now = clock()
		for i := range n {
			l.dispatch(&l.events[i])
		}
		l.readMail()
		l.moveReady()
		for a := l.timers.due(l.now); a != nil; a = l.timers.due(l.now) {
			l.fire(a)
		}
	}
	l.shutdown()
}

// wait returns the number of events. It asks without waiting first: on a busy
// loop there is always something, and the Go scheduler need not know.
//
// To wait, the loop parks in Go's own poller, which watches a descriptor of
// ours like any other. A thread blocked in epoll_wait(2) instead would have its
// processor taken away by the runtime's monitor time and again: at 1,000
// requests per second that cost 2.5 times the processor time.
func (l *loop) wait() int {
	n, _ := sysEpollPoll(l.epfd, l.events[:])
	if n > 0 || len(l.ready) > 0 {
		return max(n, 0)
	}
	l.setDeadline()
	l.asleep.Store(true)
	defer l.asleep.Store(false)
	if l.pending.Load() {
		return 0
	}
	l.gate.park()
	n, _ = sysEpollPoll(l.epfd, l.events[:])
	return max(n, 0)
}

// setDeadline makes wait return for the next alarm. An earlier deadline is
// left as it is: to wake once for nothing is cheaper than to move it each time.
func (l *loop) setDeadline() {
	at, ok := l.timers.next()
	if !ok {
		at = l.now + int64(longest)
	}
	if l.deadline > l.now && l.deadline <= at {
		return
	}
	l.deadline = at
	_ = l.gate.file.SetReadDeadline(started.Add(time.Duration(at)))
}

func (l *loop) fire(a *alarm) {
	if a.session != nil {
		a.session.tick()
		return
	}
	a.fire(l)
}

func (l *loop) dispatch(ev *unix.EpollEvent) {
	if uint32(ev.Fd) == wakeSlot {
		return
	}
	s := l.slots.get(uint32(ev.Fd), uint32(ev.Pad))
	switch {
	case s == nil: // closed by an earlier event of this wake
	case s.conn != nil:
		s.conn.note(ev.Events)
		s.conn.session.handle(s.conn, ev.Events)
	case s.acceptor != nil:
		l.accept(s.acceptor)
	}
}

// again puts a session on the list of those with more to do, so that one with
// much to carry does not keep the others waiting.
func (l *loop) again(s *session) {
	if !s.onReady {
		s.onReady = true
		l.ready = append(l.ready, s)
	}
}

func (l *loop) moveReady() {
	todo := len(l.ready)
	for i := range todo {
		s := l.ready[i]
		s.onReady = false
		if s.stage == stageOpen {
			s.move()
		}
	}
	rest := copy(l.ready, l.ready[todo:])
	clear(l.ready[rest:])
	l.ready = l.ready[:rest]
}

// shutdown resets every connection and closes the loop's descriptors. Calls
// that were posted in time still run: somebody may wait for them.
func (l *loop) shutdown() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.readMail()
	for i := range l.slots.table {
		if c := l.slots.table[i].conn; c != nil {
			c.session.end(true)
		}
	}
	for ln := range l.acceptors {
		l.detach(ln)
	}
	l.release()
}

func (l *loop) release() {
	l.pipes.close()
	sysClose(l.wakefd)
	l.gate.file.Close()
	sysClose(l.epfd)
}

package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// acceptBatch is what one loop accepts per wake: few, so that the other
	// loops get their share.
	acceptBatch = 4
	// acceptPause is the wait after accept found no descriptor or memory.
	acceptPause = 50 * time.Millisecond
)

// Listener is a frontend at work.
type Listener struct {
	engine *Engine
	fd     int
	set    atomic.Pointer[settings]

	mu     sync.Mutex
	queues map[string]*queue
	closed bool
	// attached counts the loops that watch fd; the last to leave closes it.
	attached sync.WaitGroup

	clients  clients
	active   atomic.Int64
	accepted atomic.Uint64
	events   [len(eventNames)]atomic.Uint64
}

// acceptor is a listener on one loop.
type acceptor struct {
	ln    *Listener
	slot  uint32
	armed bool
	// paused: not armed because of a limit, until resume or a connection closes.
	paused bool
	resume alarm
}

func (ln *Listener) count(k EventKind) { ln.events[k].Add(1) }

// queueOf returns the queue of a route; it outlives an Update.
func (ln *Listener) queueOf(name string) *queue {
	q := ln.queues[name]
	if q == nil {
		q = &queue{}
		if ln.queues == nil {
			ln.queues = map[string]*queue{}
		}
		ln.queues[name] = q
	}
	return q
}

// Update gives the frontend new settings. They hold for connections accepted
// from now on; socket options of the client's side too.
func (ln *Listener) Update(f Frontend) {
	ln.mu.Lock()
	set := newSettings(f, ln.queueOf)
	if !ln.closed && isInet(ln.fd) {
		set.tune(ln.fd)
	}
	ln.set.Store(set)
	ln.mu.Unlock()
	ln.engine.Wake()
	ln.engine.resume()
}

// File returns a duplicate of the listening socket, to be handed to another
// process. The socket must stay non-blocking there: it is the same one.
func (ln *Listener) File() (*os.File, error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return nil, fmt.Errorf("duplicate listener %s: %w", ln.set.Load().Name, os.ErrClosed)
	}
	fd, err := unix.FcntlInt(uintptr(ln.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate listener %s: %w", ln.set.Load().Name, err)
	}
	return os.NewFile(uintptr(fd), "listener "+ln.set.Load().Name), nil
}

// Active is the number of open connections that came in by this listener.
func (ln *Listener) Active() int { return int(ln.active.Load()) }

// Close stops accepting, and returns when no loop does any more; connections
// go on. The address is free for another socket once the caller's own file is
// closed too. Not to be called from Observe or a Picker.
func (ln *Listener) Close() error {
	ln.mu.Lock()
	if ln.closed {
		ln.mu.Unlock()
		return nil
	}
	ln.closed = true
	ln.mu.Unlock()
	for _, l := range ln.engine.loops {
		l.post(func(l *loop) { l.detach(ln) })
	}
	ln.engine.readMailAtRest()
	ln.attached.Wait()
	ln.engine.forget(ln)
	ln.mu.Lock()
	defer ln.mu.Unlock()
	sysClose(ln.fd)
	return nil
}

// attach makes the loop accept from the listener.
func (l *loop) attach(ln *Listener) {
	a := &acceptor{ln: ln}
	a.resume.fire = func(l *loop) { l.arm(a) }
	a.slot, _ = l.slots.take()
	l.slots.table[a.slot].acceptor = a
	l.acceptors[ln] = a
	l.arm(a)
}

// detach stops accepting from the listener.
func (l *loop) detach(ln *Listener) {
	a := l.acceptors[ln]
	if a == nil {
		return
	}
	l.disarm(a)
	l.unpause(a)
	l.slots.put(a.slot)
	delete(l.acceptors, ln)
	ln.attached.Done()
}

func (l *loop) arm(a *acceptor) {
	if a.armed {
		return
	}
	l.unpause(a)
	generation := l.slots.table[a.slot].generation
	if errno := sysEpollCtl(l.epfd, unix.EPOLL_CTL_ADD, a.ln.fd, listening, a.slot, generation); errno != 0 {
		l.engine.log.Warn("cannot watch listener, trying again", "frontend", a.ln.set.Load().Name, "error", errno)
		l.timers.set(&a.resume, l.now+int64(acceptPause))
		return
	}
	a.armed = true
}

func (l *loop) disarm(a *acceptor) {
	if a.armed {
		_ = sysEpollCtl(l.epfd, unix.EPOLL_CTL_DEL, a.ln.fd, 0, 0, 0)
		a.armed = false
	}
}

// accept takes what waits at the listener, a few at a time.
func (l *loop) accept(a *acceptor) {
	for range acceptBatch {
		if !l.engine.reserve(a.ln) {
			l.pause(a, nil)
			return
		}
		var from sockaddr
		fd, errno := sysAccept(a.ln.fd, &from)
		if errno == 0 {
			l.place(a.ln, fd, from.addrPort())
			continue
		}
		l.engine.unreserve(a.ln)
		switch errno {
		case unix.EAGAIN:
			return
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			l.pause(a, errno)
			return
		}
		// The client left before we came, or the network says why it cannot
		// be reached (accept(2)): the next one is not concerned.
	}
}

// place gives the client to the loop with the fewest, when ours has many more.
func (l *loop) place(ln *Listener, fd int, peer netip.AddrPort) {
	to := l.engine.lightest(l)
	to.sessions.Add(1)
	if to == l || !to.post(func(to *loop) { to.admit(ln, fd, peer) }) {
		l.admit(ln, fd, peer)
	}
}

// pause stops accepting until a connection closes; after an error, for a while
// in any case, because what was lacking may be held by somebody else.
func (l *loop) pause(a *acceptor, errno error) {
	l.disarm(a)
	a.ln.count(AcceptLimited)
	l.engine.observe(Event{Kind: AcceptLimited, Frontend: a.ln.set.Load().Name, Err: errno})
	a.paused = true
	l.engine.paused.Add(1)
	l.timers.set(&a.resume, l.now+int64(acceptPause))
}

func (l *loop) unpause(a *acceptor) {
	l.timers.stop(&a.resume)
	if a.paused {
		a.paused = false
		l.engine.paused.Add(-1)
	}
}

// rearm ends every pause: something was given back.
func (l *loop) rearm() {
	for _, a := range l.acceptors {
		if a.paused {
			l.arm(a)
		}
	}
}

var errNoPicker = errors.New("no picker")

package relay

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// gate lets Go's poller see a loop's epoll instance only while the loop is
// parked. Watched all the time, each event on a busy loop would wake a thread
// of the runtime that finds nothing to do.
//
// It is an epoll instance with one member, the loop's, watched once per opening
// (EPOLLONESHOT).
type gate struct {
	epfd, inner int
	file        *os.File
	raw         syscall.RawConn
	event       [1]unix.EpollEvent
}

func newGate(inner int) (*gate, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	if err := unix.SetNonblock(epfd, true); err != nil {
		sysClose(epfd)
		return nil, fmt.Errorf("prepare epoll: %w", err)
	}
	g := &gate{epfd: epfd, inner: inner, file: os.NewFile(uintptr(epfd), "epoll")}
	if errno := sysEpollCtl(epfd, unix.EPOLL_CTL_ADD, inner, unix.EPOLLONESHOT, 0, 0); errno != 0 {
		g.file.Close()
		return nil, fmt.Errorf("nest epoll: %w", errno)
	}
	// Fails when Go's poller does not take the descriptor.
	if err := g.file.SetReadDeadline(time.Time{}); err != nil {
		g.file.Close()
		return nil, fmt.Errorf("wait for epoll: %w", err)
	}
	if g.raw, err = g.file.SyscallConn(); err != nil {
		g.file.Close()
		return nil, fmt.Errorf("wait for epoll: %w", err)
	}
	return g, nil
}

// park returns when there is an event on the loop, at once if there is one
// already, or when the deadline of file has passed.
func (g *gate) park() {
	opened := false
	// Opened inside: Read forgets events that came before it.
	_ = g.raw.Read(func(uintptr) bool {
		if opened {
			return true
		}
		opened = true
		_ = sysEpollCtl(g.epfd, unix.EPOLL_CTL_MOD, g.inner, unix.EPOLLIN|unix.EPOLLONESHOT, 0, 0)
		return false
	})
	// Take the event, even one that came with the deadline: the next opening
	// would find it there and say nothing.
	_, _ = sysEpollPoll(g.epfd, g.event[:])
}

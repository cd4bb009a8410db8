package relay

import "golang.org/x/sys/unix"

const (
	readable  = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	writable  = unix.EPOLLOUT
	gone      = unix.EPOLLERR | unix.EPOLLHUP
	listening = unix.EPOLLIN | unix.EPOLLEXCLUSIVE
)

// conn is one side's socket. Its events are edges, so what an edge said is
// kept until the kernel says otherwise (EAGAIN, or less than was asked for).
type conn struct {
	fd      int32
	slot    uint32
	session *session
	// attempt is nil for the client's side.
	attempt *attempt
	// in: there may be bytes, or an end, to read. out: there may be room to
	// write. hup: the peer has finished, so reading must go on to the end.
	in, out, hup bool
	// watchesOut: the kernel was asked to tell when there is room. The
	// client's side asks only once it has filled up: a new socket is always
	// writable, and would wake the loop just to say so.
	watchesOut bool
}

// note keeps what an event said.
func (c *conn) note(events uint32) {
	if events&(readable|gone)&^unix.EPOLLET != 0 {
		c.in = true
	}
	if events&(unix.EPOLLRDHUP|gone) != 0 {
		c.hup = true
	}
	if events&(writable|gone) != 0 {
		c.out = true
	}
}

// watch registers the socket with the loop; the descriptor must be open.
func (l *loop) watch(c *conn, events uint32) unix.Errno {
	number, generation := l.slots.take()
	if errno := sysEpollCtl(l.epfd, unix.EPOLL_CTL_ADD, int(c.fd), events, number, generation); errno != 0 {
		l.slots.put(number)
		return errno
	}
	c.slot = number
	c.watchesOut = events&writable != 0
	l.slots.table[number].conn = c
	return 0
}

// full notes that the socket takes no more and asks to be told when it does.
// Should the kernel refuse that (no memory), the session tries again by itself.
func (l *loop) full(c *conn) {
	c.out = false
	if c.watchesOut {
		return
	}
	generation := l.slots.table[c.slot].generation
	if sysEpollCtl(l.epfd, unix.EPOLL_CTL_MOD, int(c.fd), readable|writable, c.slot, generation) != 0 {
		c.out = true
		l.again(c.session)
		return
	}
	c.watchesOut = true
}

// close closes a watched socket, with RST when asked to.
func (l *loop) close(c *conn, reset bool) {
	if c.fd < 0 {
		return
	}
	l.slots.put(c.slot)
	if reset {
		sysSetLinger(int(c.fd))
	}
	sysClose(int(c.fd))
	c.fd = -1
}

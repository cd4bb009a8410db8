package relay

import "golang.org/x/sys/unix"

const (
	// pipeSize is what an unprivileged process may ask for
	// (/proc/sys/fs/pipe-max-size).
	pipeSize = 1 << 20
	// sparePipes are kept per loop; more are closed when given back.
	sparePipes = 4
	// bulkFloor: a wake that carries less is served better by read and write.
	bulkFloor = 48 << 10
)

// pipe is where splice(2) keeps bytes between two sockets.
type pipe struct {
	r, w int
	// held is the number of bytes inside.
	held int
	size int
}

func (p *pipe) holds() int {
	if p == nil {
		return 0
	}
	return p.held
}

// pipes is a loop's stock of empty pipes.
type pipes struct {
	free []*pipe
}

// get returns an empty pipe, or nil when there are no descriptors for one.
func (ps *pipes) get() *pipe {
	if n := len(ps.free); n > 0 {
		p := ps.free[n-1]
		ps.free = ps.free[:n-1]
		return p
	}
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC) != nil {
		return nil
	}
	p := &pipe{r: fds[0], w: fds[1], size: 64 << 10}
	// Refused when the user has too many large pipes: a small one serves too.
	if size, err := unix.FcntlInt(uintptr(p.w), unix.F_SETPIPE_SZ, pipeSize); err == nil {
		p.size = size
	}
	return p
}

// put takes a pipe back, and closes it when it is not empty or not needed.
func (ps *pipes) put(p *pipe) {
	if p.held == 0 && len(ps.free) < sparePipes {
		ps.free = append(ps.free, p)
		return
	}
	sysClose(p.r)
	sysClose(p.w)
}

func (ps *pipes) close() {
	for _, p := range ps.free {
		sysClose(p.r)
		sysClose(p.w)
	}
	ps.free = nil
}

// borrow gives the flow a pipe; without one it goes on with read and write.
func (l *loop) borrow(f *flow) bool {
	if f.pipe == nil {
		if f.pipe = l.pipes.get(); f.pipe == nil {
			f.heat = 0
		}
	}
	return f.pipe != nil
}

// fill moves bytes from the source into the flow's empty pipe.
func (l *loop) fill(f *flow, src *conn) (int, unix.Errno) {
	n, errno := sysSplice(int(src.fd), f.pipe.w, f.pipe.size, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
	switch {
	case errno == unix.EAGAIN:
		// The pipe was empty, so it is the socket that has nothing.
		src.in = false
		return 0, 0
	case errno == unix.EINTR:
		return 0, 0
	case errno != 0:
		return 0, errno
	case n == 0:
		f.eof = true
	}
	f.pipe.held += n
	return n, 0
}

// drain moves the pipe's bytes to the sink.
func (l *loop) drain(f *flow, dst *conn) unix.Errno {
	for f.pipe.holds() > 0 {
		n, errno := sysSplice(f.pipe.r, int(dst.fd), f.pipe.held, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		switch errno {
		case 0:
			f.pipe.held -= n
		case unix.EAGAIN:
			l.full(dst)
			return 0
		case unix.EINTR:
		default:
			return errno
		}
	}
	return 0
}

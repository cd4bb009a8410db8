package relay

import "golang.org/x/sys/unix"

// fill moves bytes from the source into the flow's empty pipe, no more than a
// slow reader may leave in it.
func (l *loop) fill(f *flow, src *conn) (int, unix.Errno) {
	n, errno := sysSplice(int(src.fd), f.pipe.w, fillMost, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
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
			f.pipe.taken += n
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

package relay

import "golang.org/x/sys/unix"

const (
	// firstChunk is what a direction reads at a time until it has shown that
	// it carries much and the other side keeps up: it bounds what is kept for
	// a slow reader.
	firstChunk = 16 << 10
	// pumpBudget is what one direction carries before the others have their turn.
	pumpBudget = 1 << 20
	// bulkWakes is how many wakes in a row must find much to carry before a
	// direction uses a pipe.
	bulkWakes = 4
)

// flow is one direction of a connection, from a source to a sink.
type flow struct {
	// rest is what was read and the sink did not take.
	rest []byte
	pipe *pipe
	// eof: the source has finished. shut: so has all that was read from it.
	// told: the sink knows.
	eof, shut, told bool
	// dead: the sink is gone; what the source says is of no use.
	dead bool
	// heat counts the wakes in a row that found much to carry.
	heat uint8
	// wide: the last reads of the first size were full, and taken by the sink.
	wide bool
	// moved counts bytes read since it was last taken.
	moved int
}

// outcome is how a pump ended.
type outcome int

const (
	// blocked: nothing to do before the next event.
	blocked outcome = iota
	// unfinished: the budget is used up; pump again soon.
	unfinished
	sourceFailed
	sinkFailed
)

// pending says whether something read still waits for the sink.
func (f *flow) pending() bool { return len(f.rest) > 0 || f.pipe.holds() > 0 }

// finished says that nothing more will be carried.
func (f *flow) finished() bool { return f.shut || f.dead }

// pump carries bytes from src to dst until one of them has no more to give or
// to take.
func (l *loop) pump(f *flow, src, dst *conn) (outcome, unix.Errno) {
	budget := pumpBudget
	for !f.finished() {
		if f.pending() {
			if !dst.out {
				return blocked, 0
			}
			if errno := l.flush(f, dst); errno != 0 {
				return sinkFailed, errno
			}
			if f.pending() {
				return blocked, 0
			}
		}
		if f.eof {
			f.shut = true
			break
		}
		if !src.in {
			break
		}
		if budget <= 0 {
			return unfinished, 0
		}
		n, result, errno := l.carry(f, src, dst)
		if errno != 0 {
			return result, errno
		}
		budget -= n
		f.moved += n
	}
	l.rest(f)
	return blocked, 0
}

// carry reads once and passes on what it read.
func (l *loop) carry(f *flow, src, dst *conn) (int, outcome, unix.Errno) {
	if f.heat >= bulkWakes && l.borrow(f) {
		n, errno := l.fill(f, src)
		return n, sourceFailed, errno
	}
	size := firstChunk
	if f.wide {
		size = bufferSize
	}
	n, errno := sysRead(int(src.fd), l.buf[:size])
	switch {
	case errno == unix.EAGAIN:
		src.in = false
		return 0, blocked, 0
	case errno == unix.EINTR:
		return 0, blocked, 0
	case errno != 0:
		return 0, sourceFailed, errno
	case n == 0:
		f.eof = true
		return 0, blocked, 0
	}
	f.wide = f.wide || n == size
	// Less than asked for: the socket is empty, and the next bytes are a new
	// edge (epoll(7)). Unless the end has been announced already.
	if n < size && !src.hup {
		src.in = false
	}
	return n, sinkFailed, l.deliver(f, dst, l.buf[:n])
}

// take returns what was carried since it was last called, once per wake, and
// decides by it whether a pipe is worth its calls.
func (f *flow) take() int {
	n := f.moved
	f.moved = 0
	switch {
	case n == 0:
	case n < bulkFloor:
		f.heat = 0
	case f.heat < bulkWakes:
		f.heat++
	}
	return n
}

// deliver writes b and keeps what the sink does not take.
func (l *loop) deliver(f *flow, dst *conn, b []byte) unix.Errno {
	n, errno := l.send(dst, b)
	if errno != 0 {
		return errno
	}
	if n < len(b) {
		f.rest = append(f.rest, b[n:]...)
		f.wide = false
	}
	return 0
}

// send writes as much as the socket takes.
func (l *loop) send(dst *conn, b []byte) (int, unix.Errno) {
	n, errno := sysSend(int(dst.fd), b)
	switch errno {
	case 0:
	case unix.EAGAIN, unix.EINTR:
		n = 0
	default:
		return 0, errno
	}
	if n < len(b) {
		l.full(dst)
	}
	return n, 0
}

// flush writes what is kept.
func (l *loop) flush(f *flow, dst *conn) unix.Errno {
	if len(f.rest) > 0 {
		n, errno := l.send(dst, f.rest)
		if errno != 0 {
			return errno
		}
		if f.rest = f.rest[n:]; len(f.rest) > 0 {
			return 0
		}
		f.rest = nil
	}
	return l.drain(f, dst)
}

// rest gives the pipe back while nothing moves.
func (l *loop) rest(f *flow) {
	if f.pipe != nil && f.pipe.held == 0 {
		l.pipes.put(f.pipe)
		f.pipe = nil
	}
}

// drop forgets what is kept for a sink that is gone.
func (l *loop) drop(f *flow) {
	f.rest = nil
	if f.pipe != nil {
		l.pipes.put(f.pipe)
		f.pipe = nil
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// raw is a socket in blocking mode. A thread that blocks in the kernel costs
// less than a goroutine parked on the poller: the load generator and what it
// measures share the processors.
type raw int

func (r raw) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(r), b)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (r raw) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Write(int(r), b[done:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// skip throws away up to len(b) bytes; the kernel does not copy them.
func (r raw) skip(b []byte) (int, error) {
	for {
		n, _, err := unix.Recvfrom(int(r), b, unix.MSG_TRUNC)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// sources spreads clients over 127.1.0.0/16: a pair of addresses has only
// some ten thousand ports, and each closed connection keeps one for a while.
var sources atomic.Uint32

func dialRaw(to netip.AddrPort) (raw, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open socket: %w", err)
	}
	n := sources.Add(1)
	from := &unix.SockaddrInet4{Addr: [4]byte{127, 1, byte(n >> 3), byte(1 + n%8)}}
	err = errors.Join(
		// The port is chosen when both ends are known, so that all pairs count.
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.Bind(fd, from),
	)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("connect to %s: %w", to, err)
	}
	return raw(fd), nil
}

// crew is some workers that drive a balancer, each from a thread.
type crew struct {
	to   netip.AddrPort
	stop atomic.Bool
	open []atomic.Int64 // the socket of each worker, plus one
	done []tally
	wg   sync.WaitGroup
	err  error
	once sync.Once
}

// tally is what one worker has done, on a cache line of its own.
type tally struct {
	n atomic.Int64
	_ [56]byte
}

func newCrew(to netip.AddrPort, workers int) *crew {
	return &crew{to: to, open: make([]atomic.Int64, workers), done: make([]tally, workers)}
}

// job does one thing over and over until stop; it adds what it has done to n.
type job func(c *crew, worker int, n *atomic.Int64) error

// span is what a crew did in a stretch of time.
type span struct {
	done    int64
	seconds float64
	cpu     float64 // seconds of processor that a process used meanwhile
}

func (s span) rate() float64 { return float64(s.done) / s.seconds }

// measure lets the crew warm up, then counts for a while. pid is the process
// whose processor time is read.
func (c *crew) measure(ctx context.Context, do job, length time.Duration, pid int) (span, error) {
	workers := len(c.done)
	before := runtime.GOMAXPROCS(workers + 4) // as in serveFast
	defer runtime.GOMAXPROCS(before)
	for i := range workers {
		c.wg.Go(func() {
			if err := do(c, i, &c.done[i].n); err != nil && !c.stop.Load() {
				c.once.Do(func() { c.err = err })
			}
		})
	}
	var s span
	ok := pause(ctx, length/5)
	from, err := process(pid)
	start, n := time.Now(), c.sum()
	ok = ok && pause(ctx, length)
	to, err2 := process(pid)
	s.done, s.seconds = c.sum()-n, time.Since(start).Seconds()
	s.cpu = to.cpu - from.cpu
	c.end()
	if !ok {
		return s, ctx.Err()
	}
	return s, errors.Join(c.err, err, err2)
}

func (c *crew) sum() int64 {
	sum := int64(0)
	for i := range c.done {
		sum += c.done[i].n.Load()
	}
	return sum
}

// end stops the workers; one that hangs loses its socket.
func (c *crew) end() {
	c.stop.Store(true)
	ended := make(chan struct{})
	go func() { c.wg.Wait(); close(ended) }()
	for {
		select {
		case <-ended:
			return
		case <-time.After(time.Second):
		}
		for i := range c.open {
			if fd := c.open[i].Load(); fd > 0 {
				_ = unix.Shutdown(int(fd-1), unix.SHUT_RDWR)
			}
		}
	}
}

// dial opens the socket of a worker.
func (c *crew) dial(worker int) (raw, error) {
	r, err := dialRaw(c.to)
	if err == nil {
		c.open[worker].Store(int64(r) + 1)
	}
	return r, err
}

func (c *crew) close(worker int, r raw) {
	c.open[worker].Store(0)
	_ = unix.Close(int(r))
}

func message(kind byte) []byte {
	b := make([]byte, messageSize)
	b[0] = kind
	return b
}

// shortJob counts connections: connect, ask, read the answer, close.
func shortJob(c *crew, worker int, n *atomic.Int64) error {
	ask, got := message(wantReply), make([]byte, messageSize)
	for !c.stop.Load() {
		r, err := c.dial(worker)
		if err == nil {
			err = exchange(r, ask, got)
			c.close(worker, r)
		}
		if err != nil {
			return err
		}
		n.Add(1)
	}
	return nil
}

// requestJob counts requests over one kept connection.
func requestJob(c *crew, worker int, n *atomic.Int64) error {
	r, err := c.dial(worker)
	if err != nil {
		return err
	}
	defer c.close(worker, r)
	ask, got := message(wantReply), make([]byte, messageSize)
	for !c.stop.Load() {
		if err := exchange(r, ask, got); err != nil {
			return err
		}
		n.Add(1)
	}
	return nil
}

// streamJob counts bytes that come from a backend.
func streamJob(c *crew, worker int, n *atomic.Int64) error {
	r, err := c.dial(worker)
	if err != nil {
		return err
	}
	defer c.close(worker, r)
	if _, err := r.Write(message(wantStream)); err != nil {
		return err
	}
	buffer := make([]byte, chunk)
	for !c.stop.Load() {
		got, err := r.skip(buffer)
		if err != nil {
			return err
		}
		n.Add(int64(got))
	}
	return nil
}

func exchange(r raw, ask, got []byte) error {
	if _, err := r.Write(ask); err != nil {
		return err
	}
	_, err := io.ReadFull(r, got)
	return err
}

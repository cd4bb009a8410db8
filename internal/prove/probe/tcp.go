package probe

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// newTCP returns the attempter of a tcp:// path. A handshake proves that the
// peer's kernel listens; an echo proves that its process runs.
func newTCP(p *Path) attempter {
	switch {
	case p.Kind == KindEcho:
		return attempts(p, func(ctx context.Context) (*echoLink, error) { return dialEcho(ctx, p) }, exchange)
	case p.Mode == ModeNew:
		return attempts(p, func(ctx context.Context) (*bareLink, error) {
			w, err := dialWire(ctx, p.address())
			return &bareLink{w}, err
		}, func(_ context.Context, l *bareLink) outcome {
			return outcome{local: l.local(), peer: l.peer()}
		})
	}
	return attempts(p, func(ctx context.Context) (*heldLink, error) { return dialHeld(ctx, p) }, hold)
}

// bareLink is a TCP connection of which only the handshake matters.
type bareLink struct{ *wire }

func (l *bareLink) gone() error { return l.broken() }
func (l *bareLink) close()      { _ = l.Close() }

// heldLink is an idle TCP connection. The peer's kernel acknowledges a
// keepalive every second, the shortest period there is, so a sample waits up
// to a second for the next sign.
type heldLink struct {
	*wire
	*progress
	patience time.Duration
	stop     chan struct{}
}

// keepaliveProbes is how many go unanswered before the kernel itself gives up:
// as many seconds as giveUpAfter.
const keepaliveProbes = int(giveUpAfter / time.Second)

func dialHeld(ctx context.Context, p *Path) (*heldLink, error) {
	w, err := dialWire(ctx, p.address())
	if err != nil {
		return nil, err
	}
	l := &heldLink{wire: w, progress: &progress{}, patience: p.patience(), stop: make(chan struct{})}
	err = w.Conn.(*net.TCPConn).SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: time.Second, Interval: time.Second, Count: keepaliveProbes,
	})
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("set keepalive: %w", err)
	}
	go l.read()
	go l.listen()
	return l, nil
}

// read notices the end of the connection, and takes data for signs.
func (l *heldLink) read() {
	buf := make([]byte, 4096)
	for {
		n, err := l.Read(buf)
		if n > 0 {
			l.sign(time.Now())
		}
		if err != nil {
			l.fail(fmt.Errorf("held connection ended: %w", err))
			return
		}
	}
}

// listen asks the kernel, 40 times a second, when the last acknowledgement came.
func (l *heldLink) listen() {
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			if age, err := sinceAck(l.Conn.(*net.TCPConn)); err == nil {
				l.sign(time.Now().Add(-age))
			}
		}
	}
}

// sinceAck returns how long ago the peer last acknowledged anything
// (tcpi_last_ack_recv, in milliseconds).
func sinceAck(c *net.TCPConn) (time.Duration, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var info *unix.TCPInfo
	var infoErr error
	err = raw.Control(func(fd uintptr) {
		info, infoErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil || infoErr != nil {
		return 0, fmt.Errorf("read TCP_INFO: %w", or(err, infoErr))
	}
	return time.Duration(info.Last_ack_recv) * time.Millisecond, nil
}

func (l *heldLink) gone() error { return l.progress.broken(l.patience) }

func (l *heldLink) close() {
	close(l.stop)
	_ = l.Close()
}

func hold(ctx context.Context, l *heldLink) outcome {
	return outcome{err: l.wait(ctx, l.progress.ask()), local: l.local(), peer: l.peer()}
}

// echoLink sends numbered lines and matches the lines that come back.
type echoLink struct {
	*wire
	next    atomic.Uint64
	mu      sync.Mutex
	waiting map[string]chan error
	err     error
}

func dialEcho(ctx context.Context, p *Path) (*echoLink, error) {
	w, err := dialWire(ctx, p.address())
	if err != nil {
		return nil, err
	}
	l := &echoLink{wire: w, waiting: map[string]chan error{}}
	go l.read()
	return l, nil
}

func (l *echoLink) read() {
	lines := bufio.NewScanner(l.wire)
	for lines.Scan() {
		l.mu.Lock()
		if w, ok := l.waiting[lines.Text()]; ok {
			w <- nil
			delete(l.waiting, lines.Text())
		}
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = or(lines.Err(), io.EOF)
	for _, w := range l.waiting {
		w <- l.err
	}
	l.waiting = nil
}

func exchange(ctx context.Context, l *echoLink) outcome {
	o := outcome{local: l.local(), peer: l.peer()}
	line := fmt.Sprintf("holdfast-probe %d", l.next.Add(1))
	done := make(chan error, 1)
	l.ask()
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		o.err = l.err
		return o
	}
	l.waiting[line] = done
	l.mu.Unlock()
	if _, err := io.WriteString(l.wire, line+"\n"); err != nil {
		o.err = fmt.Errorf("send line: %w", err)
		return o
	}
	select {
	case o.err = <-done:
	case <-ctx.Done():
		o.err = fmt.Errorf("wait for echo: %w", ctx.Err())
		l.mu.Lock()
		delete(l.waiting, line)
		l.mu.Unlock()
	}
	return o
}

func (l *echoLink) gone() error { return l.broken() }
func (l *echoLink) close()      { _ = l.Close() }

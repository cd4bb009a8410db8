package delay

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// maxPacket is the largest packet a TUN device hands over: the IP length field
// has 16 bits.
const maxPacket = 1 << 16

// Alarm waits for points in time.
type Alarm interface {
	// Until returns when t has come, or an error when the alarm was closed.
	Until(t time.Time) error
	Close() error
}

// Line carries packets one way from src to dst. Each Read of src gives one
// packet, each Write to dst takes one.
type Line struct {
	src   io.Reader
	dst   io.Writer
	alarm Alarm

	mu    sync.Mutex
	queue Queue
	// more wakes the writer when the queue was empty.
	more chan struct{}
	// free holds buffers to use again; a packet a time is allocated only
	// while the number under way grows.
	free [][]byte
}

// NewLine makes a line with the given profile.
func NewLine(src io.Reader, dst io.Writer, alarm Alarm, p Profile) *Line {
	l := &Line{src: src, dst: dst, alarm: alarm, more: make(chan struct{}, 1)}
	l.queue.Set(p)
	return l
}

// Set changes the profile for packets still to come.
func (l *Line) Set(p Profile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.Set(p)
}

// Receive reads packets until src fails, and then ends Send.
func (l *Line) Receive() error {
	defer close(l.more)
	buf := make([]byte, maxPacket)
	for {
		n, err := l.src.Read(buf)
		if err != nil {
			return fmt.Errorf("read packet: %w", err)
		}
		if l.accept(time.Now(), buf[:n]) {
			select {
			case l.more <- struct{}{}:
			default:
			}
		}
	}
}

// accept queues a copy of data and reports whether the queue was empty.
func (l *Line) accept(now time.Time, data []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var buf []byte
	if n := len(l.free); n > 0 {
		buf, l.free = l.free[n-1], l.free[:n-1]
	}
	buf = append(buf[:0], data...)
	luck := Luck{Loss: rand.Float64(), Jitter: rand.Float64()}
	if !l.queue.Push(now, buf, luck) {
		l.recycle(buf)
		return false
	}
	return l.queue.Len() == 1
}

// Send writes packets when they are due, until Receive ends or the alarm is
// closed. A packet that dst refuses is lost, as on a wire.
func (l *Line) Send() error {
	for {
		p, ok := l.next()
		if !ok {
			if _, open := <-l.more; !open {
				return nil
			}
			continue
		}
		if err := l.alarm.Until(p.Due); err != nil {
			return fmt.Errorf("wait for packet: %w", err)
		}
		_, _ = l.dst.Write(p.Data)
		l.done(p)
	}
}

func (l *Line) next() (Packet, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Next()
}

func (l *Line) done(p Packet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.Pop()
	l.recycle(p.Data)
}

// recycle keeps a few hundred small buffers: what is under way at 100 Mbit/s
// and 20 ms.
func (l *Line) recycle(buf []byte) {
	if len(l.free) < 256 && cap(buf) <= 4096 {
		l.free = append(l.free, buf)
	}
}

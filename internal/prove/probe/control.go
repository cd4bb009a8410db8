package probe

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"
)

// LagLimit is the lag beyond which a prober counts as starved: half of the
// shortest outage that anyone acts on.
const LagLimit = 500 * time.Millisecond

// loopback is a tiny echo server in the prober itself. The path to it fails
// only when the prober's own machine or process does.
type loopback struct {
	net.Listener
	serving sync.WaitGroup
}

// listenLoopback listens on the loopback of the network namespace that the
// calling thread is in.
func listenLoopback() (*loopback, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		if l, err = net.Listen("tcp6", "[::1]:0"); err != nil {
			return nil, fmt.Errorf("listen on loopback for the control path: %w (is lo up? control.off does without)", err)
		}
	}
	b := &loopback{Listener: l}
	b.serving.Go(b.serve)
	return b, nil
}

func (b *loopback) serve() {
	for {
		c, err := b.Accept()
		if err != nil {
			return
		}
		b.serving.Go(func() {
			defer func() { _ = c.Close() }()
			// A prober's connection ends with its sample; the deadline is for strays.
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.Copy(c, c)
		})
	}
}

func (b *loopback) close() {
	_ = b.Listener.Close()
	b.serving.Wait()
}

// path is the control path, as frequent as the most frequent of the others.
func (b *loopback) path(c *Config, others []Path) Path {
	p := Path{
		Name: c.controlName(), URL: &url.URL{Scheme: "tcp", Host: b.Addr().String()},
		Kind: KindEcho, Mode: ModeNew, Interval: DefaultInterval, Timeout: DefaultTimeout,
		Slow: or(c.Slow, DefaultSlow), Control: true,
	}
	for _, o := range others {
		p.Interval = min(p.Interval, o.Interval)
	}
	return p
}

package server

import (
	"net"
	"sync"
)

// mostPerHost is for two agents behind one address, each in its race of 16 changes,
// and people who look on. More than that may not keep others out.
const mostPerHost = 48

// perHost closes at once what one address opens beyond its share.
type perHost struct {
	net.Listener

	mu   sync.Mutex
	open map[string]int
}

func limitPerHost(l net.Listener) net.Listener {
	return &perHost{Listener: l, open: map[string]int{}}
}

func (p *perHost) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err == nil && p.take(host) {
			return &counted{Conn: c, free: sync.OnceFunc(func() { p.free(host) })}, nil
		}
		_ = c.Close() // nothing was read from it
	}
}

func (p *perHost) take(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[host] >= mostPerHost {
		return false
	}
	p.open[host]++
	return true
}

func (p *perHost) free(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[host]--; p.open[host] == 0 {
		delete(p.open, host)
	}
}

// counted gives its place back when it is closed.
type counted struct {
	net.Conn
	free func()
}

func (c *counted) Close() error {
	c.free()
	return c.Conn.Close()
}

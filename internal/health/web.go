package health

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// question is what a web Prober asks on a connection.
type question interface {
	ask(ctx context.Context, w *wire) Result
}

// web is a Prober over HTTP/1.1, which costs both sides less than HTTP/2 for
// one request at a time. It keeps the newest connection that has answered, so
// that each fresh probe also renews credentials and paths.
type web struct {
	dialler
	question question
	lost     chan struct{}
	readers  sync.WaitGroup

	mu     sync.Mutex
	born   uint64
	kept   *wire
	busy   bool // kept has a request
	closed bool
}

func newWeb(d dialler, q question) *web {
	return &web{dialler: d, question: q, lost: make(chan struct{}, 1)}
}

// Probe implements Prober.
func (p *web) Probe(ctx context.Context, fresh bool) Result {
	w := p.take(fresh)
	if w == nil {
		return p.renew(ctx)
	}
	r := p.question.ask(ctx, w)
	p.give(w)
	return r
}

// renew probes on a new connection.
func (p *web) renew(ctx context.Context) Result {
	made := p.credentials() // before the handshake, so never newer than what it shows
	conn, rtt, err := p.dial(ctx)
	if err != nil {
		r := gradeError(ctx, err, rtt > 0, p.authenticated())
		r.Fresh, r.NewOnly, r.RTT = true, true, rtt
		return r
	}
	w := newWire(conn, p.bear())
	w.made = made
	w.ended = func(announced bool) { p.bury(w, announced) }
	p.readers.Go(w.read)
	r := p.question.ask(ctx, w)
	r.Fresh, r.NewOnly, r.RTT = true, !w.usable(), rtt
	p.give(w)
	return r
}

func (p *web) authenticated() bool {
	a, ok := p.question.(interface{ shows() bool })
	return ok && a.shows()
}

// take returns the kept connection for one request, or nil. One that would not
// come about today is dropped, so that the probe verifies and is verified anew.
func (p *web) take(fresh bool) *wire {
	w := p.reserve(fresh)
	if w == nil || p.standsToday(w) {
		return w
	}
	w.close()
	p.give(w)
	return nil
}

func (p *web) reserve(fresh bool) *wire {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fresh || p.busy || p.kept == nil || !p.kept.usable() {
		return nil
	}
	p.busy = true
	return p.kept
}

// bear numbers a new connection.
func (p *web) bear() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.born++
	return p.born
}

// give takes a connection back after its request, and keeps it if it is usable
// and the newest.
func (p *web) give(w *wire) {
	p.mu.Lock()
	var drop *wire
	usable := w.usable() && !p.closed
	switch {
	case p.kept == w:
		p.busy = false
		if !usable {
			p.kept, drop = nil, w
		}
	case !usable, p.kept != nil && p.kept.born > w.born:
		drop = w
	default:
		if !p.busy { // a busy one is closed when it is given back
			drop = p.kept
		}
		p.kept, p.busy = w, false
	}
	p.mu.Unlock()
	if drop != nil {
		drop.close()
	}
}

// bury forgets a connection that has ended.
func (p *web) bury(w *wire, announced bool) {
	p.mu.Lock()
	own := p.kept == w
	if own {
		p.kept = nil
	}
	p.mu.Unlock()
	if own && !announced {
		select {
		case p.lost <- struct{}{}:
		default:
		}
	}
}

// Lost implements Prober.
func (p *web) Lost() <-chan struct{} { return p.lost }

// Close implements Prober.
func (p *web) Close() {
	p.mu.Lock()
	p.closed = true
	kept := p.kept
	p.mu.Unlock()
	if kept != nil {
		kept.close()
	}
	p.readers.Wait()
}

// request renders a GET request; authorization may be empty.
func request(host, path, authorization string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: holdfast-health\r\nAccept: */*\r\n", path, host)
	if authorization != "" {
		fmt.Fprintf(&b, "Authorization: %s\r\n", authorization)
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

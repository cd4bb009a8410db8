package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// maxBody is how much of an answer a sample reads: a health endpoint says less
// than a page, and a longer one must not turn the prober into a load.
const maxBody = 1 << 20

// httpPath asks one URL. HTTP/2 is used where the server offers it; then a
// reused connection carries overlapping samples. Over HTTP/1.1 they take turns
// on it, as the protocol wants, and the wait is part of their latency; if the
// connection ends before their turn they go on to the next.
type httpPath struct {
	*Path
	tls *tls.Config
	// attempts counts them, for Request.Turns.
	attempts atomic.Uint64
}

func newHTTP(p *Path) (attempter, error) {
	h := &httpPath{Path: p}
	if p.Secure {
		var err error
		if h.tls, err = p.TLS.load(p.host()); err != nil {
			return nil, err
		}
	}
	if p.Mode == ModeStream {
		return attempts(p, h.open, h.follow), nil
	}
	return attempts(p, h.dial, h.get), nil
}

// httpLink is one connection to an HTTP server.
type httpLink struct {
	*http.ClientConn
	wire *wire
	// turn has room for one where the protocol carries one request at a time;
	// nil otherwise.
	turn chan struct{}
	// retired is set when the connection takes no more requests although its
	// wire is whole: GOAWAY, "Connection: close", or an HTTP/1.1 request that
	// timed out and took its connection with it.
	retired atomic.Bool
}

// dial connects TCP first, so that the link knows its wire whatever the
// transport does with it.
func (h *httpPath) dial(ctx context.Context) (*httpLink, error) {
	w, err := dialWire(ctx, h.address())
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		TLSClientConfig:    h.tls.Clone(),
		ForceAttemptHTTP2:  true,
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return w, nil },
	}
	cc, err := t.NewClientConn(ctx, h.URL.Scheme, h.address())
	if err != nil {
		_ = w.Close()
		return nil, explainDial(ctx, w, err)
	}
	l := &httpLink{ClientConn: cc, wire: w}
	if cc.Available() == 1 {
		l.turn = make(chan struct{}, 1)
	}
	cc.SetStateHook(func(cc *http.ClientConn) {
		if cc.Err() != nil && w.broken() == nil {
			l.retired.Store(true)
		}
	})
	return l, nil
}

// explainDial puts a broken wire or the end of the time in front of what the
// transport made of it.
func explainDial(ctx context.Context, w *wire, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("connect: %w", ctx.Err())
	}
	if broke := w.broken(); broke != nil && Classify(err) == ClassOther {
		return fmt.Errorf("connect: %w", broke)
	}
	return err
}

// gone tells an orderly goodbye from a break; what follows a goodbye on the
// wire does not matter.
func (l *httpLink) gone() error {
	if l.retired.Load() {
		return errRetired
	}
	if err := l.wire.broken(); err != nil {
		return err
	}
	if l.Err() != nil {
		return errRetired
	}
	return nil
}

// begin waits for the turn of a request and end gives it on.
func (l *httpLink) begin(ctx context.Context) error {
	if l.turn == nil {
		return nil
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := l.gone(); err != nil {
		l.end()
		return err
	}
	return nil
}

func (l *httpLink) end() {
	if l.turn != nil {
		<-l.turn
	}
}

func (l *httpLink) close() {
	_ = l.Close()
	_ = l.wire.Close()
}

func (h *httpPath) get(ctx context.Context, l *httpLink) outcome {
	o := outcome{local: l.wire.local(), peer: l.wire.peer()}
	if o.err = l.begin(ctx); o.err != nil {
		return o
	}
	defer l.end()
	resp, err := h.ask(ctx, l)
	if err != nil {
		o.err = explainHTTP(ctx, l, err)
		return o
	}
	defer func() { _ = resp.Body.Close() }()
	o.code = resp.StatusCode
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)); err != nil {
		o.err = explainHTTP(ctx, l, err)
		return o
	}
	if !h.expect.has(o.code) {
		o.err = codeError(o.code)
	}
	return o
}

func (h *httpPath) ask(ctx context.Context, l *httpLink) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, h.Request.Method, h.Request.url(h.URL, h.attempts.Add(1)-1), h.Request.body(time.Now()))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("User-Agent", "holdfast-probe")
	if h.Request.Body != "" {
		req.Header.Set("Content-Type", h.Request.ContentType)
	}
	l.wire.ask()
	return l.RoundTrip(req)
}

// explainHTTP puts the cause in front of what the library made of it: the
// sample's own timeout, a goodbye that came before the request, or the break of
// the connection.
func explainHTTP(ctx context.Context, l *httpLink, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for answer: %w", ctx.Err())
	}
	if l.retired.Load() {
		return errRetired
	}
	if unserved(err) {
		// The hook of the connection's state may come later than this.
		l.retired.Store(true)
		return errRetired
	}
	if broke := l.wire.broken(); broke != nil {
		return fmt.Errorf("connection broke: %w", broke)
	}
	return err
}

// unserved recognises the request that a server's GOAWAY left out (RFC 9113
// section 6.8): it was not processed, and every client sends it again over
// another connection. The error has no type outside the library.
func unserved(err error) bool {
	return strings.Contains(err.Error(), "graceful shutdown GOAWAY")
}

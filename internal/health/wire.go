package health

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// bufferSize of a kept connection. It stays allocated for each server.
	bufferSize = 4 << 10
	// maxBody is what is read of an answer's body. The longest of a
	// kube-apiserver, every check of 1.35 failing, has under 5 kB.
	maxBody = 64 << 10
	// maxAnswer bounds an answer with its header.
	maxAnswer = maxBody + 16<<10
)

var (
	// errSilentEnd is the end of a connection without an answer.
	errSilentEnd = errors.New("closed without an answer")
	// errUnasked is data that answers nothing.
	errUnasked = errors.New("speaks unasked; not HTTP")
)

// dialler opens connections to one server.
type dialler struct {
	network, address string
	preface          []byte
	tls              *tls.Config // nil: plain
}

// dial opens a connection and reports how long TCP took.
func (d *dialler) dial(ctx context.Context) (net.Conn, time.Duration, error) {
	Report(ctx, Dialling)
	begun := time.Now()
	var nd net.Dialer
	raw, err := nd.DialContext(ctx, d.network, d.address)
	if err != nil {
		return nil, 0, fmt.Errorf("connect: %w", err)
	}
	rtt := max(time.Since(begun), 1)
	Report(ctx, Connected)
	conn, err := d.secure(ctx, raw)
	if err != nil {
		raw.Close()
		return nil, rtt, err
	}
	return conn, rtt, nil
}

func (d *dialler) secure(ctx context.Context, raw net.Conn) (net.Conn, error) {
	if len(d.preface) > 0 {
		if _, err := raw.Write(d.preface); err != nil {
			return nil, fmt.Errorf("write preface: %w", err)
		}
	}
	if d.tls == nil {
		return raw, nil
	}
	conn := tls.Client(raw, d.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	Report(ctx, Spoke)
	return conn, nil
}

// answer is what came to one request.
type answer struct {
	code int
	body []byte // at most maxBody
	took time.Duration
	err  error
}

// exchange is one request and the place for its answer.
type exchange struct {
	sent time.Time
	done chan answer // room for one
}

// wire is one connection that speaks HTTP/1.1, one request at a time. Its
// reader waits also between requests, so that its end is known at once.
type wire struct {
	conn  net.Conn
	born  uint64
	made  credentials // shown to the server
	limit io.LimitedReader
	in    *bufio.Reader
	ended func(announced bool) // called once, when it ends between requests

	mu      sync.Mutex
	pending *exchange
	over    bool  // takes no more requests
	cause   error // of over, if it came without a request
	closed  bool  // by us
}

func newWire(conn net.Conn, born uint64) *wire {
	w := &wire{conn: conn, born: born}
	w.limit.R = conn
	w.in = bufio.NewReaderSize(&w.limit, bufferSize)
	return w
}

// ask sends a GET request, as it goes over the wire, and waits for its answer,
// at most until ctx ends; then the connection is of no more use.
func (w *wire) ask(ctx context.Context, request []byte) answer {
	x := &exchange{sent: time.Now(), done: make(chan answer, 1)}
	w.mu.Lock()
	if w.over {
		defer w.mu.Unlock()
		return answer{err: endOf(w.cause)}
	}
	w.pending = x
	w.mu.Unlock()
	stop := context.AfterFunc(ctx, w.close)
	defer stop()
	_, err := w.conn.Write(request)
	if err != nil {
		w.close()
	}
	a := <-x.done
	if err != nil && (a.err == nil || errors.Is(a.err, net.ErrClosed)) {
		a.err = fmt.Errorf("send request: %w", err) // the reader knows no better reason
	}
	return a
}

// read takes answers in until the connection ends.
func (w *wire) read() {
	for {
		w.limit.N = maxAnswer
		_, err := w.in.Peek(1)
		first := time.Now()
		w.mu.Lock()
		x := w.pending
		w.pending = nil
		switch {
		case err != nil:
			w.over, w.cause = true, err
		case x == nil:
			w.over, w.cause = true, errUnasked
		}
		w.mu.Unlock()
		switch {
		case x == nil: // its end, or data nobody asked for
			w.end(false)
			return
		case err != nil:
			x.done <- answer{err: endOf(err)}
			w.end(true)
			return
		}
		a, last := w.take()
		a.took = max(first.Sub(x.sent), 1)
		if last {
			w.mu.Lock()
			w.over = true
			w.mu.Unlock()
		}
		x.done <- a
		if last {
			w.end(true)
			return
		}
	}
}

// take reads one answer and reports whether it is the connection's last.
func (w *wire) take() (a answer, last bool) {
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil && w.limit.N <= 0 {
		return answer{err: fmt.Errorf("answers with a header of more than %d bytes", maxAnswer)}, true
	}
	if err != nil {
		return answer{err: fmt.Errorf("read answer: %w", endOf(err))}, true
	}
	a.code = resp.StatusCode
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return answer{err: fmt.Errorf("read body of answer: %w", endOf(err))}, true
	}
	n, err := resp.Body.Read(make([]byte, 1))
	return a, resp.Close || n > 0 || err != io.EOF
}

// endOf names the end of a connection that no error of the kernel explains.
func endOf(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errSilentEnd
	}
	return err
}

func (w *wire) end(announced bool) {
	w.mu.Lock()
	announced = announced || w.closed
	w.mu.Unlock()
	w.conn.Close()
	w.ended(announced)
}

// close ends the connection on our behalf.
func (w *wire) close() {
	w.mu.Lock()
	w.over, w.closed = true, true
	w.mu.Unlock()
	w.conn.Close()
}

func (w *wire) usable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.over
}

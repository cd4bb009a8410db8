package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// rig is an engine with one frontend on loopback and what it reported.
type rig struct {
	t        testing.TB
	engine   *Engine
	listener *Listener
	address  string

	// silent keeps events from being kept.
	silent bool

	mu     sync.Mutex
	events []Event
	more   *sync.Cond
}

// order is a Picker that gives its targets in order, skipping those tried.
type order struct {
	mu      sync.Mutex
	targets []*Target
	limit   int
	asked   int
}

func (o *order) Pick(_ netip.AddrPort, tried, _ []*Target) (*Target, Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	full := false
	for _, t := range o.targets {
		if slices.Contains(tried, t) {
			continue
		}
		if o.limit > 0 && t.Active()+t.Connecting() >= o.limit {
			full = true
			continue
		}
		return t, Use
	}
	if full {
		return nil, Wait
	}
	return nil, None
}

func (o *order) set(targets ...*Target) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.targets = targets
}

func newRig(t testing.TB, f Frontend, o Options) *rig {
	t.Helper()
	r := &rig{t: t}
	r.more = sync.NewCond(&r.mu)
	o.Observe = r.observe
	var err error
	if r.engine, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.engine.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	r.listener, r.address = r.serve("127.0.0.1:0", f)
	return r
}

// serve adds a frontend and returns its address.
func (r *rig) serve(address string, f Frontend) (*Listener, string) {
	r.t.Helper()
	file, err := Listen(address, false)
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	if f.Name == "" {
		f.Name = "test"
	}
	ln, err := r.engine.Serve(f, file)
	if err != nil {
		r.t.Fatal(err)
	}
	var a sockaddr
	sysSockName(ln.fd, &a)
	return ln, a.addrPort().String()
}

func (r *rig) observe(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.silent {
		r.events = append(r.events, e)
	}
	r.more.Broadcast()
}

// count returns how many events of a kind there were; about may be nil.
func (r *rig) count(kind EventKind, about *Target) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.countLocked(kind, about)
}

func (r *rig) countLocked(kind EventKind, about *Target) int {
	n := 0
	for _, e := range r.events {
		if e.Kind == kind && (about == nil || e.Target == about) {
			n++
		}
	}
	return n
}

// await waits until there were so many events of a kind.
func (r *rig) await(kind EventKind, n int) {
	r.t.Helper()
	late := time.AfterFunc(patience, func() { r.mu.Lock(); r.more.Broadcast(); r.mu.Unlock() })
	defer late.Stop()
	until := time.Now().Add(patience)
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.countLocked(kind, nil) < n {
		if time.Now().After(until) {
			r.t.Fatalf("%d events %q, want %d; all: %v", r.countLocked(kind, nil), kind, n, r.events)
		}
		r.more.Wait()
	}
}

func (r *rig) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	r.t.Cleanup(func() { c.Close() })
	return c
}

// wantRefused connects and wants a reset, which may come before the connect
// has returned.
func (r *rig) wantRefused() {
	r.t.Helper()
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	wantReset(r.t, c)
}

// backend is a server whose connections go to handle; it closes them after.
func backend(t testing.TB, handle func(*net.TCPConn)) *Target {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c.(*net.TCPConn))
			}()
		}
	}()
	return target(t, ln.Addr().String())
}

func target(t testing.TB, address string) *Target {
	t.Helper()
	x, err := NewTarget(address, "tcp", address, 0)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// refusing is an address where nobody listens.
func refusing(t *testing.T) *Target {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	return target(t, ln.Addr().String())
}

func echo(c *net.TCPConn) {
	_, _ = io.Copy(onlyWriter{c}, onlyReader{c})
	_ = c.CloseWrite()
}

type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// exchange says something and wants it back.
func exchange(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatalf("write: %v", err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatalf("read: %v", err)
	}
	if !bytes.Equal(got, []byte(text)) {
		t.Fatalf("got %q, want %q", got, text)
	}
}

// wantReset reads until the connection is reset.
func wantReset(t testing.TB, c net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, onlyReader{c})
	if err == nil {
		t.Fatal("connection ended in order, want a reset")
	}
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Fatal("nothing happened, want a reset")
	}
}

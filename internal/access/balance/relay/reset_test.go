package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestResetReachesBothSides(t *testing.T) {
	const n = 60
	ends := make(chan error, n)
	up := backend(t, func(c *net.TCPConn) {
		_, err := io.Copy(onlyWriter{c}, onlyReader{c})
		ends <- err
	})
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	var clients []net.Conn
	for range n {
		c := r.dial()
		exchange(t, c, "hello")
		clients = append(clients, c)
	}
	r.engine.Reset(up, "not ready", 100*time.Millisecond)
	for _, c := range clients {
		wantReset(t, c)
	}
	for range n {
		if err := <-ends; err == nil {
			t.Fatal("a target's side ended in order, want a reset")
		}
	}
	r.await(Purged, n)
	if up.Active() != 0 {
		t.Errorf("%d active", up.Active())
	}
}

// TestResetSparesClientsNotYetServed moves a client to another target when
// its own is taken away before it has said a byte.
func TestResetSparesClientsNotYetServed(t *testing.T) {
	said := clientHello(t, "api.example")
	silent := backend(t, untilClosed)
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{silent, backend(t, answering(said, "served"))}}, FirstByte: time.Hour}, Options{})
	idle, waiting := r.dial(), r.dial()
	send(t, waiting, said)
	r.await(Connected, 2)
	await(t, "the hello to arrive", func() bool { return silent.BytesIn() == uint64(len(said)) })
	r.engine.Reset(silent, "not ready", 0)
	wantText(t, waiting, "served")
	send(t, idle, said)
	wantText(t, idle, "served")
	if r.count(ResetEarly, nil) != 0 {
		t.Errorf("events %v", r.events)
	}
}

func TestRebalanceTakesQuietOnes(t *testing.T) {
	up := backend(t, echo)
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	for range 10 {
		exchange(t, r.dial(), "hello")
	}
	await(t, "quiet connections", func() bool { return r.quietOnes() == 10 })
	r.engine.Rebalance(up, 4)
	r.await(Purged, 4)
	await(t, "six left", func() bool { return up.Active() == 6 })
}

// quietOnes asks the loops for their quiet sessions.
func (r *rig) quietOnes() int {
	n := make(chan int)
	for _, l := range r.engine.loops {
		l.post(func(l *loop) {
			quiet := 0
			for _, s := range l.slots.table {
				if s.conn != nil && s.conn.attempt == nil && s.conn.session.isQuiet(l.now) {
					quiet++
				}
			}
			n <- quiet
		})
	}
	sum := 0
	for range r.engine.loops {
		sum += <-n
	}
	return sum
}

func TestMaxAgeEndsQuietConnections(t *testing.T) {
	up := backend(t, echo)
	r := newRig(t, Frontend{MaxAge: 50 * time.Millisecond, Picker: &order{targets: []*Target{up}}}, Options{MaxAgePerSecond: 100})
	c := r.dial()
	exchange(t, c, "hello")
	wantReset(t, c)
	r.await(Aged, 1)
}

func TestIdleTimeout(t *testing.T) {
	r := newRig(t, Frontend{IdleTimeout: 30 * time.Millisecond, Picker: &order{targets: []*Target{backend(t, echo)}}}, Options{})
	spoken, mute := r.dial(), r.dial()
	exchange(t, spoken, "hello")
	wantReset(t, spoken)
	wantReset(t, mute)
	r.await(Idle, 2)
}

func TestRunEndsWithResets(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ln, err := e.Serve(Frontend{Picker: &order{targets: []*Target{backend(t, echo)}}}, file)
	if err != nil {
		t.Fatal(err)
	}
	var a sockaddr
	sysSockName(ln.fd, &a)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.Run(ctx) })
	c, err := net.Dial("tcp", a.addrPort().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	exchange(t, c, "hello")
	cancel()
	wg.Wait()
	wantReset(t, c)
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if e.Active() != 0 {
		t.Errorf("%d active", e.Active())
	}
}

func TestPulse(t *testing.T) {
	r := newRig(t, Frontend{Picker: &order{}}, Options{Loops: 3})
	<-r.engine.Pulse()
}

func TestCloseBeforeRun(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := e.Serve(Frontend{}, file); !errors.Is(err, errNoPicker) {
		t.Errorf("error %v", err)
	}
	ln, err := e.Serve(Frontend{Picker: &order{}}, file)
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = e.Run(ctx)
}

// TestHandOver lets a second engine accept from the first one's socket while
// connections of the first go on.
func TestHandOver(t *testing.T) {
	up := backend(t, echo)
	old := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	before := old.dial()
	exchange(t, before, "before")
	file, err := old.listener.File()
	if err != nil {
		t.Fatal(err)
	}
	next := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	ln, err := next.engine.Serve(Frontend{Name: "taken", Picker: &order{targets: []*Target{up}}}, file)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	drained := old.engine.Drained()
	if err := old.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := old.listener.File(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("File after Close: %v", err)
	}
	for range 10 {
		exchange(t, old.dial(), "after")
	}
	if ln.Active() != 10 {
		t.Errorf("%d connections on the new engine", ln.Active())
	}
	exchange(t, before, "still here")
	before.Close()
	<-drained
}

func TestUpdateHoldsForLaterConnections(t *testing.T) {
	first, second := backend(t, echo), backend(t, echo)
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{first}}}, Options{})
	a := r.dial()
	exchange(t, a, "a")
	r.listener.Update(Frontend{Name: "renamed", Picker: &order{targets: []*Target{second}}})
	exchange(t, r.dial(), "b")
	exchange(t, a, "a again")
	if first.Total() != 1 || second.Total() != 1 {
		t.Errorf("%d and %d connections", first.Total(), second.Total())
	}
	if s := r.engine.Stats(); s.Active != 2 || len(s.Frontends) != 1 || s.Frontends[0].Name != "renamed" || s.Frontends[0].Events[Connected] != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestUnixOnBothSides(t *testing.T) {
	dir := t.TempDir()
	server, err := net.Listen("unix", filepath.Join(dir, "server"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(onlyWriter{c}, onlyReader{c}) }()
		}
	}()
	up, err := NewTarget("unix", "unix", filepath.Join(dir, "server"), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	path := filepath.Join(dir, "front")
	r.serve("unix:"+path, Frontend{Picker: &order{targets: []*Target{up}}})
	for _, at := range []string{path, path} {
		c, err := net.Dial("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, c, "hello")
		c.Close()
	}
	exchange(t, r.dial(), "hello")
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0", "unix:" + filepath.Join(dir, "a"), "unix:@holdfast-relay-test"} {
		f, err := Listen(address, false)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		f.Close()
	}
	// The socket is left behind, and nobody listens: it is replaced.
	f, err := Listen("unix:"+filepath.Join(dir, "a"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, address := range []string{"unix:" + filepath.Join(dir, "a"), "unix:", "localhost:80", "192.0.2.1:80", "7445"} {
		if f, err := Listen(address, false); err == nil {
			t.Errorf("%s: no error", address)
			f.Close()
		}
	}
	free, err := Listen("192.0.2.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
}

func TestNewTargetSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		network, address string
		version          int
	}{
		{"tcp", "localhost:80", 0},
		{"tcp", "10.0.0.1", 0},
		{"tcp", "10.0.0.1:0", 0},
		{"udp", "10.0.0.1:1", 0},
		{"unix", "", 0},
		{"tcp", "10.0.0.1:1", 3},
	} {
		if _, err := NewTarget("x", c.network, c.address, c.version); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
}

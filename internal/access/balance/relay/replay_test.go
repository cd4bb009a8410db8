package relay

import (
	"io"
	"net"
	"testing"
	"time"
)

// resetNow closes with RST.
func resetNow(c *net.TCPConn) { _ = c.SetLinger(0) }

// swallow reads exactly n bytes.
func swallow(c net.Conn, n int) error {
	_, err := io.ReadFull(c, make([]byte, n))
	return err
}

// untilClosed keeps a connection open and silent.
func untilClosed(c *net.TCPConn) { _, _ = io.Copy(io.Discard, onlyReader{c}) }

// answering wants the whole of want and then says text; it goes on until the
// client closes.
func answering(want []byte, text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if swallow(c, len(want)) == nil {
			_, _ = io.WriteString(c, text)
			untilClosed(c)
		}
	}
}

func wantText(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("got %q, %v; want %q", got, err, text)
	}
}

func send(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func TestHelloIsReplayed(t *testing.T) {
	said := clientHello(t, "api.example")
	for name, bad := range map[string]func(*net.TCPConn){
		"reset at once":         resetNow,
		"closed at once":        func(*net.TCPConn) {},
		"reset after the hello": func(c *net.TCPConn) { _ = swallow(c, len(said)); resetNow(c) },
		"closed after the hello": func(c *net.TCPConn) {
			_ = swallow(c, len(said))
		},
		"reset in the middle": func(c *net.TCPConn) { _ = swallow(c, len(said)/2); resetNow(c) },
	} {
		t.Run(name, func(t *testing.T) {
			first, second := backend(t, bad), backend(t, answering(said, "served"))
			r := newRig(t, Frontend{Picker: &order{targets: []*Target{first, second}}}, Options{})
			c := r.dial()
			send(t, c, said)
			wantText(t, c, "served")
			if r.count(ResetEarly, first)+r.count(DialFailed, first) == 0 {
				t.Errorf("no evidence against the first; events %v", r.events)
			}
			if first.Failed() == 0 || second.Failed() != 0 {
				t.Errorf("failures %d, %d", first.Failed(), second.Failed())
			}
		})
	}
}

func TestHelloInPiecesIsReplayed(t *testing.T) {
	said := clientHello(t, "api.example")
	half := make(chan struct{})
	first := backend(t, func(c *net.TCPConn) {
		_ = swallow(c, len(said)/2)
		close(half)
		resetNow(c)
	})
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{first, backend(t, answering(said, "served"))}}}, Options{})
	c := r.dial()
	send(t, c, said[:len(said)/2])
	<-half
	r.await(Connected, 2)
	send(t, c, said[len(said)/2:])
	wantText(t, c, "served")
}

func TestSilentTargetIsRaced(t *testing.T) {
	said := clientHello(t, "api.example")
	silent := backend(t, untilClosed)
	r := newRig(t, Frontend{FirstByte: 50 * time.Millisecond, Picker: &order{targets: []*Target{silent, backend(t, answering(said, "served"))}}}, Options{})
	c := r.dial()
	send(t, c, said)
	wantText(t, c, "served")
	if r.count(Silent, silent) != 1 || r.count(ResetEarly, nil) != 0 {
		t.Errorf("events %v", r.events)
	}
	send(t, c, []byte("goes on"))
	c.Close()
	r.await(Closed, 1)
}

// TestSilentTargetMayStillWin lets the first target speak after it was
// reported, while the second is connected and silent too.
func TestSilentTargetMayStillWin(t *testing.T) {
	said := clientHello(t, "api.example")
	speak := make(chan struct{})
	late := backend(t, func(c *net.TCPConn) {
		_ = swallow(c, len(said))
		<-speak
		_, _ = io.WriteString(c, "late but first")
		untilClosed(c)
	})
	mute := backend(t, untilClosed)
	r := newRig(t, Frontend{FirstByte: 50 * time.Millisecond, Picker: &order{targets: []*Target{late, mute}}}, Options{})
	c := r.dial()
	send(t, c, said)
	r.await(Connected, 2)
	close(speak)
	wantText(t, c, "late but first")
	if r.count(Spoke, late) != 1 {
		t.Errorf("events %v", r.events)
	}
	c.Close()
	r.await(Closed, 1)
	awaitZero(t, late)
	awaitZero(t, mute)
}

// awaitZero waits until a target has no connection left.
func awaitZero(t *testing.T, x *Target) {
	t.Helper()
	await(t, "no connection to "+x.ID, func() bool { return x.Active()+x.Connecting() == 0 })
}

// await polls a condition that nothing announces.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	until := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-until:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func TestWhatFollowsAHelloIsNotReplayed(t *testing.T) {
	said := append(clientHello(t, "api.example"), "early data"...)
	first := backend(t, func(c *net.TCPConn) { _ = swallow(c, len(said)); resetNow(c) })
	second := backend(t, answering(said, "served"))
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{first, second}}}, Options{})
	c := r.dial()
	send(t, c, said)
	wantReset(t, c)
	if second.Total() != 0 {
		t.Error("the second target was asked")
	}
}

func TestPlainBytesAreSentOnce(t *testing.T) {
	first := backend(t, func(c *net.TCPConn) { _ = swallow(c, 5); resetNow(c) })
	second := backend(t, echo)
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{first, second}}}, Options{})
	c := r.dial()
	send(t, c, []byte("hello"))
	wantReset(t, c)
	if second.Total() != 0 {
		t.Error("the second target was asked")
	}
}

func TestPlainCloseIsPassedOn(t *testing.T) {
	first := backend(t, func(c *net.TCPConn) { _ = swallow(c, 5) })
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{first, backend(t, echo)}}}, Options{})
	c := r.dial()
	send(t, c, []byte("hello"))
	if got, err := io.ReadAll(c); err != nil || len(got) != 0 {
		t.Fatalf("got %q, %v; want an orderly end", got, err)
	}
}

func TestTargetLostBeforeTheClientSpeaks(t *testing.T) {
	first := backend(t, resetNow)
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{first, backend(t, echo)}}}, Options{})
	c := r.dial()
	r.await(Connected, 1)
	await(t, "evidence", func() bool { return r.count(ResetEarly, first)+r.count(DialFailed, first) == 1 })
	exchange(t, c, "plain")
}

func TestClientThatLeavesIsNoEvidence(t *testing.T) {
	said := clientHello(t, "api.example")
	for name, leave := range map[string]func(net.Conn){
		"says nothing":     func(c net.Conn) { c.Close() },
		"resets":           func(c net.Conn) { resetNow(c.(*net.TCPConn)); c.Close() },
		"closes in hello":  func(c net.Conn) { _, _ = c.Write(said[:50]); c.Close() },
		"closes after it":  func(c net.Conn) { _, _ = c.Write(said); c.Close() },
		"resets after it":  func(c net.Conn) { _, _ = c.Write(said); resetNow(c.(*net.TCPConn)); c.Close() },
		"closes after any": func(c net.Conn) { _, _ = c.Write([]byte("GET /")); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			up := backend(t, untilClosed)
			r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
			c := r.dial()
			r.await(Connected, 1)
			leave(c)
			<-r.engine.Drained()
			awaitZero(t, up)
			for _, kind := range []EventKind{ResetEarly, DialFailed, Silent, Refused} {
				if r.count(kind, nil) != 0 {
					t.Errorf("event %s: %v", kind, r.events)
				}
			}
		})
	}
}

func TestServerSpeaksFirst(t *testing.T) {
	up := backend(t, func(c *net.TCPConn) { _, _ = io.WriteString(c, "220 ready\r\n"); echo(c) })
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	c := r.dial()
	wantText(t, c, "220 ready\r\n")
	exchange(t, c, "EHLO")
}

// TestBlackholedTargetIsRaced uses a backlog that is full: the kernel drops
// the handshake, as a blackhole would.
func TestBlackholedTargetIsRaced(t *testing.T) {
	hole := blackhole(t)
	r := newRig(t, Frontend{Stagger: 30 * time.Millisecond, Picker: &order{targets: []*Target{hole, backend(t, echo)}}}, Options{})
	exchange(t, r.dial(), "hello")
	if r.count(Overtaken, hole) != 1 {
		t.Errorf("events %v", r.events)
	}
	if hole.Total() != 0 || hole.Connecting() != 0 {
		t.Errorf("total %d, connecting %d", hole.Total(), hole.Connecting())
	}
}

func TestBudgetEnds(t *testing.T) {
	hole := blackhole(t)
	r := newRig(t, Frontend{Stagger: 10 * time.Millisecond, Budget: 50 * time.Millisecond, Picker: &order{targets: []*Target{hole}}}, Options{})
	wantReset(t, r.dial())
	r.await(BudgetSpent, 1)
	awaitZero(t, hole)
}

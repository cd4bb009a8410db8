package relay

import (
	"errors"
	"io"
	"net"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestLastWordsOfATarget lets a target answer and close without having read
// all: its kernel resets, but the answer was under way.
func TestLastWordsOfATarget(t *testing.T) {
	up := backend(t, func(c *net.TCPConn) {
		_ = swallow(c, 100)
		_, _ = io.WriteString(c, "too large")
	})
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	c := r.dial()
	go func() {
		for piece := make([]byte, 100_000); ; {
			if _, err := c.Write(piece); err != nil {
				return
			}
		}
	}()
	wantText(t, c, "too large")
	// A reset, which the writer or the reader gets to know, whoever is first.
	_, _ = io.Copy(io.Discard, onlyReader{c})
	awaitZero(t, up)
}

// TestClientResetsWhileStalled ends a session whose directions are both full.
func TestClientResetsWhileStalled(t *testing.T) {
	stall := make(chan struct{})
	t.Cleanup(func() { close(stall) })
	up := backend(t, func(c *net.TCPConn) {
		go func() {
			for piece := make([]byte, 100_000); ; {
				if _, err := c.Write(piece); err != nil {
					return
				}
			}
		}()
		<-stall
	})
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	c := r.dial().(*net.TCPConn)
	send(t, c, make([]byte, 1<<20))
	await(t, "bytes under way", func() bool { return up.BytesOut() > 0 && up.BytesIn() >= 1<<19 })
	resetNow(c)
	_ = c.Close()
	r.await(Closed, 1)
	awaitZero(t, up)
}

// TestTargetResetIsPassedOn wants an established client to see a reset, and
// the event to name it.
func TestTargetResetIsPassedOn(t *testing.T) {
	up := backend(t, func(c *net.TCPConn) {
		_ = swallow(c, 5)
		_, _ = io.WriteString(c, "reply")
		_ = swallow(c, 5)
		resetNow(c)
	})
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	c := r.dial()
	send(t, c, []byte("hello"))
	wantText(t, c, "reply")
	send(t, c, []byte("again"))
	wantReset(t, c)
	r.await(Closed, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.events[len(r.events)-1]; !errors.Is(last.Err, unix.ECONNRESET) {
		t.Errorf("event %+v", last)
	}
	if r.countLocked(ResetEarly, nil) != 0 {
		t.Errorf("a reset after the first byte counts as early: %v", r.events)
	}
}

// TestSessionsStaySmall keeps what doc.go promises of an idle connection.
func TestSessionsStaySmall(t *testing.T) {
	size := unsafe.Sizeof(session{}) + unsafe.Sizeof(attempt{})
	t.Logf("session %d, attempt %d bytes", unsafe.Sizeof(session{}), unsafe.Sizeof(attempt{}))
	if size > 900 {
		t.Errorf("a session and its attempt take %d bytes", size)
	}
}

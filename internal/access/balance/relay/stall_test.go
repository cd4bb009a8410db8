package relay

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// poured is how much pour says to everybody.
const poured = 16 << 20

func pour(c *net.TCPConn) {
	_, _ = io.Copy(onlyWriter{c}, &numbers{left: poured})
}

// numbers reads as a row of numbers, so that bytes out of order show.
type numbers struct {
	next uint64
	left int
}

func (n *numbers) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	size := min(len(p), n.left) &^ 7
	for i := 0; i < size; i += 8 {
		binary.LittleEndian.PutUint64(p[i:], n.next)
		n.next++
	}
	n.left -= size
	return size, nil
}

// dialNarrow makes a client with a small receive buffer.
func (r *rig) dialNarrow(buffer int) net.Conn {
	r.t.Helper()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, buffer) })
	}}
	c, err := d.DialContext(context.Background(), "tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	r.t.Cleanup(func() { c.Close() })
	return c
}

// openPipes counts the ends of pipes that the process has.
func openPipes(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Error(err)
	}
	n := 0
	for _, e := range entries {
		to, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if strings.HasPrefix(to, "pipe:") {
			n++
		}
	}
	return n
}

// held is the most that one direction keeps for its sink, in pipe and memory.
func (r *rig) held() int {
	most := 0
	for _, l := range r.engine.loops {
		answer := make(chan int)
		l.post(func(l *loop) {
			n := 0
			for _, s := range l.slots.table {
				if s.conn != nil {
					n = max(n, len(s.conn.session.down.rest)+s.conn.session.down.pipe.holds())
				}
			}
			answer <- n
		})
		most = max(most, <-answer)
	}
	return most
}

// TestStalledReadersHoldNoPipes lets many clients read fast, and then no more.
// Pipes stay within the quota meanwhile, none is left with a reader that has
// stopped, and what the readers get when they go on is whole and in order.
func TestStalledReadersHoldNoPipes(t *testing.T) {
	const n, loops, quota = 40, 2, 8
	before := openPipes(t)
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{backend(t, pour)}}}, Options{Loops: loops})
	for _, l := range r.engine.loops {
		l.post(func(l *loop) { l.pipes.quota = quota })
	}
	want := sha256.New()
	_, _ = io.Copy(want, &numbers{left: poured})
	digests := make([][]byte, n)
	var reading, wg sync.WaitGroup
	var mu sync.Mutex
	lent := 0
	resume := make(chan struct{})
	for i := range n {
		reading.Add(1)
		wg.Go(func() {
			digest := sha256.New()
			c := r.dialNarrow(128 << 10)
			_, err := io.CopyN(digest, onlyReader{c}, 3<<20)
			mu.Lock()
			lent = max(lent, openPipes(t)-before)
			mu.Unlock()
			reading.Done()
			<-resume
			if err == nil {
				_, err = io.Copy(digest, onlyReader{c})
			}
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			digests[i] = digest.Sum(nil)
		})
	}
	reading.Wait()
	// One more fills up after the others, and is served.
	exchangeNumbers(t, r.dial())
	spare := 2 * loops * sparePipes
	await(t, "pipes taken back from readers that have stopped", func() bool { return openPipes(t)-before <= spare })
	if most := r.held(); most > 128<<10 {
		t.Errorf("%d bytes are kept for one reader, want at most 128 kB", most)
	}
	close(resume)
	wg.Wait()
	for i, d := range digests {
		if string(d) != string(want.Sum(nil)) {
			t.Errorf("client %d got other bytes", i)
		}
	}
	if lent == 0 || lent > 2*loops*quota {
		t.Errorf("%d ends of pipes at a time, want 1 to %d", lent, 2*loops*quota)
	}
}

// exchangeNumbers reads one piece of what pour says.
func exchangeNumbers(t *testing.T, c net.Conn) {
	t.Helper()
	var b [16]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		t.Fatal(err)
	}
	if binary.LittleEndian.Uint64(b[8:]) != 1 {
		t.Fatalf("got %x", b)
	}
	c.Close()
}

func TestRoomForPipesAndSessions(t *testing.T) {
	for _, c := range []struct {
		limit, loops, sessions int64
		pipes                  int
	}{
		{1 << 30, 4, (1<<30-128)/2 - 128, 32},
		{20000, 2, 9936 - 64, 32},
		{1024, 4, 448 - 56, 14},
		{256, 2, 64 - 8, 4},
		{256, 4, 64 - 8, 2},
		{130, 4, 8, 0},
		{0, 1, 7, 1},
	} {
		sessions, pipes := room(c.limit, c.loops)
		if sessions != c.sessions || pipes != c.pipes {
			t.Errorf("limit %d, %d loops: %d sessions and %d pipes, want %d and %d", c.limit, c.loops, sessions, pipes, c.sessions, c.pipes)
		}
		if used := 2*sessions + 2*int64(pipes)*c.loops + reservedFiles; c.limit >= 256 && used > c.limit {
			t.Errorf("limit %d: %d would be used", c.limit, used)
		}
	}
}

// TestResetAfterTheFirstByteIsCounted at the target, once, and not as one
// before it.
func TestResetAfterTheFirstByteIsCounted(t *testing.T) {
	up := backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "x")
		if swallow(c, 1) == nil {
			resetNow(c)
		}
	})
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	c := r.dial()
	wantText(t, c, "x")
	send(t, c, []byte("y"))
	wantReset(t, c)
	orderly := r.dial()
	wantText(t, orderly, "x")
	orderly.Close()
	r.await(Closed, 2)
	if s := up.Stats(); s.Broken != 1 || s.Failed != 0 || up.Broken() != 1 {
		t.Errorf("stats %+v", s)
	}
}

package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// TestRandomTransfers carries random amounts both ways at once, in random
// pieces, with small socket buffers and slow readers, half-closing at the end.
// Both sides must get exactly what the other said.
func TestRandomTransfers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	results := make(chan string, 100)
	up := backend(t, func(c *net.TCPConn) {
		var id [16]byte
		if _, err := io.ReadFull(c, id[:]); err != nil {
			return
		}
		random := rand.New(rand.NewPCG(seed, uint64(id[0])))
		_ = random.Uint64() // the client's half of the plan
		results <- converse(c, rand.New(rand.NewPCG(random.Uint64(), 1)))
	})
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	const n = 24
	var wg sync.WaitGroup
	sent := make([]string, n)
	for i := range n {
		wg.Go(func() {
			c := r.dial().(*net.TCPConn)
			id := [16]byte{byte(i)}
			if _, err := c.Write(id[:]); err != nil {
				t.Error(err)
				return
			}
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			sent[i] = converse(c, rand.New(rand.NewPCG(random.Uint64(), 0)))
		})
	}
	wg.Wait()
	got := map[string]bool{}
	for range n {
		got[<-results] = true
	}
	for i, s := range sent {
		// What one side says it read is what the other says it wrote.
		if !got[mirrored(s)] {
			t.Errorf("seed %d, connection %d: client %s has no counterpart", seed, i, s)
		}
	}
	r.await(Closed, n)
	awaitZero(t, up)
}

// converse writes and reads at random until both sides have finished, and
// returns digests of both directions: written/read.
func converse(c *net.TCPConn, random *rand.Rand) string {
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	if random.IntN(2) == 0 {
		// Not smaller: on loopback a segment has 64 kB, and a window below
		// that crawls with the relay and without.
		_ = c.SetReadBuffer(256 << 10)
		_ = c.SetWriteBuffer(64 << 10)
	}
	write := rand.New(rand.NewPCG(random.Uint64(), 2))
	slow := random.IntN(3) == 0
	wrote, read := sha256.New(), sha256.New()
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { failed = utter(c, write, wrote) })
	buf := make([]byte, 1+random.IntN(100_000))
	for {
		size := len(buf)
		if slow {
			size = 1 + random.IntN(len(buf))
		}
		n, err := c.Read(buf[:size])
		read.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return "read: " + err.Error()
		}
	}
	wg.Wait()
	if failed != nil {
		return "write: " + failed.Error()
	}
	return fmt.Sprintf("%x/%x", wrote.Sum(nil), read.Sum(nil))
}

// utter writes up to 8 MB in random pieces and half-closes.
func utter(c *net.TCPConn, random *rand.Rand, wrote hash.Hash) error {
	left := random.IntN(1 << (10 + random.IntN(14)))
	piece := make([]byte, 1+random.IntN(300_000))
	for left > 0 {
		b := piece[:min(1+random.IntN(len(piece)), left)]
		for i := 0; i+8 <= len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], random.Uint64())
		}
		wrote.Write(b)
		if _, err := c.Write(b); err != nil {
			return err
		}
		left -= len(b)
	}
	return c.CloseWrite()
}

func mirrored(s string) string {
	if len(s) != 2*64+1 {
		return "nobody"
	}
	return s[65:] + "/" + s[:64]
}

// TestLargeTransferUsesPipesAndGivesThemBack checks the path by splice.
func TestLargeTransferUsesPipesAndGivesThemBack(t *testing.T) {
	const size = 200 << 20
	up := backend(t, func(c *net.TCPConn) {
		piece := make([]byte, 1<<20)
		for range size / len(piece) {
			if _, err := c.Write(piece); err != nil {
				return
			}
		}
		untilClosed(c)
	})
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{Loops: 1})
	c := r.dial()
	if n, err := io.CopyN(io.Discard, onlyReader{c}, size); err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	held := make(chan int)
	l := r.engine.loops[0]
	await(t, "pipes given back", func() bool {
		l.post(func(l *loop) {
			n := len(l.pipes.free)
			for _, s := range l.slots.table {
				if s.conn != nil && s.conn.session.down.pipe != nil {
					n = -1
				}
			}
			held <- n
		})
		return <-held > 0
	})
	if up.BytesOut() != size {
		t.Errorf("%d bytes counted", up.BytesOut())
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestNothingIsLeftBehind opens and ends thousands of connections in every
// way, and counts descriptors.
func TestNothingIsLeftBehind(t *testing.T) {
	said := clientHello(t, "api.example")
	before := openFiles(t)
	t.Run("connections", func(t *testing.T) {
		up := backend(t, echo)
		r := newRig(t, Frontend{Stagger: 5 * time.Millisecond, Picker: &order{targets: []*Target{refusing(t), backend(t, resetNow), up}}}, Options{})
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(rand.Uint64(), uint64(worker)))
				for range 400 {
					abuse(r.address, said, random)
				}
			})
		}
		wg.Wait()
		// Clients that have left may still stand in the backlog.
		if err := r.listener.Close(); err != nil {
			t.Error(err)
		}
		<-r.engine.Drained()
		awaitZero(t, up)
		for _, l := range r.engine.loops {
			done := make(chan [3]int)
			l.post(func(l *loop) { done <- [3]int{len(l.slots.table) - len(l.slots.free), len(l.ready), l.setAlarms()} })
			if left := <-done; left[0] != 0 || left[1] != 0 || left[2] > 1 {
				t.Errorf("loop %d keeps %d slots, %d ready, %d alarms", l.index, left[0], left[1], left[2])
			}
		}
	})
	await(t, "descriptors closed", func() bool { return openFiles(t) <= before })
}

func (l *loop) setAlarms() int { return len(l.timers.heap) }

// abuse connects and leaves in a random way.
func abuse(address string, said []byte, random *rand.Rand) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if random.IntN(3) > 0 {
		_, _ = c.Write(said[:1+random.IntN(len(said))])
	} else {
		_, _ = c.Write(make([]byte, 1+random.IntN(100_000)))
	}
	if random.IntN(2) == 0 {
		_, _ = c.Read(make([]byte, 100))
	}
	switch random.IntN(3) {
	case 0:
		resetNow(c.(*net.TCPConn))
	case 1:
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, onlyReader{c})
	}
}

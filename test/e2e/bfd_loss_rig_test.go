package e2e

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/address/bfd"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// bfdEnd is one end of a session on a station.
type bfdEnd interface {
	up() error
	failures() int
	said() string
}

// couple is a session between two stations.
type couple struct {
	name  string
	first int // station; the other is the next
	ends  [2]bfdEnd
}

func newCouple(t *testing.T, g *segment.Segment, first int, make ...func(*testing.T, *segment.Station, netip.Addr) bfdEnd) *couple {
	c := &couple{first: first}
	for i, m := range make {
		c.ends[i] = m(t, g.Station(first+i), g.Station(first+1-i).Four)
	}
	c.name = fmt.Sprintf("%s with %s", c.ends[0], c.ends[1])
	return c
}

func (c *couple) await(t *testing.T) {
	t.Helper()
	for _, e := range c.ends {
		until(t, c.name+" is up", e.up)
	}
}

// flaps is how often the session has failed: both ends see each failure.
func (c *couple) flaps() int { return max(c.ends[0].failures(), c.ends[1].failures()) }

func (c *couple) said() string {
	return fmt.Sprintf("%s:\n%s\n%s", c.name, c.ends[0].said(), c.ends[1].said())
}

// ourBFD is our manager with one session.
type ourBFD struct {
	manager *bfd.Manager
	session *bfd.Handle
	log     *buffer
}

func ourEnd(t *testing.T, s *segment.Station, peer netip.Addr) bfdEnd {
	t.Helper()
	e := &ourBFD{log: &buffer{}}
	err := s.Do(func() (err error) {
		e.manager, err = bfd.New(bfd.Options{Realtime: true, Log: slog.New(slog.NewTextHandler(e.log, nil))})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Do(func() error { return e.manager.Run(ctx) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	e.session, err = e.manager.Add(bfd.SessionConfig{Peer: peer, Interface: segment.Interface, Timers: hundredByThree})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *ourBFD) String() string { return "ours" }

func (e *ourBFD) up() error {
	if s := e.session.State(); s != bfd.Up {
		return fmt.Errorf("it is %v", s)
	}
	return nil
}

func (e *ourBFD) failures() int { return int(e.session.Status().Failures) }

func (e *ourBFD) said() string {
	h := e.manager.Health()
	return fmt.Sprintf("late %d times, by %v at most\n%s", h.Late, h.Latest, e.log.tail())
}

// frrBFD is bfdd with one session.
type frrBFD struct {
	t    *testing.T
	run  *daemons
	peer string
}

func frrEnd(t *testing.T, s *segment.Station, peer netip.Addr) bfdEnd {
	t.Helper()
	e := &frrBFD{t: t, run: newFRR(t, s.Space), peer: peer.String()}
	e.run.start("zebra", "hostname router\n")
	e.run.start("bfdd", fmt.Sprintf("bfd\n profile fast\n  detect-multiplier 3\n  receive-interval 100\n  transmit-interval 100\n peer %s interface %s\n  profile fast\n", peer, segment.Interface))
	return e
}

func (e *frrBFD) String() string { return "FRR" }

func (e *frrBFD) sees(what string, into any) error {
	out, err := e.run.vtysh("bfdd", "show bfd peers "+what+" json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (e *frrBFD) up() error {
	var peers []routerPeer
	if err := e.sees("", &peers); err != nil {
		return err
	}
	if len(peers) != 1 || peers[0].Status != "up" || peers[0].RemoteTransmit != 100 {
		return fmt.Errorf("it sees %+v", peers)
	}
	return nil
}

func (e *frrBFD) failures() int {
	var peers []struct {
		Down int `json:"session-down"`
	}
	if err := e.sees("counters", &peers); err != nil || len(peers) != 1 {
		e.t.Fatalf("counters of FRR: %v, %+v", err, peers)
	}
	return peers[0].Down
}

func (e *frrBFD) said() string { return e.run.log.tail() }

// ruleShell has a shell call nft: this process must not be held up by starting
// others while it is measured.
type ruleShell struct {
	in   io.WriteCloser
	told chan string // how each call has ended
	log  *buffer
}

func newRuleShell(t *testing.T, in *space.Space) *ruleShell {
	t.Helper()
	spawner, err := space.NewSpawner(in)
	if err != nil {
		t.Fatal(err)
	}
	s := &ruleShell{told: make(chan string), log: &buffer{}}
	cmd := exec.Command("sh", "-c", `while read -r line; do nft "$line"; echo $?; done`)
	cmd.Stderr = s.log
	if s.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := spawner.Start(cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.told)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.told <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = s.in.Close()
		for range s.told { // until it has ended
		}
		_ = cmd.Wait()
		spawner.Close()
	})
	return s
}

func (s *ruleShell) run(t *testing.T, text string) {
	t.Helper()
	if _, err := fmt.Fprintf(s.in, "%s\n", text); err != nil {
		t.Fatal(err)
	}
	select {
	case line, ok := <-s.told:
		if !ok || line != "0" {
			t.Fatalf("nft %s: exit %s\n%s", text, line, s.log.tail())
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("nft %s: no answer", text)
	}
}

// timekeeper stamps the BFD packets of every station by the kernel's clock before
// any is lost, and so knows who was late.
type timekeeper struct {
	mu   sync.Mutex
	last map[byte]time.Time // by station
	late map[byte]int
	most map[byte]time.Duration
}

func newTimekeeper(t *testing.T, g *segment.Segment) *timekeeper {
	t.Helper()
	w := &timekeeper{}
	w.reset()
	tap(t, g, w.note)
	return w
}

// note takes an IPv4 packet.
func (w *timekeeper) note(b []byte, at time.Time) {
	if len(b) < 28 || b[0] != 0x45 || b[9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(b[22:]) != 3784 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	station := b[15]
	if was, ok := w.last[station]; ok {
		gap := at.Sub(was)
		w.most[station] = max(w.most[station], gap)
		if gap > 120*time.Millisecond {
			w.late[station]++
		}
	}
	w.last[station] = at
}

func (w *timekeeper) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.late, w.most = map[byte]time.Time{}, map[byte]int{}, map[byte]time.Duration{}
}

// of tells how regularly the ends of a couple sent.
func (w *timekeeper) of(c *couple) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := ""
	for i, e := range c.ends {
		station := byte(c.first + i)
		text += fmt.Sprintf("; %s sent more than 120 ms apart %d times, %v at most", e, w.late[station], w.most[station].Round(100*time.Microsecond))
	}
	return text[2:]
}

// tap hands over each packet that a station sends, with the time at which the
// kernel had it, before the bridge may drop it.
func tap(t *testing.T, g *segment.Segment, note func(b []byte, at time.Time)) {
	t.Helper()
	var fd int
	err := g.Hub().Do(func() (err error) {
		const all = 0x0300 // ETH_P_ALL in network order
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended; _ = unix.Close(fd) })
	go func() {
		defer close(ended)
		for b, oob := make([]byte, 256), make([]byte, 256); ctx.Err() == nil; {
			n, oobn, _, from, err := unix.Recvmsg(fd, b, oob, 0)
			if err != nil {
				continue // the timeout
			}
			sender, ok := from.(*unix.SockaddrLinklayer)
			if at, stamped := stampOf(oob[:oobn]); ok && stamped && sender.Pkttype != unix.PACKET_OUTGOING {
				note(b[:n], at)
			}
		}
	}()
}

// stampOf is the time in a control message.
func stampOf(oob []byte) (time.Time, bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 || len(messages[0].Data) < 16 {
		return time.Time{}, false
	}
	d := messages[0].Data
	return time.Unix(int64(binary.NativeEndian.Uint64(d)), int64(binary.NativeEndian.Uint64(d[8:]))), true
}

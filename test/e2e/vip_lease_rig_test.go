package e2e

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// store is an etcd of one member on the client's station.
type store struct {
	w       *wire
	spawner *space.Spawner
	command []string
	cmd     *exec.Cmd
}

func (w *wire) etcd() *store {
	w.t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(cache, "holdfast", "peers", "etcd-3.6")
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			w.t.Fatal("this suite must not be skipped in CI: make peers builds etcd")
		}
		w.t.Skip("needs etcd; see scripts/peers")
	}
	client := w.segment.Station(w.machines + 1)
	spawner, err := space.NewSpawner(client.Space)
	if err != nil {
		w.t.Fatal(err)
	}
	url := fmt.Sprintf("http://%s:2379", client.Four)
	s := &store{w: w, spawner: spawner, command: []string{path, "--data-dir", filepath.Join(w.dir, "etcd"), "--listen-client-urls", url,
		"--advertise-client-urls", url, "--listen-peer-urls", "http://127.0.0.1:2380", "--log-level", "error"}}
	s.start()
	w.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		spawner.Close()
	})
	return s
}

// start starts it with what it had.
func (s *store) start() {
	s.w.t.Helper()
	s.cmd = exec.Command(s.command[0], s.command[1:]...)
	if err := s.spawner.Start(s.cmd); err != nil {
		s.w.t.Fatal(err)
	}
}

// kill ends it.
func (s *store) kill() {
	s.w.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.w.t.Fatal(err)
	}
	_ = s.cmd.Wait()
}

func (s *store) freeze(on bool) {
	sig := syscall.SIGCONT
	if on {
		sig = syscall.SIGSTOP
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.w.t.Fatal(err)
	}
}

// startByLease runs our agent with a record in etcd, and the default timers.
func (w *wire) startByLease(i int) {
	w.t.Helper()
	var peers []string
	for k := 1; k <= w.machines; k++ {
		peers = append(peers, fmt.Sprintf("{name: node-%d, address: '%s:9390'}", k, w.segment.Station(k).Four))
	}
	path := filepath.Join(w.dir, fmt.Sprintf("vip-%d.yaml", i))
	text := fmt.Sprintf(`
groups:
  - name: api
    addresses: %s
    interface: %s
    lease:
      etcd: {endpoints: ["http://%s:2379"]}
      self: node-%d
      peers: [%s]
control: %s
telemetry: {listen: %s:9389}
`, list(w.addresses), segment.Interface, w.segment.Station(w.machines+1).Four, i, strings.Join(peers, ", "), w.socket(i), w.segment.Station(i).Four)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	w.launch(i, []string{asAgent + "=1"}, "/proc/self/exe", "vip", "run", "--config", path)
}

// stream is a connection that a client has open to the address, with a word on it
// every 10 ms.
type stream struct {
	t     *testing.T
	conn  net.Conn
	ended chan struct{}

	words int
	pause time.Duration // the longest until a word came back
	err   error
}

const streamPort = 9

// stream opens one; each machine has somebody who answers.
func (w *wire) stream() *stream {
	w.t.Helper()
	for i := 1; i <= w.machines; i++ {
		var l net.Listener
		err := w.segment.Station(i).Do(func() (err error) {
			l, err = net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", streamPort))
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = l.Close() })
		go repeat(l)
	}
	s := &stream{t: w.t, ended: make(chan struct{})}
	err := w.segment.Station(w.machines + 1).Do(func() (err error) {
		s.conn, err = net.Dial("tcp4", netip.AddrPortFrom(held, streamPort).String())
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.conn.Close(); <-s.ended })
	go s.talk()
	return s
}

// repeat answers every connection with what it hears.
func repeat(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
	}
}

func (s *stream) talk() {
	defer close(s.ended)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for word := []byte("word"); ; <-tick.C {
		said := time.Now()
		if _, s.err = s.conn.Write(word); s.err == nil {
			_, s.err = io.ReadFull(s.conn, word)
		}
		if s.err != nil {
			return
		}
		s.words++
		s.pause = max(s.pause, time.Since(said))
	}
}

// stays ends the connection, and wants it to have been there until then.
func (s *stream) stays(what string) {
	s.t.Helper()
	select {
	case <-s.ended:
		s.t.Errorf("%s: the client's connection broke after %d words: %v", what, s.words, s.err)
	default:
		_ = s.conn.Close()
		<-s.ended
		s.t.Logf("%s: the client's connection stays; %d words, at most %s for one", what, s.words, s.pause.Round(time.Millisecond))
	}
}

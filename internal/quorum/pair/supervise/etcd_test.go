package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// versions are the released etcds that scripts/peers builds.
var versions = []string{"3.5", "3.6", "3.7"}

// peer returns the binary of a released etcd. Without it the test skips on a
// laptop and fails in CI, where nothing may go untested.
func peer(t *testing.T, version string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "holdfast", "peers", "etcd-"+version)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no etcd %s: %v; run scripts/peers", version, err)
		}
		t.Skipf("no etcd %s: %v; run scripts/peers", version, err)
	}
	return path
}

// many says whether the night's runs are asked for.
func many() bool { return os.Getenv("HOLDFAST_PAIR") != "" }

// freeAddress is outside the ports from which connections are made: a client that
// dials a stopped member again and again may get its very port, and keep it.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(22000)))
		if err == nil {
			defer func() { _ = l.Close() }()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// member is one etcd that a test runs.
type member struct {
	name, client, peer, data, state string
	options                         ChildOptions
}

// newMember is a member of its own cluster, with what follows its name.
func newMember(t *testing.T, binary, name string, extra ...string) *member {
	t.Helper()
	m := &member{
		name: name, client: freeAddress(t), peer: freeAddress(t),
		data: filepath.Join(t.TempDir(), "data"), state: filepath.Join(t.TempDir(), "state"),
	}
	m.options = ChildOptions{
		Command: append([]string{
			binary, "--name", name, "--data-dir=" + m.data,
			"--listen-client-urls", "http://" + m.client, "--advertise-client-urls", "http://" + m.client,
			"--listen-peer-urls=http://" + m.peer, "-initial-advertise-peer-urls=http://" + m.peer,
			"--initial-cluster", name + "=http://" + m.peer, "--log-level", "warn",
		}, extra...),
		Env: os.Environ(), StateDir: m.state, Root: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	m.options.Stdout, m.options.Stderr = w, w
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return m
}

// run makes the supervisor, and ends etcd with the test.
func (m *member) run(t *testing.T) *Child {
	t.Helper()
	c, err := NewChild(t.Context(), m.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
		c.Detach()
	})
	return c
}

func start(t *testing.T, s Supervisor, mode Mode) {
	t.Helper()
	if err := s.Start(t.Context(), mode); err != nil {
		t.Fatal(err)
	}
}

func state(t *testing.T, s Supervisor) State {
	t.Helper()
	st, err := s.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func (m *member) dial(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + m.client}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
		MaxUnaryRetries: 1, // 0 would be the default of 100
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// serves waits until the member takes a write.
func (m *member) serves(t *testing.T) {
	t.Helper()
	c := m.dial(t)
	var last error
	if !comes(30*time.Second, func() bool {
		try, done := context.WithTimeout(t.Context(), time.Second)
		defer done()
		_, last = c.Put(try, "served", m.name)
		return last == nil
	}) {
		t.Fatalf("%s takes no write: %v\n%s", m.name, last, m.said())
	}
}

// complains makes the member write to its log: of a message from another cluster.
func (m *member) complains(t *testing.T) {
	t.Helper()
	before := m.said()
	if !comes(10*time.Second, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+m.peer+"/raft", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Etcd-Cluster-ID", "1")
		req.Header.Set("X-Server-Version", "3.6.0")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
		return m.said() != before
	}) {
		t.Fatalf("no word about a message from another cluster:\n%s", before)
	}
}

// said is the end of what the member's etcd has logged.
func (m *member) said() string {
	log, err := os.ReadFile(filepath.Join(m.state, logName))
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-2000):])
}

// comes waits until what is so, and says whether it came to be.
func comes(within time.Duration, what func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(within)
	for !what() {
		select {
		case <-tick.C:
		case <-late:
			return false
		}
	}
	return true
}

// refusal wants an error that is a Refusal with the reason, of one line.
func refusal(t *testing.T, err error, want Reason) {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) || r.Reason != want {
		t.Fatalf("%v; want a refusal, %s", err, want)
	}
	if r.Detail == "" || r.Remedy == "" {
		t.Errorf("%v: no detail or no remedy", err)
	}
}

func at(name, peer string) string { return fmt.Sprintf("%s=http://%s", name, peer) }

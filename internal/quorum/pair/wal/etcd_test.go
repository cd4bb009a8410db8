package wal

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

// node is an etcd member on loopback.
type node struct {
	name, binary, client, peer, data string
	extra                            []string
	cmd                              *exec.Cmd
	output                           bytes.Buffer
}

func (n *node) dir() Dir { return Dir{Data: n.data} }

// pair starts a cluster of two, with etcd's default timers.
func pair(t *testing.T, version string, extra ...string) (a, b *node) {
	t.Helper()
	nodes := make([]*node, 2)
	for i, name := range []string{"a", "b"} {
		nodes[i] = &node{
			name: name, binary: peer(t, version), client: freeAddress(t), peer: freeAddress(t),
			data: filepath.Join(t.TempDir(), name), extra: extra,
		}
	}
	cluster := fmt.Sprintf("a=http://%s,b=http://%s", nodes[0].peer, nodes[1].peer)
	for _, n := range nodes {
		n.start(t, "--initial-cluster", cluster)
	}
	for _, n := range nodes {
		n.await(t, 30*time.Second)
	}
	return nodes[0], nodes[1]
}

func (n *node) start(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{
		"--name", n.name, "--data-dir", n.data,
		"--listen-client-urls", "http://" + n.client, "--advertise-client-urls", "http://" + n.client,
		"--listen-peer-urls", "http://" + n.peer, "--initial-advertise-peer-urls", "http://" + n.peer,
		"--log-level", "warn",
	}, append(n.extra, args...)...)
	n.cmd = exec.Command(n.binary, args...)
	n.output.Reset()
	n.cmd.Stdout, n.cmd.Stderr = &n.output, &n.output
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
}

// kill is SIGKILL: what etcd has not handed to the kernel is lost.
func (n *node) kill() {
	if n.cmd != nil && n.cmd.ProcessState == nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
	}
}

// dial returns a client of this member alone, which tries once.
func (n *node) dial(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + n.client}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
		MaxUnaryRetries: 1, // 0 would be the default of 100
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// await waits until the member takes a write.
func (n *node) await(t *testing.T, within time.Duration) {
	t.Helper()
	c := n.dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		try, done := context.WithTimeout(ctx, time.Second)
		_, err := c.Put(try, "await", n.name)
		done()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s takes no write in %s: %v\n%s", n.name, within, err, n.output.String())
		}
		<-try.Done() // refused at once, or not at all
	}
}

// leads asks the member whether it leads.
func (n *node) leads(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	s, err := n.dial(t).Status(ctx, "http://"+n.client)
	if err != nil {
		t.Fatal(err)
	}
	return s.Leader == s.Header.MemberId
}

// writers put keys through both members until stopped, and remember what was
// acknowledged.
type writers struct {
	stop  context.CancelFunc
	wait  sync.WaitGroup
	count atomic.Int64
	mu    sync.Mutex
	acked map[string]string
}

func write(t *testing.T, n int, value int, nodes ...*node) *writers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writers{stop: cancel, acked: map[string]string{}}
	for i := range n {
		c := nodes[i%len(nodes)].dial(t)
		w.wait.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				key, val := fmt.Sprintf("w/%d/%d", i, k), strings.Repeat("v", value)
				if _, err := c.Put(ctx, key, val); err != nil {
					return
				}
				w.mu.Lock()
				w.acked[key] = val
				w.mu.Unlock()
				w.count.Add(1)
			}
		})
	}
	return w
}

// until waits until n writes were acknowledged.
func (w *writers) until(t *testing.T, n int64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); w.count.Load() < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d writes in 30s", w.count.Load(), n)
		}
		time.Sleep(time.Millisecond)
	}
}

// lost counts the acknowledged writes that the member does not have.
func (w *writers) lost(t *testing.T, n *node) (lost int) {
	t.Helper()
	w.stop()
	w.wait.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got, err := n.dial(t).Get(ctx, "w/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, kv := range got.Kvs {
		have[string(kv.Key)] = string(kv.Value)
	}
	for k, v := range w.acked {
		if have[k] != v {
			lost++
		}
	}
	return lost
}

// members lists the cluster as the member sees it.
func (n *node) members(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	got, err := n.dial(t).MemberList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range got.Members {
		all = append(all, m.Name)
	}
	return all
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestSurvivorKeepsEveryAcknowledgedWrite(t *testing.T) {
	for _, version := range versions {
		for _, leader := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/leader=%t", version, leader), func(t *testing.T) {
				a, b := pair(t, version)
				if a.leads(t) != leader {
					a, b = b, a
				}
				w := write(t, 16, 64, a, b)
				w.until(t, 500)
				b.kill()
				a.kill()
				p, err := Edit(a.dir(), Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("edit %.0f ms, %d acknowledged, entries %d to %d not known to be committed", p.EditMS, w.count.Load(), p.Known+1, p.Last.Index)
				began := time.Now()
				a.start(t)
				a.await(t, 20*time.Second)
				t.Logf("writable %s after the start", time.Since(began).Round(time.Millisecond))
				if got := a.members(t); len(got) != 1 || got[0] != a.name {
					t.Errorf("members %v, want %s alone", got, a.name)
				}
				if lost := w.lost(t, a); lost > 0 {
					t.Errorf("%d of %d acknowledged writes lost", lost, w.count.Load())
				}
			})
		}
	}
}

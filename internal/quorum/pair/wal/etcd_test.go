package wal

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/internal/base/offspring"
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
	if err := offspring.Start(n.cmd); err != nil {
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
	if !comes(30*time.Second, func() bool { return w.count.Load() >= n }) {
		t.Fatalf("%d of %d writes in 30s", w.count.Load(), n)
	}
}

// comes waits until what is so, and says whether it came to be.
func comes(within time.Duration, what func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
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

// many says that there is time for many runs.
func many() bool { return os.Getenv("HOLDFAST_PAIR") != "" }

// nightly skips what takes minutes, or shows itself only in many runs.
func nightly(t *testing.T) {
	t.Helper()
	if !many() {
		t.Skip("HOLDFAST_PAIR=1 runs it")
	}
}

// rescue is one takeover by hand: 16 writers, both members killed, the survivor
// edited and started.
type rescue struct {
	edit, writable time.Duration
	acked, lost    int
	open           uint64 // entries of the survivor not known to be committed
}

func (r rescue) String() string {
	return fmt.Sprintf("edit %.0f ms, writable %.2f s after the start, %d acknowledged, %d lost, %d entries not known to be committed",
		float64(r.edit.Microseconds())/1000, r.writable.Seconds(), r.acked, r.lost, r.open)
}

// rescued runs one. a survives; b is killed before or after it.
func rescued(t *testing.T, a, b *node, writes int64, bFirst bool, extra ...string) rescue {
	t.Helper()
	w := write(t, 16, 64, a, b)
	w.until(t, writes)
	if bFirst {
		b.kill()
		a.kill()
	} else {
		a.kill()
		b.kill()
	}
	var r rescue
	if len(extra) == 0 {
		p, err := Edit(a.dir(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		r.edit, r.open = time.Duration(p.EditMS*float64(time.Millisecond)), p.Last.Index-p.Known
	}
	began := time.Now()
	a.start(t, extra...)
	a.await(t, 20*time.Second)
	r.writable = time.Since(began)
	if got := a.members(t); len(got) != 1 || got[0] != a.name {
		t.Errorf("members %v, want %s alone", got, a.name)
	}
	r.lost = w.lost(t, a)
	r.acked = len(w.acked)
	return r
}

// led orders a pair by who leads.
func led(t *testing.T, a, b *node, first bool) (*node, *node) {
	t.Helper()
	if a.leads(t) != first {
		return b, a
	}
	return a, b
}

func TestSurvivorKeepsEveryAcknowledgedWrite(t *testing.T) {
	for _, version := range versions {
		for _, leader := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/leader=%t", version, leader), func(t *testing.T) {
				a, b := pair(t, version)
				a, b = led(t, a, b, leader)
				r := rescued(t, a, b, 500, true)
				t.Log(r)
				if r.lost > 0 || r.acked < 500 {
					t.Errorf("%d of %d acknowledged writes lost", r.lost, r.acked)
				}
			})
		}
	}
}

// Snapshots, so that etcd starts in the middle of a log, both orders of death,
// and either member, many times over.
func TestSurvivorsOverAndOver(t *testing.T) {
	nightly(t)
	var edits, starts []time.Duration
	acked, open := 0, 0
	for i := range 24 {
		version := versions[i%3]
		var extra []string
		if i%2 == 0 {
			extra = []string{"--snapshot-count", "200"}
		}
		a, b := pair(t, version, extra...)
		a, b = led(t, a, b, i/6%2 == 0)
		r := rescued(t, a, b, 300+100*int64(i%5), i/3%2 == 0)
		t.Logf("%s %v: %v", version, extra, r)
		edits, starts = append(edits, r.edit), append(starts, r.writable)
		acked += r.acked
		if r.open > 0 {
			open++
		}
		if r.lost > 0 {
			t.Errorf("%d of %d acknowledged writes lost", r.lost, r.acked)
		}
		a.kill()
	}
	if acked < 24*300 || open == 0 {
		t.Errorf("%d writes, %d logs with entries not known to be committed: too few to have tried it", acked, open)
	}
	slices.Sort(edits)
	slices.Sort(starts)
	t.Logf("edit: median %s, most %s; start to writable: median %s, most %s; %d writes, none of them lost",
		edits[12], edits[23], starts[12], starts[23], acked)
}

// The control: with etcd's own way out the same harness finds writes lost.
func TestForceNewClusterLosesWrites(t *testing.T) {
	nightly(t)
	var lost []int
	for i := range 40 {
		version := versions[i%3]
		a, b := pair(t, version)
		a, b = led(t, a, b, false)
		r := rescued(t, a, b, 500, i%2 == 0, "--force-new-cluster")
		t.Logf("%s: %v", version, r)
		a.kill()
		lost = append(lost, r.lost)
		if slices.Max(lost) > 0 && len(lost) >= 12 {
			t.Logf("lost per run: %v", lost)
			return
		}
	}
	t.Errorf("nothing lost in %d runs: the harness finds nothing", len(lost))
}

// The whole life of a pair: b is lost, comes back as a learner, is promoted, and
// then survives a itself.
func TestLoserRejoinsAndSurvivesTheWinner(t *testing.T) {
	for i, version := range versions {
		t.Run(version, func(t *testing.T) {
			if i > 0 {
				nightly(t)
			}
			a, b := pair(t, version)
			first := rescued(t, a, b, 200, true)
			stale := b.data
			b.start(t)
			b.gone(t, 20*time.Second)
			b.data += "-again"
			b.rejoin(t, a)
			r := rescued(t, b, a, 200, true)
			t.Logf("%v, then %v", first, r)
			if first.lost > 0 || r.lost > 0 {
				t.Errorf("%d and %d acknowledged writes lost", first.lost, r.lost)
			}
			// What the first loser had is no member's any more.
			if _, err := Verify(Dir{Data: stale}); err != nil {
				t.Errorf("verify the loser's data: %v", err)
			}
		})
	}
}

// gone waits until a member that was removed ends by itself.
func (n *node) gone(t *testing.T, within time.Duration) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		_ = n.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(within):
		t.Fatalf("%s still runs %s after it met the cluster that removed it\n%s", n.name, within, n.output.String())
	}
}

// rejoin adds n to the cluster of a, as a learner first.
func (n *node) rejoin(t *testing.T, a *node) {
	t.Helper()
	c := a.dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	added, err := c.MemberAddAsLearner(ctx, []string{"http://" + n.peer})
	if err != nil {
		t.Fatal(err)
	}
	n.start(t, "--initial-cluster", fmt.Sprintf("%s=http://%s,%s=http://%s", a.name, a.peer, n.name, n.peer), "--initial-cluster-state", "existing")
	for {
		_, err = c.MemberPromote(ctx, added.Member.ID)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("promote %s: %v\n%s", n.name, err, n.output.String())
		}
	}
	n.await(t, 20*time.Second)
}

// An etcd that its supervisor starts in the middle of an edit must not see half
// of it. It waits for the database, and then finds itself alone.
func TestEtcdStartedDuringAnEditWaits(t *testing.T) {
	a, b := pair(t, "3.6")
	b.kill()
	if _, err := Edit(a.dir(), Options{}); reasonOf(err) != Running {
		t.Errorf("beside a running etcd: got %v, want a refusal as %s", err, Running)
	}
	a.kill()
	var waited bool
	_, err := edit(a.dir(), Options{}, func(step string) error {
		if step == "append" {
			a.start(t)
			waited = a.waits(t)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !waited {
		t.Error("etcd did not wait for the edit")
	}
	a.await(t, 20*time.Second)
	if got := a.members(t); len(got) != 1 {
		t.Errorf("members %v, want %s alone", got, a.name)
	}
}

// waits says whether the process comes to wait for the lock of its database.
func (n *node) waits(t *testing.T) bool {
	t.Helper()
	db, err := os.Stat(filepath.Join(n.data, "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	return comes(20*time.Second, func() bool {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", n.cmd.Process.Pid))
		return slices.ContainsFunc(files, func(f string) bool {
			info, err := os.Stat(f)
			return err == nil && os.SameFile(info, db)
		})
	})
}

package probe

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/offspring"
)

// peer returns the binary of a released etcd, which scripts/setup or
// `make peers` builds into the cache. Without it the test skips on a laptop
// and fails in CI, where nothing may go untested.
func peer(t *testing.T, version string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "holdfast", "peers", "etcd-"+version)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no etcd %s: %v; build test/peers/etcd-%s there", version, err, version)
		}
		t.Skipf("no etcd %s: %v; build test/peers/etcd-%s there", version, err, version)
	}
	return path
}

// member is an etcd member on loopback.
type member struct {
	client string // HOST:PORT
	cmd    *exec.Cmd
}

// startEtcd starts a cluster of n members with client TLS and waits until each
// answers a linearizable read.
func startEtcd(t *testing.T, version string, a authority, n int) []*member {
	t.Helper()
	binary := peer(t, version)
	members := make([]*member, n)
	peers := make([]string, n)
	var cluster []string
	for i := range members {
		members[i] = &member{client: freeAddress(t)}
		peers[i] = freeAddress(t)
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i, peers[i]))
	}
	for i, m := range members {
		m.start(t, binary, a, fmt.Sprintf("m%d", i), peers[i], strings.Join(cluster, ","))
	}
	for _, m := range members {
		m.await(t, a)
	}
	return members
}

func (m *member) start(t *testing.T, binary string, a authority, name, peer, cluster string) {
	t.Helper()
	m.cmd = exec.Command(binary, "--name", name, "--data-dir", t.TempDir(), "--unsafe-no-fsync",
		"--listen-client-urls", "https://"+m.client, "--advertise-client-urls", "https://"+m.client,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer,
		"--initial-cluster", cluster, "--heartbeat-interval", "50", "--election-timeout", "500",
		"--client-cert-auth", "--trusted-ca-file", a.ca, "--cert-file", a.cert, "--key-file", a.key,
		"--log-level", "error")
	if err := offspring.Start(m.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.kill)
}

func (m *member) kill() {
	if m.cmd.ProcessState == nil {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
	}
}

func (m *member) await(t *testing.T, a authority) {
	t.Helper()
	cfg := &Config{TLS: a.client(), Control: Control{Off: true},
		Targets: []Target{{Name: "await", URL: "etcd://" + m.client, Modes: []Mode{ModeNew}}}}
	follow(t, cfg, func(_ string, samples []Sample) bool { return samples[len(samples)-1].OK })
}

func (m *member) target(kinds string) Target {
	return Target{Name: "m", URL: "etcd://" + m.client + "?kind=" + kinds}
}

const everyKind = "put,get,serializable,watch"

func TestEtcdKinds(t *testing.T) {
	// The timeout is long so that a busy machine does not look like an outage.
	for _, version := range []string{"3.5", "3.6", "3.7"} {
		t.Run(version, func(t *testing.T) {
			a := newAuthority(t)
			m := startEtcd(t, version, a, 1)[0]
			cfg := &Config{TLS: a.client(), Interval: 50 * time.Millisecond, Timeout: 10 * time.Second, Targets: []Target{m.target(everyKind)}}
			lively, refused := map[string]bool{}, map[string]bool{}
			paths := follow(t, cfg, func(path string, samples []Sample) bool {
				if lively[path] = len(samples) >= 10; path != ControlPath && samples[len(samples)-1].Class == ClassRefused {
					refused[path] = true
				}
				if len(lively) == 8 && len(refused) == 0 && !slices.Contains(slices.Collect(maps.Values(lively)), false) {
					m.kill()
				}
				return len(refused) == 7
			})
			if len(paths) != 8 {
				t.Errorf("%d paths", len(paths))
			}
			for path, samples := range paths {
				checkKilled(t, path, samples)
			}
		})
	}
}

// checkKilled wants a path that was good until its member was killed; then what
// was in flight, and one sample of a kept connection, is reset and the rest
// refused.
func checkKilled(t *testing.T, path string, samples []Sample) {
	t.Helper()
	s := Summarise(path, samples)
	if path == ControlPath {
		if s.Failed > 0 {
			t.Errorf("%s failed: %v", path, s.Errors)
		}
		return
	}
	// A slower sample may fail beside a quicker, later one that was still good:
	// more than one outage is possible.
	if s.Outages == 0 || !s.Gaps[s.Outages-1].Open || s.Gaps[0].LastGood.IsZero() || s.Errors[ClassRefused] < 1 {
		t.Errorf("%s: %d outages, %v", path, s.Outages, s.Errors)
	}
	if s.Errors[ClassReset]+s.Errors[ClassRefused] != s.Failed {
		t.Errorf("%s: %v", path, s.Errors)
	}
}

// A member that has lost its leader: puts and linearizable reads get no answer
// in time, serializable reads go on, and a watch that demands a leader is cut
// and refused by name.
func TestALeaderlessMember(t *testing.T) {
	a := newAuthority(t)
	members := startEtcd(t, "3.6", a, 2)
	cfg := &Config{TLS: a.client(), Timeout: 2 * time.Second, Control: Control{Off: true}, Targets: []Target{members[0].target(everyKind)}}
	killed := false
	paths := follow(t, cfg, func(path string, samples []Sample) bool {
		if path == "m/watch/stream" && len(samples) == 5 {
			members[1].kill()
			killed = true
		}
		return killed && path == "m/watch/stream" && Summarise("", samples).Errors[ClassServer] >= 10
	})
	for path, samples := range paths {
		s := Summarise(path, samples)
		last := samples[len(samples)-1]
		switch {
		case strings.Contains(path, "serializable"):
			if s.Failed > 0 {
				t.Errorf("%s: %v", path, s.Errors)
			}
		case strings.Contains(path, "watch"):
			if !strings.Contains(last.Error, "etcdserver: no leader") {
				t.Errorf("%s: %s", path, last.Error)
			}
		case last.Class != ClassTimeout && last.Class != ClassServer:
			t.Errorf("%s: %q %s", path, last.Class, last.Error)
		}
	}
}

// A member that is frozen and thawed: samples of kept connections time out,
// the connections survive, and no other class appears.
func TestAFrozenMember(t *testing.T) {
	a := newAuthority(t)
	m := startEtcd(t, "3.6", a, 1)[0]
	cfg := &Config{TLS: a.client(), Timeout: 2 * time.Second, Targets: []Target{m.target(everyKind)}}
	frozen, thawed := false, false
	paths := follow(t, cfg, func(path string, samples []Sample) bool {
		last := samples[len(samples)-1]
		switch {
		case path != "m/watch/stream":
		case !frozen && len(samples) == 10:
			_ = m.cmd.Process.Signal(syscall.SIGSTOP)
			frozen = true
		case frozen && !thawed && Summarise("", samples).Failed == 10:
			_ = m.cmd.Process.Signal(syscall.SIGCONT)
			thawed = true
		}
		_, stable := StableFrom(samples, lastBad(samples), 20)
		return thawed && path == "m/watch/stream" && last.OK && stable
	})
	for path, samples := range paths {
		s := Summarise(path, samples)
		if path == ControlPath {
			continue
		}
		if s.Errors[ClassTimeout] != s.Failed || s.Failed == 0 {
			t.Errorf("%s: %d outages, %v: %s", path, s.Outages, s.Errors, s.Gaps[0].First)
		}
		if peers := locals(samples); strings.HasSuffix(path, "new") == (peers == 1) {
			t.Errorf("%s: %d connections", path, peers)
		}
	}
}

func lastBad(samples []Sample) time.Time {
	var at time.Time
	for _, s := range samples {
		if !s.OK {
			at = s.Sent
		}
	}
	return at
}

// locals counts the connections by which samples were good.
func locals(samples []Sample) int {
	seen := map[string]bool{}
	for _, s := range samples {
		if s.OK {
			seen[s.Local] = true
		}
	}
	return len(seen)
}

// A listener that completes TLS and then says nothing is a timeout of the
// sample, not of the library's own.
func TestEtcdBehindASilentServer(t *testing.T) {
	noLeaks(t)
	a := newAuthority(t)
	address := serve(t, func(c net.Conn) {})
	start := time.Now()
	for _, s := range probeOnce(t, Target{Name: "m", URL: "etcd://" + address + "?kind=put,watch", TLS: &TLS{CA: a.ca}, Timeout: 200 * time.Millisecond}) {
		if s.Class != ClassTimeout || s.Latency() > time.Second {
			t.Errorf("%s: %q after %v: %s", s.Path, s.Class, s.Latency(), s.Error)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

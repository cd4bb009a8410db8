package health

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/offspring"
)

func TestEtcdGrades(t *testing.T) {
	const healthy = `{"health":"true","reason":""}`
	files := newAuthority(t).issue("member", tomorrow, false)
	unhealthy := func(reason string) string { return `{"health":"false","reason":"` + reason + `"}` + "\n" }
	type says struct {
		code int
		body string
	}
	for _, c := range []struct {
		name    string
		answers map[string]says
		grade   Grade
		reason  string
		refused bool
	}{
		{"healthy", map[string]says{"/health": {200, healthy}, "/readyz/non_learner": {200, "ok\n"}}, Ready, "", false},
		{"healthy, before 3.5.11", map[string]says{"/health": {200, healthy}}, Ready, "", false},
		{"learner", map[string]says{"/health": {200, healthy}, "/readyz/non_learner": {503, "[-]non_learner failed: not supported for learner\n"}}, NotReady, "is a learner", false},
		{"no leader", map[string]says{"/health": {503, unhealthy("RAFT NO LEADER")}}, NotReady, "no leader", false},
		{"no quorum", map[string]says{"/health": {503, unhealthy("RANGE ERROR:etcdserver: request timed out")}}, NotReady, "RANGE ERROR:etcdserver: request timed out", false},
		{"corrupt", map[string]says{"/health": {503, unhealthy("ALARM CORRUPT")}}, NotReady, "ALARM CORRUPT", false},
		{"full", map[string]says{"/health": {503, unhealthy("ALARM NOSPACE")}, "/health?exclude=NOSPACE": {200, healthy}}, Ready, "alarm NOSPACE: serves reads and deletes only; compact, defragment and disarm", false},
		{"full and no leader", map[string]says{"/health": {503, unhealthy("ALARM NOSPACE")}, "/health?exclude=NOSPACE": {503, unhealthy("RAFT NO LEADER")}}, NotReady, "no leader", false},
		{"something else", map[string]says{"/health": {200, "<html>"}}, NotReady, "answers 200", false},
		{"not for us", map[string]says{"/health": {401, ""}}, Alive, "answers, but not to us (401)", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serveTLS(t, files, func(w http.ResponseWriter, r *http.Request) {
				a, ok := c.answers[r.URL.RequestURI()]
				if !ok {
					a.code = http.StatusNotFound
				}
				w.WriteHeader(a.code)
				_, _ = io.WriteString(w, a.body)
			})
			p := prober(t, Check{Kind: Etcd, TLS: files}, address(s))
			for range 2 {
				r := probe1(t, p, false)
				if r.Grade != c.grade || r.Reason != c.reason || r.CredentialsRefused != c.refused || r.RTT <= 0 {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
}

// peer returns the binary of a released etcd, which `make peers` builds into
// the cache. Without it the test skips on a laptop and fails in CI, where
// nothing may go untested.
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

var (
	givenMu sync.Mutex
	given   = map[string]bool{}
)

// freeAddress returns one below the ports that the kernel gives to clients,
// and never twice: tests run in parallel.
func freeAddress(t *testing.T) string {
	t.Helper()
	givenMu.Lock()
	defer givenMu.Unlock()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		l, err := net.Listen("tcp", addr)
		if err == nil && !given[addr] {
			given[addr] = true
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port between 20000 and 32000")
	return ""
}

// member is a real etcd member on loopback that wants client certificates.
type member struct {
	t            *testing.T
	binary, name string
	client, peer string
	files        creds.Files
	cmd          *exec.Cmd
}

func newMember(t *testing.T, binary, name string, files creds.Files) *member {
	return &member{t: t, binary: binary, name: name, client: freeAddress(t), peer: freeAddress(t), files: files}
}

func (m *member) start(state string, cluster ...*member) {
	m.t.Helper()
	var urls []string
	for _, c := range cluster {
		urls = append(urls, fmt.Sprintf("%s=http://%s", c.name, c.peer))
	}
	m.cmd = exec.Command(m.binary, "--name", m.name, "--data-dir", m.t.TempDir(), "--unsafe-no-fsync",
		"--listen-client-urls", "https://"+m.client, "--advertise-client-urls", "https://"+m.client,
		"--listen-peer-urls", "http://"+m.peer, "--initial-advertise-peer-urls", "http://"+m.peer,
		"--initial-cluster", strings.Join(urls, ","), "--initial-cluster-state", state,
		"--heartbeat-interval", "50", "--election-timeout", "500",
		"--client-cert-auth", "--trusted-ca-file", m.files.CA, "--cert-file", m.files.Cert, "--key-file", m.files.Key,
		"--log-level", "fatal")
	if err := offspring.Start(m.cmd); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(m.kill)
}

func (m *member) kill() {
	if m.cmd.ProcessState == nil {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
	}
}

// call asks the member's JSON gateway.
func (m *member) call(path string, body any) error {
	cfg, err := m.files.Client("127.0.0.1")
	if err != nil {
		return err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}, Timeout: amply}
	resp, err := client.Post("https://"+m.client+path, "application/json", bytes.NewReader(data))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s", path, resp.StatusCode, said)
	}
	return nil
}

// becomes waits until a member is graded so.
func (m *member) becomes(p Prober, grade Grade, reason string) {
	m.t.Helper()
	var last Result
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(3 * amply)
	for {
		ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
		last = p.Probe(ctx, false)
		cancel()
		if last.Grade == grade && strings.Contains(last.Reason, reason) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			m.t.Fatalf("%s is %+v, want %s %q", m.name, last, grade, reason)
		}
	}
}

// TestRealEtcd takes two members and a learner through what matters.
func TestRealEtcd(t *testing.T) {
	for _, version := range []string{"3.5", "3.6", "3.7"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			realEtcd(t, peer(t, version))
		})
	}
}

func realEtcd(t *testing.T, binary string) {
	files := newAuthority(t).issue("member", tomorrow, false)
	a, b, learner := newMember(t, binary, "a", files), newMember(t, binary, "b", files), newMember(t, binary, "c", files)
	check := func(m *member, f creds.Files) Prober { return prober(t, Check{Kind: Etcd, TLS: f}, m.client) }
	a.start("new", a, b)
	b.start("new", a, b)
	pa := check(a, files)
	a.becomes(pa, Ready, "")
	b.becomes(check(b, files), Ready, "")

	stranger := newAuthority(t).issue("stranger", tomorrow, false)
	a.becomes(check(a, creds.Files{CA: files.CA, Cert: stranger.Cert, Key: stranger.Key}), Alive, "credentials refused")
	a.becomes(check(a, creds.Files{CA: files.CA}), Alive, "wants a client certificate")

	if err := a.call("/v3/maintenance/alarm", map[string]any{"action": "ACTIVATE", "alarm": "NOSPACE"}); err != nil {
		t.Fatal(err)
	}
	a.becomes(pa, Ready, "alarm NOSPACE")
	if err := a.call("/v3/maintenance/alarm", map[string]any{"action": "DEACTIVATE", "alarm": "NOSPACE"}); err != nil {
		t.Fatal(err)
	}
	a.becomes(pa, Ready, "")

	// A new voter must have been healthy for a while before the next change.
	await(t, "a learner is added", func() bool {
		return a.call("/v3/cluster/member/add", map[string]any{"peerURLs": []string{"http://" + learner.peer}, "isLearner": true}) == nil
	})
	learner.start("existing", a, b, learner)
	learner.becomes(check(learner, files), NotReady, "is a learner")

	b.kill()
	a.becomes(pa, NotReady, "no leader")
}

package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/offspring"
	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/etcd"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
)

// etcdPeer is the binary of a released etcd, which `make peers` builds. Without it
// the test skips on a laptop and fails in CI, where nothing may go untested.
func etcdPeer(t *testing.T, version string) string {
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

// realMember is an etcd member with client TLS, which is told where others are.
type realMember struct {
	name, client, peer string
	cmd                *exec.Cmd
}

func (m *realMember) kill() {
	if m.cmd.ProcessState == nil {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
	}
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a test
	return l.Addr().String()
}

// startMembers starts a cluster of three, and returns an access to the first.
func startMembers(t *testing.T, version string) ([]*realMember, EtcdAccess) {
	t.Helper()
	binary, dir := etcdPeer(t, version), t.TempDir()
	authority, err := pki.NewAuthority(dir, "etcd", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	files, err := authority.Issue(dir, "member", netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	var all []*realMember
	var cluster []string
	for i := range 3 {
		m := &realMember{name: fmt.Sprintf("m%d", i), client: "https://" + free(t), peer: "http://" + free(t)}
		all, cluster = append(all, m), append(cluster, m.name+"="+m.peer)
	}
	for _, m := range all {
		m.cmd = exec.Command(binary, "--name", m.name, "--data-dir", filepath.Join(dir, m.name),
			"--listen-client-urls", m.client, "--advertise-client-urls", m.client,
			"--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.peer, "--initial-cluster", strings.Join(cluster, ","),
			"--client-cert-auth", "--trusted-ca-file", files.CA, "--cert-file", files.ServerCert, "--key-file", files.ServerKey, "--log-level", "error")
		if err := offspring.Start(m.cmd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.kill)
	}
	return all, EtcdAccess{Endpoints: []string{all[0].client}, CAFile: files.CA, CertFile: files.ClientCert, KeyFile: files.ClientKey}
}

// until asks again and again until the members are as wanted.
func until(t *testing.T, a EtcdAccess, wanted func([]fact.EtcdMember) bool) []fact.EtcdMember {
	t.Helper()
	var members []fact.EtcdMember
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if members, err = askEtcd(t.Context(), a); err == nil && wanted(members) {
			return members
		}
	}
	t.Fatalf("%v: %+v", err, members)
	return nil
}

func well(all []fact.EtcdMember) (n, leaders int) {
	for _, m := range all {
		if m.Healthy {
			n++
		}
		if m.Leader {
			leaders++
		}
	}
	return n, leaders
}

// Real members tell who they are; one that is dead is told of by the others, also
// when no quorum is left.
func TestEtcdMembers(t *testing.T) {
	for _, version := range []string{"3.5", "3.7"} {
		t.Run(version, func(t *testing.T) {
			members, a := startMembers(t, version)
			whole := until(t, a, func(all []fact.EtcdMember) bool { n, l := well(all); return n == 3 && l == 1 })
			for _, m := range whole {
				if !strings.HasPrefix(m.Version, version) || m.DBBytes == 0 || m.ID == "" || len(m.PeerURLs) != 1 || m.Error != "" {
					t.Errorf("%+v", m)
				}
			}
			if got := outcomeOf(t, a, "HF-ETCD-005"); got != audit.Passed {
				t.Errorf("all are well, and HF-ETCD-005 %s", got)
			}
			members[1].kill()
			until(t, a, func(all []fact.EtcdMember) bool {
				n, l := well(all)
				return n == 2 && l == 1 && all[deadOf(all)].Name == "m1"
			})
			if got := outcomeOf(t, a, "HF-ETCD-005"); got != audit.Fired {
				t.Errorf("m1 is dead, and HF-ETCD-005 %s", got)
			}
			members[2].kill()
			until(t, a, func(all []fact.EtcdMember) bool { n, _ := well(all); return n == 0 })
		})
	}
}

// outcomeOf is what comes of a rule about etcd on what the members say now.
func outcomeOf(t *testing.T, a EtcdAccess, id string) audit.Outcome {
	t.Helper()
	feed := source.NewFeed("living members", source.DefaultLimits())
	state, err := Etcd(t.Context(), a, feed)
	if err != nil {
		t.Fatal(err)
	}
	f, err := feed.Close(source.Manifest{Version: source.Version, States: map[string]source.Stated{"etcd": state}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range audit.Evaluate(etcd.Rules(), f, audit.Options{}).Rules {
		if r.ID == id {
			return r.Outcome
		}
	}
	t.Fatalf("no rule %s", id)
	return ""
}

// deadOf is the first member that does not answer.
func deadOf(all []fact.EtcdMember) int {
	for i, m := range all {
		if !m.Healthy && m.Error != "" {
			return i
		}
	}
	return 0
}

// kept is a sink that remembers.
type kept map[string]string

func (k kept) File(name string, data []byte) error {
	if k == nil {
		return errors.New("full")
	}
	k[name] = string(data)
	return nil
}

// What cannot be asked is unknown, and says why.
func TestEtcdThatDoesNotAnswer(t *testing.T) {
	sink := kept{}
	state, err := Etcd(t.Context(), EtcdAccess{Endpoints: []string{"http://" + free(t)}}, sink)
	if err != nil || state.State != fact.Unknown.String() || !strings.Contains(state.Why, "list members of etcd") || len(sink) > 0 {
		t.Errorf("%+v, %v, %v", state, err, sink)
	}
	state, err = Etcd(t.Context(), EtcdAccess{Endpoints: []string{"https://127.0.0.1:1"}, CAFile: "/nonexistent"}, sink)
	if err != nil || !strings.Contains(state.Why, "read credentials for etcd") {
		t.Errorf("%+v, %v", state, err)
	}
}

// A machine's credentials are found where its distribution keeps them.
func TestEtcdAtHand(t *testing.T) {
	root := t.TempDir()
	if _, ok := EtcdAt(root); ok {
		t.Error("an access to nothing")
	}
	key := filepath.Join(root, "etc/kubernetes/pki/etcd/healthcheck-client.key")
	if err := os.MkdirAll(filepath.Dir(key), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if a, ok := EtcdAt(root); !ok || a.KeyFile != key || len(a.Endpoints) != 1 {
		t.Errorf("%+v, %t", a, ok)
	}
}

// What is written is what bundles have.
func TestEtcdIsRead(t *testing.T) {
	member := fact.EtcdMember{Name: "a1", ID: "1f", Healthy: true, Leader: true, Version: "3.6.12", DBBytes: 7, Alarms: []string{"NOSPACE"}, FsyncP99: 3 * time.Millisecond}
	data, err := json.Marshal(map[string]any{"members": []fact.EtcdMember{member}})
	if err != nil {
		t.Fatal(err)
	}
	feed := source.NewFeed("a test", source.DefaultLimits())
	if err := feed.File("etcd.yaml", data); err != nil {
		t.Fatal(err)
	}
	f, err := feed.Close(source.Manifest{Version: source.Version})
	if err != nil || len(f.Problems) > 0 || len(f.Etcd.Items) != 1 || fmt.Sprint(*f.Etcd.Items[0].Object) != fmt.Sprint(member) {
		t.Errorf("%v, %+v", err, f)
	}
}

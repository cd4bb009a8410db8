package pair

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/offspring"
	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

// peer returns a program that scripts/peers builds. Without it the test skips on a
// laptop and fails in CI, where nothing may go untested.
func peer(t *testing.T, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "holdfast", "peers", name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no %s: %v; run scripts/peers", name, err)
		}
		t.Skipf("no %s: %v; run scripts/peers", name, err)
	}
	return path
}

func freeURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

// oneEtcd is an observer of a real etcd of one member.
func oneEtcd(t *testing.T, version string) *observer {
	t.Helper()
	client, raft := freeURL(t), freeURL(t)
	cmd := exec.Command(peer(t, "etcd-"+version), "--data-dir", t.TempDir(), "--unsafe-no-fsync", "--log-level", "fatal",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", raft, "--initial-advertise-peer-urls", raft, "--initial-cluster", "default="+raft)
	if err := offspring.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	own, err := etcd.Dial(client, etcd.Access{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	listener, err := etcd.NewProber(raft, creds.Files{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	o := &observer{clock: func() time.Duration { return time.Since(start) + 1 }, nudge: func() {}, own: own, listener: listener, settings: Settings{Prefix: "/holdfast/pair"}}
	o.view.Process = Process{Running: true, Since: 1}
	return o
}

// sees looks again and again until it is so.
func (o *observer) sees(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-tick.C {
		_, _ = o.lookStatus(t.Context()), o.lookQuorum(t.Context())
		if so() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within 2 minutes: %s; it is %+v", what, o.see().Quorum)
		}
	}
}

// TestAlarmsOfARealEtcdAreNotServing: a quorum answers reads under an alarm, so that
// alone said that clients can write.
func TestAlarmsOfARealEtcdAreNotServing(t *testing.T) {
	for _, version := range []string{"3.5", "3.6", "3.7"} {
		t.Run(version, func(t *testing.T) {
			o := oneEtcd(t, version)
			now := func() error {
				v := o.see()
				return serves(v, Plan{Why: "no quorum"}, sentences(o.raised(), (&Agent{settings: Settings{Name: "a"}}).nameOf(v)))
			}
			o.sees(t, "it serves", func() bool { return now() == nil && o.see().Members.Known })
			for _, kind := range []etcdserverpb.AlarmType{etcdserverpb.AlarmType_NOSPACE, etcdserverpb.AlarmType_CORRUPT} {
				raise(t, o, etcdserverpb.AlarmRequest_ACTIVATE, kind)
				want := fmt.Sprintf("etcd's alarm %s stands for a, so no member takes writes: ", kind)
				o.sees(t, want, func() bool { return o.see().quorate() && now() != nil && strings.HasPrefix(now().Error(), want) })
				raise(t, o, etcdserverpb.AlarmRequest_DEACTIVATE, kind)
				o.sees(t, "it serves again", func() bool { return now() == nil })
			}
		})
	}
}

func raise(t *testing.T, o *observer, do etcdserverpb.AlarmRequest_AlarmAction, kind etcdserverpb.AlarmType) {
	t.Helper()
	cli, err := o.member().Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = etcdserverpb.NewMaintenanceClient(cli.ActiveConnection()).Alarm(t.Context(),
		&etcdserverpb.AlarmRequest{Action: do, MemberID: uint64(o.see().Members.Self), Alarm: kind})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAlarmsInMetrics(t *testing.T) {
	m := newMetrics()
	r := prometheus.NewRegistry()
	m.register(r)
	v := View{Now: 10 * time.Second, Process: Process{Running: true, Since: 1}, Quorum: Quorum{Confirmed: 10 * time.Second}, Members: Members{Self: 1, Peer: 2}}
	name := (&Agent{settings: Settings{Name: "a", Peer: PeerSettings{Name: "b"}}}).nameOf(v)
	shows := func(raised []etcd.Alarm, want ...string) {
		t.Helper()
		m.alarms(raised, name)
		m.observe(v, Plan{})
		said := httptest.NewRecorder()
		promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(said, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		var got []string
		for line := range strings.Lines(said.Body.String()) {
			for _, metric := range []string{"holdfast_pair_serves ", "holdfast_pair_alarm ", "holdfast_pair_etcd_alarm{"} {
				if strings.HasPrefix(line, metric) {
					got = append(got, strings.TrimSpace(strings.TrimPrefix(line, "holdfast_pair_")))
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %v: %q, want %q", raised, got, want)
		}
	}
	shows(nil, "alarm 0", "serves 1")
	shows([]etcd.Alarm{{Member: 2, Name: "NOSPACE"}, {Member: 255, Name: "CORRUPT"}},
		"alarm 1", `etcd_alarm{alarm="CORRUPT",member="member ff"} 1`, `etcd_alarm{alarm="NOSPACE",member="b"} 1`, "serves 0")
	shows([]etcd.Alarm{{Member: 1, Name: "NOSPACE"}}, "alarm 1", `etcd_alarm{alarm="NOSPACE",member="a"} 1`, "serves 0")
	shows(nil, "alarm 0", "serves 1")
}

// A member that has a quorum and cannot write says the alarm, not how well it is.
func TestStatusSaysTheAlarm(t *testing.T) {
	record := pairedRecord()
	s := Status{Name: "a", Peer: "b", Record: &record, Why: "paired, generation 4", EtcdAlarms: sentences([]etcd.Alarm{{Member: 1, Name: "NOSPACE"}}, func(uint64) string { return "b" })}
	for _, text := range []string{s.summary(), s.verdict().Error()} {
		if !strings.Contains(text, "NOSPACE stands for b") || !strings.Contains(text, "etcdctl alarm disarm") {
			t.Error(text)
		}
	}
	s.Etcd.LostMS, s.Why = 3000, "no quorum for 3s"
	if got := s.verdict().Error(); !strings.Contains(got, "no quorum") {
		t.Error(got)
	}
}

package lab

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

// requireLab skips a test on a machine that cannot run labs, and fails it
// there in CI, where a skipped test would look like a passed one.
func requireLab(t *testing.T) {
	t.Helper()
	err := Preflight()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("this test must not be skipped in CI: %v", err)
	}
	t.Skip(err)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func startLab(t *testing.T, spec Spec) *Lab {
	t.Helper()
	requireLab(t)
	if spec.Dir == "" {
		spec.Dir = t.TempDir()
	}
	l, err := Start(t.Context(), spec, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func mustDefault(t *testing.T, preset string) Spec {
	t.Helper()
	s, err := Default(preset)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestDefaultLabWithEtcd(t *testing.T) {
	began := time.Now()
	step := func(name string) {
		t.Logf("%-24s %v", name, time.Since(began).Round(time.Millisecond))
		began = time.Now()
	}
	l := startLab(t, mustDefault(t, "rtt"))
	step("start")
	ctx := deadline(t, time.Minute)
	if err := l.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	step("etcd")
	for _, site := range []string{"a", "b", "c"} {
		if err := l.MoveLeader(ctx, "main", site); err != nil {
			t.Fatal(err)
		}
		step("leader to " + site)
	}
	if err := l.MoveLeader(ctx, "main", "a"); err != nil {
		t.Fatal(err)
	}
	if err := l.Cut(ctx, Cut{Name: "ab", From: "a", To: "b"}); err != nil {
		t.Fatal(err)
	}
	step("cut")
	b, err := l.Member("main", "b")
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, 10*time.Second, "b loses its leader", func() bool {
		st, err := b.Status(ctx)
		return err == nil && st.Leader == 0
	})
	step("b leaderless")
	if err := l.Heal(ctx); err != nil {
		t.Fatal(err)
	}
	step("heal")
	waitFor(t, 10*time.Second, "b finds its leader", func() bool {
		st, err := b.Status(ctx)
		return err == nil && st.Leader != 0
	})
	step("b back")
}

// waitFor polls a condition of something outside this process.
func waitFor(t *testing.T, patience time.Duration, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %v: %s", patience, what)
		}
	}
}

// TestEtcdVersions starts every etcd that the kit supports, and an isolated
// site with a member killed and started again.
func TestEtcdVersions(t *testing.T) {
	for _, version := range peers {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			requirePeer(t, version)
			spec := mustDefault(t, "lan")
			spec.Peer = version
			spec.Etcd = append(spec.Etcd, Cluster{Name: "events"})
			l := startLab(t, spec)
			ctx := deadline(t, time.Minute)
			if err := l.StartEtcd(ctx); err != nil {
				t.Fatal(err)
			}
			if v := l.Environment()["etcd"]; !strings.HasPrefix(v, version+".") {
				t.Errorf("version %s runs, %s asked", v, version)
			}
			if err := l.MoveLeader(ctx, "main", "c"); err != nil {
				t.Fatal(err)
			}
			if err := l.MoveLeader(ctx, "events", "a"); err != nil {
				t.Fatal(err)
			}
			m, err := l.Member("main", "c")
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Kill(ctx); err != nil || m.Child() != nil {
				t.Fatalf("kill: %v", err)
			}
			if err := m.Start(ctx); err != nil {
				t.Fatal(err)
			}
			if err := m.Stop(ctx); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// requirePeer skips where the etcd was not built, and fails in CI.
func requirePeer(t *testing.T, version string) {
	t.Helper()
	if _, err := etcdProgram(version); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

package pair

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// The look at a stopped member's directory and the surgery on it take the same locks
// of etcd's: side by side, the surgery took the look for a running etcd, and the claim
// was given back.
func TestSurgeryIsNotRefusedForTheOwnLook(t *testing.T) {
	dir := wal.Dir{Data: filepath.Join(t.TempDir(), "a")}
	leaveDirectory(t, dir.Data)
	start := time.Now()
	o := &observer{clock: func() time.Duration { return time.Since(start) }, nudge: func() {}, dir: dir}
	a := &Agent{obs: o, dir: dir, clock: o.clock, log: slog.New(slog.DiscardHandler), stats: newMetrics()}
	o.view.Process.Since = 1
	stop := make(chan struct{})
	var looks sync.WaitGroup
	for range 2 {
		looks.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					o.change(func(v *View) bool { v.Log = Log{}; return false })
					_ = o.lookLog(t.Context()) // it never fails
				}
			}
		})
	}
	defer looks.Wait()
	defer close(stop)
	for range 8 {
		var refusal *wal.Refusal
		if err := a.edit(t.Context()); errors.As(err, &refusal) && refusal.Reason == wal.Running {
			t.Fatalf("surgery was refused: %v", err)
		}
	}
}

// leaveDirectory has a real etcd make the directory of one of two members, and dies.
func leaveDirectory(t *testing.T, data string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(cache, "holdfast", "peers", "etcd-3.6")
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	const own = "http://127.0.0.1:17998"
	var out strings.Builder
	etcd := exec.Command(program, "--name", "a", "--data-dir", data, "--listen-client-urls", "http://127.0.0.1:17999", "--advertise-client-urls", "http://127.0.0.1:17999",
		"--listen-peer-urls", own, "--initial-advertise-peer-urls", own, "--initial-cluster", "a="+own+",b=http://127.0.0.1:17997")
	etcd.Stdout, etcd.Stderr = &out, &out
	if err := etcd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		if files, _ := filepath.Glob(filepath.Join(data, "member", "wal", "*.wal")); len(files) > 0 || time.Now().After(deadline) {
			break
		}
	}
	_ = etcd.Process.Kill()
	_ = etcd.Wait() // it was killed
	if _, err := os.Stat(filepath.Join(data, "member", "wal")); err != nil {
		t.Fatalf("etcd made no directory: %v\n%s", err, out.String())
	}
}

// TestAnotherLookAtTheDirectoryIsWaitedFor: somebody who has a look with `pair wal verify`
// just then does not cost the claim.
func TestAnotherLookAtTheDirectoryIsWaitedFor(t *testing.T) {
	dir := wal.Dir{Data: filepath.Join(t.TempDir(), "a")}
	leaveDirectory(t, dir.Data)
	look, err := os.OpenFile(filepath.Join(dir.Data, "member", "snap", "db"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(look.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	now := time.Hour
	o := &observer{clock: func() time.Duration { return now }, nudge: func() {}, dir: dir}
	a := &Agent{obs: o, dir: dir, clock: o.clock, log: slog.New(slog.DiscardHandler), stats: newMetrics()}
	for since, refused := range map[time.Duration]bool{time.Second: false, lockPatience: true} {
		a.state.Refusal = ""
		o.view.Process.Since = now - since
		var refusal *wal.Refusal
		if err := a.edit(t.Context()); !errors.As(err, &refusal) || refusal.Reason != wal.Running {
			t.Fatalf("edited a directory that is looked at: %v", err)
		}
		if (a.state.Refusal != "") != refused {
			t.Errorf("%s after the stop: refusal %q", since, a.state.Refusal)
		}
	}
	if err := look.Close(); err != nil {
		t.Fatal(err)
	}
	var refusal *wal.Refusal
	if err := a.edit(t.Context()); errors.As(err, &refusal) && refusal.Reason == wal.Running {
		t.Errorf("the directory is free: %v", err)
	}
}

package robustness

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asReaper makes the test binary wait for the end of the tests.
const asReaper = "HOLDFAST_ROBUST_REAPER"

// reap kills the etcds of a directory once the tests have ended, however they did: an
// etcd outlives its agent on purpose, and would outlive a test that panicked.
func reap(dir string) int {
	_, _ = io.Copy(io.Discard, os.Stdin)
	// An agent dies with the tests, but may have started one more just then.
	for quiet := 0; quiet < 20; quiet++ {
		for _, pid := range working(dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			quiet = 0
		}
		<-time.After(100 * time.Millisecond)
	}
	return 0
}

// working lists the etcds with an argument in a directory.
func working(dir string) (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		program, args, _ := strings.Cut(string(line), "\x00")
		if strings.HasPrefix(filepath.Base(program), "etcd") && strings.Contains("\x00"+args, "\x00"+dir+"/") {
			all = append(all, pid)
		}
	}
	return all
}

// leaveReaper starts one for a directory. It ends with the test.
func leaveReaper(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asReaper+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	alive, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		alive.Close()
		_ = cmd.Wait()
	})
}

func TestReaperKillsWhatIsLeft(t *testing.T) {
	dir := t.TempDir()
	// A program called etcd that waits, with an argument in the directory.
	script := filepath.Join(dir, "etcd-left")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nread -r never\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	left := exec.Command("/bin/sh")
	left.Args = []string{"etcd-left", script, "--data-dir", dir + "/data"}
	in, err := left.StdinPipe()
	if err == nil {
		err = left.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	t.Run("ends", func(t *testing.T) { leaveReaper(t, dir) })
	if err := left.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, want it killed", err)
	}
}

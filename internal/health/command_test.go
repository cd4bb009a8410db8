package health

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestCommandIsKilledWithItsChildren, whose output would else keep it waiting.
func TestCommandIsKilledWithItsChildren(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	p := prober(t, Check{Kind: Exec, Command: []string{"/bin/sh", "-c", "sleep 1000 & echo $! >" + file + ".new; mv " + file + ".new " + file + "; wait"}}, "10.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan Result, 1)
	go func() { done <- p.Probe(ctx, false) }()
	var pid int
	await(t, "the child has started", func() bool {
		data, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	})
	cancel()
	if r := <-done; r.Grade != Frozen {
		t.Errorf("got %+v", r)
	}
	await(t, "the child is gone", func() bool { return dead(pid) })
}

// dead reports that a process is gone, or waits for init to take note of it.
func dead(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(after, "Z")
}

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// downPatience is how long a supervisor may take to close its lab before it is
// killed. It kills members outright, so a second is usual.
const downPatience = 20 * time.Second

// takeDown ends the named lab, whether it runs, hangs or has crashed. It
// reports false when there was none.
func takeDown(ctx context.Context, root, name string) (bool, error) {
	s, err := readState(root, name)
	if errors.Is(err, errNotUp) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if s.alive() {
		ctx, cancel := context.WithTimeout(ctx, downPatience)
		defer cancel()
		if newRemote(root, name).call(ctx, http.MethodPost, pathDown, nil, nil) != nil {
			_ = syscall.Kill(s.Pid, syscall.SIGTERM)
		}
		if !gone(ctx, s) {
			_ = syscall.Kill(s.Pid, syscall.SIGKILL)
			gone(context.WithoutCancel(ctx), s)
		}
	}
	return true, cleanUp(root, s)
}

// gone waits for the supervisor's end and reports whether it came.
func gone(ctx context.Context, s state) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.alive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// cleanUp removes what a lab without supervisor has left: processes that were
// started in its nodes by others, and files. Namespaces, interfaces and rules
// went with the supervisor.
func cleanUp(root string, s state) error {
	if err := killInside(s.ids()); err != nil {
		return fmt.Errorf("clean up lab %s: %w", s.Name, err)
	}
	if err := sweepCgroups(cgroupOwner(s.Pid, s.Ticks), ""); err != nil {
		return fmt.Errorf("clean up lab %s: %w", s.Name, err)
	}
	// The path comes from a file: remove only what a lab may have made.
	if strings.HasPrefix(filepath.Clean(s.Data), "/dev/shm/holdfast-lab-"+s.Name+"-") {
		if err := os.RemoveAll(s.Data); err != nil {
			return fmt.Errorf("clean up lab %s: %w", s.Name, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(root, s.Name)); err != nil {
		return fmt.Errorf("clean up lab %s: %w", s.Name, err)
	}
	return nil
}

package lab

import (
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A loss of power takes what has left its session and its parent, too, and the
// machine comes back without it.
func TestPower(t *testing.T) {
	l := startLab(t, Spec{Name: "power", Sites: []Site{{Name: "a"}}})
	n, ctx := mustNode(t, l, "a1"), deadline(t, time.Minute)
	if _, err := n.SpawnInside(ctx, Process{Name: "early", Argv: []string{"true"}}); !errors.Is(err, errOff) {
		t.Errorf("a process started on a machine that is off: %v", err)
	}
	for range 2 {
		if err := n.PowerOn(ctx); err != nil {
			t.Fatal(err)
		}
		pids, err := n.Inside()
		if err != nil || len(pids) != 0 {
			t.Fatalf("a machine that was just switched on runs %v (%v)", pids, err)
		}
		child, err := n.SpawnInside(ctx, Process{Name: "sh", Argv: []string{"sh", "-c", "setsid sleep 1000 & exec sleep 1000"}})
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, 10*time.Second, "two processes", func() bool { pids, err = n.Inside(); return err == nil && len(pids) == 2 })
		if !slices.Contains(pids, child.Pid()) {
			t.Errorf("the machine runs %v, not the child %d", pids, child.Pid())
		}
		if err := n.PowerOff(ctx); err != nil {
			t.Fatal(err)
		}
		<-child.Done()
		for _, pid := range pids {
			if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
				t.Errorf("process %d outlived its machine: %v", pid, err)
			}
		}
		if err := n.PowerOff(ctx); !errors.Is(err, errOff) {
			t.Errorf("what is off was switched off: %v", err)
		}
	}
}

package realtime

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// classes are those of all threads.
func classes(t *testing.T) map[uint32]int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	all := map[uint32]int{}
	for _, e := range entries {
		tid, _ := strconv.Atoi(e.Name())
		if a, err := unix.SchedGetAttr(tid, 0); err == nil {
			all[a.Policy]++
		}
	}
	return all
}

func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s; classes %v", what, classes(t))
		}
	}
}

func enter(t *testing.T, log *slog.Logger) func() {
	t.Helper()
	leave, err := Enter(log)
	if err != nil {
		if os.Getenv("CI") == "true" && os.Getuid() == 0 {
			t.Logf("not allowed even to root here: %v", err)
		}
		if got := classes(t); got[unix.SCHED_RR] > 0 {
			t.Errorf("refused, and yet %v", got)
		}
		t.Skip(err)
	}
	return leave
}

// threads makes this process have some more.
func threads(n int) (done func()) {
	var all, there sync.WaitGroup
	end := make(chan struct{})
	there.Add(n)
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			there.Done()
			<-end
		})
	}
	there.Wait()
	return func() { close(end); all.Wait() }
}

func TestAllThreads(t *testing.T) {
	defer threads(5)()
	leave := enter(t, slog.New(slog.DiscardHandler))
	second := enter(t, slog.New(slog.DiscardHandler))
	// The runtime may make a thread at any time, which joins like all that come later.
	await(t, "threads have joined", func() bool {
		got := classes(t)
		return got[unix.SCHED_NORMAL] == 0 && got[unix.SCHED_RR] >= 6
	})
	defer threads(5)()
	await(t, "threads that came later have joined", func() bool { return classes(t)[unix.SCHED_NORMAL] == 0 })
	out, err := exec.Command("sh", "-c", "cut -d' ' -f41 /proc/self/stat").CombinedOutput()
	if policy := strings.TrimSpace(string(out)); err != nil || policy != "0" {
		t.Errorf("a program that was started has policy %q, %v", policy, err)
	}
	leave()
	leave() // once is enough
	if got := classes(t); got[unix.SCHED_RR] == 0 {
		t.Errorf("one has left, and all are out: %v", got)
	}
	second()
	if got := classes(t); got[unix.SCHED_RR] > 0 {
		t.Errorf("all have left: %v", got)
	}
}

// TestOverrun runs in a process of its own, which is never let in again.
func TestOverrun(t *testing.T) {
	if os.Getenv("HOLDFAST_REALTIME_OVERRUN") == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestOverrun$", "-test.v")
		cmd.Env = append(os.Environ(), "HOLDFAST_REALTIME_OVERRUN=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var log bytes.Buffer
	leave := enter(t, slog.New(slog.NewTextHandler(&log, nil)))
	for begun := time.Now(); classes(t)[unix.SCHED_RR] > 0; { // without a pause
		if time.Since(begun) > 30*time.Second {
			t.Fatal("still in the class")
		}
	}
	await(t, "nobody is let in again", func() bool {
		leave, err := Enter(slog.New(slog.DiscardHandler))
		leave()
		return err == ErrOverrun
	})
	leave()
	if !strings.Contains(log.String(), ErrOverrun.Error()) {
		t.Errorf("the log says %q", log.String())
	}
}

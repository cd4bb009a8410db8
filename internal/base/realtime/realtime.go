package realtime

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Budget is what the process may use of one processor in each again.
	Budget = again / 2
	// patience is for how many of those in a row it may use more.
	patience = 3
	// again is how often new threads are looked for. They are rare once a process
	// has done everything once.
	again = time.Second
	// priority is the lowest of the class.
	priority = 1
)

// ErrOverrun is returned by Enter once the process has exceeded Budget.
var ErrOverrun = errors.New("this process has computed for too long")

// class is that of this process, which all who entered share.
var class struct {
	mu      sync.Mutex
	users   int
	nice    int32
	overrun bool
	end     chan struct{} // closed when the last user leaves
	ended   chan struct{}
}

// Enter puts the process into the class until leave, which is never nil; several
// may enter. log is told of an overrun.
func Enter(log *slog.Logger) (leave func(), err error) {
	class.mu.Lock()
	defer class.mu.Unlock()
	if class.overrun {
		return func() {}, ErrOverrun
	}
	if class.users == 0 {
		if err := begin(log); err != nil {
			return func() {}, err
		}
	}
	class.users++
	var once sync.Once
	return func() { once.Do(exit) }, nil
}

// begin is the first to enter.
func begin(log *slog.Logger) error {
	before, err := unix.SchedGetAttr(0, 0)
	if err == nil {
		class.nice = before.Nice
		err = sweep(true)
	}
	if err != nil {
		_ = sweep(false)
		return fmt.Errorf("set scheduling class SCHED_RR: %w", err)
	}
	class.end, class.ended = make(chan struct{}), make(chan struct{})
	go keep(log, class.end, class.ended)
	return nil
}

// exit leaves.
func exit() {
	class.mu.Lock()
	defer class.mu.Unlock()
	if class.users--; class.users > 0 {
		return
	}
	close(class.end)
	<-class.ended
}

// keep has new threads join, until the last user leaves or the process overruns.
func keep(log *slog.Logger, end, ended chan struct{}) {
	defer close(ended)
	defer func() { _ = sweep(false) }()
	tick := time.NewTicker(again)
	defer tick.Stop()
	for before, over := used(), 0; ; {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		now := used()
		if over++; now-before <= Budget {
			over = 0
		}
		before = now
		if over == patience {
			log.Warn("this process runs as ordinary ones do from here on", "error", ErrOverrun)
			go noteOverrun()
			return
		}
		_ = sweep(true)
	}
}

// used is what the process has used of all processors.
func used() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// noteOverrun has nobody enter any more. On its own: who leaves waits for keep.
func noteOverrun() {
	class.mu.Lock()
	defer class.mu.Unlock()
	class.overrun = true
}

// sweep puts all threads into the class, or out of it. Threads may come while it
// reads the list, hence twice.
func sweep(in bool) error {
	for range 2 {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, e := range entries {
			tid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			if err := place(tid, in); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// place puts one thread into the class, or out of it.
func place(tid int, in bool) error {
	is, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return err
	}
	if (is.Policy == unix.SCHED_RR) == in {
		return nil
	}
	want := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: class.nice, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if in {
		want.Policy, want.Nice, want.Priority = unix.SCHED_RR, 0, priority
	}
	return unix.SchedSetAttr(tid, want, 0)
}

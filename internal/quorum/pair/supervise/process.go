package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// slice is how long a wait for the end of a process lasts before the context
// is looked at again: the kernel's wait knows nothing of contexts.
const slice = 20 * time.Millisecond

// process is one process of this machine, held by a descriptor, so that no
// other is ever meant by its number.
type process struct {
	pid   int
	start uint64 // in ticks of 10 ms since boot
	fd    int
}

// identify opens process pid if it started at start; 0 for whatever start.
func identify(pid int, start uint64) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	// Looked at after it was opened: had the number passed on meanwhile, the
	// start would be another.
	now, err := startOf(pid)
	if err == nil && start != 0 && now != start {
		err = fmt.Errorf("open process %d: it is another one now", pid)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &process{pid: pid, start: now, fd: fd}, nil
}

// startOf reads when a process was started: field 22 of proc_pid_stat(5).
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	// The name in brackets may hold anything, brackets too.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	const start = 22 - 3 // the first field behind the name is the third
	if len(fields) <= start {
		return 0, fmt.Errorf("look at process %d: short stat", pid)
	}
	return strconv.ParseUint(fields[start], 10, 64)
}

// since is the time of a start, by the wall clock of now.
func (p *process) since() time.Time {
	var up unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	const tick = time.Second / 100 // USER_HZ, on every platform that Go runs on
	age := time.Duration(up.Nano()) - time.Duration(p.start)*tick
	return time.Now().Add(-age).Round(tick)
}

// gone waits at most for wait and says whether every thread of the process has
// ended and its files are closed.
func (p *process) gone(wait time.Duration) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(wait.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("wait for process %d: %w", p.pid, err)
	}
	return n > 0, nil
}

// await waits until the process is gone, or ctx or the time is over.
func (p *process) await(ctx context.Context, within time.Duration) (bool, error) {
	deadline := time.Now().Add(within)
	for {
		left := time.Until(deadline)
		gone, err := p.gone(max(0, min(left, slice)))
		if gone || err != nil {
			return gone, err
		}
		if ctx.Err() != nil || left <= 0 {
			return false, nil
		}
	}
}

func (p *process) signal(s syscall.Signal) error {
	err := unix.PidfdSendSignal(p.fd, s, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("send %s to process %d: %w", signalName(s), p.pid, err)
	}
	return nil
}

func (p *process) close() { _ = unix.Close(p.fd) }

func signalName(s syscall.Signal) string { return unix.SignalName(s) }

// environment is what a process was started with, NAME=value. It is not known
// of one that has ended, nor of another user's.
func environment(pid int) (env []string, known bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || len(b) == 0 {
		return nil, false
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), true
}

// find looks through all processes for the one with the mark, other than this
// program's own.
func find(mark string) (int, bool) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if env, _ := environment(pid); slices.Contains(env, mark) {
			return pid, true
		}
	}
	return 0, false
}

// bootID tells one boot of the machine from another.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

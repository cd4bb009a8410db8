package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// struckWithin bounds how long the kernel may take to show what a signal did.
// SIGSTOP reaches a process when its main thread next runs, which on a busy
// machine is tens of milliseconds.
const struckWithin = 2 * time.Second

// child is the running process p, nil when it does not run.
func (e *engine) child(p scenario.Process) *lab.Child {
	if !p.Agent {
		return e.serverOf(p).Child()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	child := e.running[p]
	if child == nil {
		return nil
	}
	select {
	case <-child.Done():
		return nil
	default:
		return child
	}
}

// target is the running process that a fault is to hit. A fault on a process
// that does not run tests nothing.
func (e *engine) target(p scenario.Process) (*lab.Child, error) {
	child := e.child(p)
	if child == nil {
		return nil, errors.New("does not run, so there is nothing to break; let faults on one process follow each other")
	}
	return child, nil
}

// kill ends p at once, stop in order; both measure that it is gone.
func (e *engine) kill(ctx context.Context, p scenario.Process) error { return e.end(ctx, p, 0) }

func (e *engine) stop(ctx context.Context, p scenario.Process) error {
	return e.end(ctx, p, 10*time.Second)
}

func (e *engine) end(ctx context.Context, p scenario.Process, grace time.Duration) error {
	if e.ofPair(p) {
		return e.signalMember(ctx, p, syscall.SIGKILL, gone)
	}
	child, err := e.target(p)
	if err != nil {
		return err
	}
	switch {
	case p.Agent:
		err = e.stopAgent(ctx, p, grace)
	case grace == 0:
		err = e.serverOf(p).Kill(ctx)
	default:
		err = e.serverOf(p).Stop(ctx)
	}
	if err != nil {
		return err
	}
	return awaitState(ctx, child.Pid(), gone)
}

// pause stops p's execution and measures that it stands still.
func (e *engine) pause(ctx context.Context, p scenario.Process) error {
	if e.ofPair(p) {
		return e.signalMember(ctx, p, syscall.SIGSTOP, paused)
	}
	child, err := e.target(p)
	if err != nil {
		return err
	}
	if err := child.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitState(ctx, child.Pid(), paused)
}

// resume continues p; one that another fault ended meanwhile is left alone.
func (e *engine) resume(p scenario.Process) error {
	if e.ofPair(p) {
		return e.eachOfMember(p, func(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) })
	}
	child := e.child(p)
	if child == nil {
		return nil
	}
	return child.Signal(syscall.SIGCONT)
}

// signalMember signals the etcd that an agent of a pair runs, and measures what that
// did.
func (e *engine) signalMember(ctx context.Context, p scenario.Process, sig syscall.Signal, want byte) error {
	struck := 0
	err := e.eachOfMember(p, func(pid int) error {
		struck++
		if err := syscall.Kill(pid, sig); err != nil {
			return fmt.Errorf("signal process %d: %w", pid, err)
		}
		return awaitState(ctx, pid, want)
	})
	if err == nil && struck == 0 {
		return errors.New("does not run, so there is nothing to break; let faults on one process follow each other")
	}
	return err
}

// eachOfMember calls f for whatever runs on the machine of a pair but the agent.
func (e *engine) eachOfMember(p scenario.Process, f func(pid int) error) error {
	node, err := e.nodeOf(p.Site)
	if err != nil {
		return err
	}
	pids, err := node.Inside()
	if err != nil {
		return err
	}
	agent := e.child(scenario.SiteAgent(scenario.AgentPair, p.Site))
	for _, pid := range pids {
		if agent != nil && pid == agent.Pid() {
			continue
		}
		if err := f(pid); err != nil {
			return err
		}
	}
	return nil
}

// States of a process in /proc/PID/stat (proc_pid_stat(5)), and gone for one
// that has no entry any more.
const (
	paused = 'T'
	gone   = 0
)

// awaitState waits until the process is in the state.
func awaitState(ctx context.Context, pid int, want byte) error {
	var is byte
	var err error
	reached := until(ctx, struckWithin, func() bool {
		is, err = stateOf(pid)
		return err != nil || is == want
	})
	switch {
	case err != nil:
		return err
	case reached:
		return nil
	case want == gone:
		return fmt.Errorf("process %d is not gone %s after it was ended; its state is %c", pid, struckWithin, is)
	}
	return fmt.Errorf("process %d is not paused %s after SIGSTOP; its state is %q", pid, struckWithin, is)
}

// stateOf reads the state of a process, gone when there is none.
func stateOf(pid int) (byte, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// A process that is reaped between open and read gives ESRCH.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return gone, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	// The name, in parentheses, may hold anything but ends at the last one.
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 || i+2 >= len(stat) {
		return 0, fmt.Errorf("look at process %d: its stat %q has no state", pid, stat)
	}
	return stat[i+2], nil
}

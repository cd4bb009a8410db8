package space

import (
	"fmt"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spawner starts processes inside a namespace from one thread that lives as
// long as the Spawner. The thread matters: the kernel sends a child its parent
// death signal when the *thread* that forked it ends (prctl(2),
// PR_SET_PDEATHSIG), so a short-lived one would kill its children.
type Spawner struct {
	jobs chan func()
	once sync.Once
}

// NewSpawner starts the thread. Close it after the children are gone.
func NewSpawner(s *Space) (*Spawner, error) {
	native() // before anything changes it
	p := &Spawner{jobs: make(chan func())}
	ready := make(chan error, 1)
	go func() {
		err := s.Do(func() error {
			ready <- nil
			for job := range p.jobs {
				job()
			}
			return nil
		})
		if err != nil {
			ready <- err
		}
	}()
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("start spawner: %w", err)
	}
	return p, nil
}

// Start starts cmd inside the namespace, in a process group of its own. The
// caller waits for it.
func (p *Spawner) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	done := make(chan error, 1)
	p.jobs <- func() {
		// 0 is the calling thread, whose value the child inherits. Prefer may
		// have changed it since the last start.
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, native()); err != nil {
			done <- fmt.Errorf("set priority: %w", err)
			return
		}
		done <- cmd.Start()
	}
	return <-done
}

// Close ends the thread, and with it every child that still runs.
func (p *Spawner) Close() { p.once.Do(func() { close(p.jobs) }) }

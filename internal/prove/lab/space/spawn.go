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
	// joined says that children are of another pid namespace.
	joined bool
}

// NewSpawner starts the thread. Close it after the children are gone.
func NewSpawner(s *Space) (*Spawner, error) { return newSpawner(s, nil, nil) }

// NewSpawnerPrepared is NewSpawner for children that inherit from their thread what
// prepare does to it, such as a seccomp filter.
func NewSpawnerPrepared(s *Space, prepare func() error) (*Spawner, error) {
	return newSpawner(s, nil, prepare)
}

// NewSpawnerWith starts processes that also have the pid namespace of the
// process pid and, with mounts, its mount namespace. They get no signal when
// this process dies; they end with process 1 of that pid namespace. (They could
// not have one: to a child in another pid namespace its parent is process 0,
// and os/exec takes that for a parent that has died already.)
func NewSpawnerWith(s *Space, pid int, mounts bool) (*Spawner, error) {
	j := &join{}
	defer j.close()
	if err := j.open(pid, "pid", unix.CLONE_NEWPID); err != nil {
		return nil, err
	}
	if mounts {
		if err := j.open(pid, "mnt", unix.CLONE_NEWNS); err != nil {
			return nil, err
		}
	}
	return newSpawner(s, j, nil)
}

func newSpawner(s *Space, j *join, prepare func() error) (*Spawner, error) {
	native() // before anything changes it
	p := &Spawner{jobs: make(chan func()), joined: j != nil}
	ready := make(chan error, 1)
	go func() {
		err := s.Do(func() error {
			if err := j.enter(); err != nil {
				return err
			}
			if prepare != nil {
				if err := prepare(); err != nil {
					return err
				}
			}
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
	if !p.joined {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
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

// Close ends the thread, and with it every child that still runs, except those
// of another pid namespace.
func (p *Spawner) Close() { p.once.Do(func() { close(p.jobs) }) }

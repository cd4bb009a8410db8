package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// Process describes a program to run in a node.
type Process struct {
	// Name is for logs and for the file of its output.
	Name string
	Argv []string
	// Env is added to the lab's own environment.
	Env []string
	Dir string
	// Stdout and Stderr default to logs/NAME.log in the run directory, to
	// which a later process of the same name appends.
	Stdout, Stderr io.Writer

	// cloneflags are further namespaces that the process begins.
	cloneflags uintptr
}

// Child is a running process. It is killed when the lab dies.
type Child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// Spawn starts a process in the node. It runs until it ends, is stopped, or
// the lab is closed; ctx only guards the start.
func (n *Node) Spawn(ctx context.Context, p Process) (*Child, error) {
	return n.lab.spawn(ctx, n.name, n.spawner, p)
}

// spawn starts a process by a spawner; where is for errors.
func (l *Lab) spawn(ctx context.Context, where string, by *space.Spawner, p Process) (*Child, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s in %s: %w", p.Name, where, err)
	}
	if len(p.Argv) == 0 {
		return nil, fmt.Errorf("start %s in %s: no command given", p.Name, where)
	}
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Dir = p.Dir
	cmd.Stdout, cmd.Stderr = p.Stdout, p.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: p.cloneflags}
	return l.launch(where, by, p.Name, cmd)
}

// launch starts a command and logs what it prints, unless it has its own place
// for that.
func (l *Lab) launch(where string, by *space.Spawner, name string, cmd *exec.Cmd) (*Child, error) {
	// Wait for a pipe that a grandchild keeps open no longer than this.
	cmd.WaitDelay = 5 * time.Second
	if cmd.Stdout == nil || cmd.Stderr == nil {
		log, err := l.openLog(name)
		if err != nil {
			return nil, fmt.Errorf("start %s in %s: %w", name, where, err)
		}
		defer func() { _ = log.Close() }()
		if cmd.Stdout == nil {
			cmd.Stdout = log
		}
		if cmd.Stderr == nil {
			cmd.Stderr = log
		}
	}
	c := &Child{name: name, cmd: cmd, done: make(chan struct{})}
	if err := l.adopt(c, func() error { return by.Start(cmd) }); err != nil {
		return nil, fmt.Errorf("start %s in %s: %w", name, where, err)
	}
	return c, nil
}

func (l *Lab) openLog(name string) (*os.File, error) {
	path := l.logPath(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// logPath is where the output of a process goes.
func (l *Lab) logPath(name string) string { return filepath.Join(l.dir, "logs", name+".log") }

// children are the processes that run in a lab.
type children struct {
	mu     sync.Mutex
	all    map[*Child]bool
	closed bool
	// over is closed with the lab.
	over chan struct{}
}

// adopt starts a child and keeps it on the books until it ends.
func (l *Lab) adopt(c *Child, start func() error) error {
	l.children.mu.Lock()
	defer l.children.mu.Unlock()
	if l.children.closed {
		return errors.New("the lab is closed")
	}
	if err := start(); err != nil {
		return err
	}
	l.children.all[c] = true
	go func() {
		c.err = c.cmd.Wait()
		l.children.mu.Lock()
		delete(l.children.all, c)
		l.children.mu.Unlock()
		close(c.done)
	}()
	return nil
}

// killAll kills every child with its group and waits for their ends.
func (l *Lab) killAll() {
	l.children.mu.Lock()
	l.children.closed = true
	close(l.children.over)
	var left []*Child
	for c := range l.children.all {
		left = append(left, c)
		_ = c.Signal(syscall.SIGKILL)
	}
	l.children.mu.Unlock()
	for _, c := range left {
		<-c.done
	}
}

// Name is the name given in Process.
func (c *Child) Name() string { return c.name }

// Pid is the process id, which is also the id of its group.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Signal sends sig to the child and its group. It reports os.ErrProcessDone
// when the child has ended.
func (c *Child) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %s: unsupported signal %v", c.name, sig)
	}
	select {
	case <-c.done:
		return os.ErrProcessDone
	default:
	}
	if err := syscall.Kill(-c.Pid(), s); err != nil {
		return fmt.Errorf("signal %s: %w", c.name, err)
	}
	return nil
}

// Stop asks the child to end and kills it after grace, or at once when grace
// is 0. It returns when the child has ended, with an error only when ctx ends
// first.
func (c *Child) Stop(ctx context.Context, grace time.Duration) error {
	sig := syscall.SIGTERM
	if grace <= 0 {
		sig = syscall.SIGKILL
	}
	_ = c.Signal(sig) // already gone is as good
	_ = c.Signal(syscall.SIGCONT)
	kill := time.AfterFunc(grace, func() { _ = c.Signal(syscall.SIGKILL) })
	defer kill.Stop()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", c.name, ctx.Err())
	}
}

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err is how the child ended: nil for status 0 and while it runs.
func (c *Child) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

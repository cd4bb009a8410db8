package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/offspring"
)

// child is a process that dies with the bench. What it prints goes to a file.
type child struct {
	cmd  *exec.Cmd
	path string // of the log
	done chan struct{}
}

// spawn starts a process.
func (g *ground) spawn(name string, argv ...string) (*child, error) {
	log, err := os.CreateTemp(g.dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	c := &child{cmd: exec.Command(argv[0], argv[1:]...), path: log.Name(), done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := offspring.Start(c.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = c.cmd.Wait() // how it ended matters to nobody
		close(c.done)
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) signal(s syscall.Signal) error { return c.cmd.Process.Signal(s) }

// kill ends the process and waits until it is gone.
func (c *child) kill() {
	if c == nil {
		return
	}
	_ = c.signal(syscall.SIGKILL) // it may have ended by itself
	<-c.done
}

func (c *child) gone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// log is what the process has printed.
func (c *child) log() string {
	b, _ := os.ReadFile(c.path)
	return string(b)
}

// tail is the end of the log, for errors.
func (c *child) tail() string {
	text := strings.TrimSpace(c.log())
	return text[max(0, len(text)-400):]
}

// until waits for a condition that is asked every few milliseconds.
func until(ctx context.Context, patience time.Duration, what string, done func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %s", what, patience)
		}
		if !pause(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// listening says whether the process holds the socket that listens on a port
// of 127.0.0.1.
func listening(pid, port int) (bool, error) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return false, err
	}
	local := fmt.Sprintf("0100007F:%04X", port)
	inode := ""
	for line := range bytes.Lines(table) {
		f := strings.Fields(string(line))
		if len(f) > 9 && f[1] == local && f[3] == "0A" { // TCP_LISTEN
			inode = "socket:[" + f[9] + "]"
		}
	}
	if inode == "" {
		return false, nil
	}
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	fds, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	for _, fd := range fds {
		if to, _ := os.Readlink(filepath.Join(dir, fd.Name())); to == inode {
			return true, nil
		}
	}
	return false, err
}

// serving waits until the process listens on the port.
func (c *child) serving(ctx context.Context, port int) error {
	return until(ctx, 15*time.Second, fmt.Sprintf("%s: listen on port %d", filepath.Base(c.cmd.Path), port), func() (bool, error) {
		if c.gone() {
			return false, fmt.Errorf("%s ended: %s", filepath.Base(c.cmd.Path), c.tail())
		}
		return listening(c.pid(), port)
	})
}

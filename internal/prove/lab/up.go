package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// claim makes the directory of a lab and thereby takes its name. What a
// crashed lab of that name has left is removed first.
func claim(ctx context.Context, root, name string) (string, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", fmt.Errorf("make %s: %w", root, err)
	}
	dir := filepath.Join(root, name)
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return dir, reserve(dir, name)
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make %s: %w", dir, err)
	}
	s, err := readState(root, name)
	if err != nil {
		return "", err
	}
	if s.alive() {
		return "", fmt.Errorf("lab %s is up already (process %d): end it with `holdfast lab down --name %s`, or choose another --name", name, s.Pid, name)
	}
	if err := cleanUp(root, s); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make %s: %w", dir, err)
	}
	return dir, reserve(dir, name)
}

// reserve writes the calling process down as the owner, until the supervisor
// does so for itself: a lab that is starting must not pass for a crashed one.
func reserve(dir, name string) error {
	s, err := newState(name)
	if err != nil {
		return err
	}
	return s.write(dir)
}

// detach starts argv as a supervisor in a session of its own and waits for its
// word. On failure the supervisor has cleaned up.
func detach(ctx context.Context, argv []string, dir string, spec Spec) error {
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open supervisor log: %w", err)
	}
	defer func() { _ = log.Close() }()
	in, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode spec: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer func() { _ = read.Close() }()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), log, log
	cmd.ExtraFiles = []*os.File{write} // becomes readyFd
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		return fmt.Errorf("start supervisor: %w", err)
	}
	// Interrupted, take back what was started.
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	answer, err := io.ReadAll(read)
	if err == nil && strings.TrimSpace(string(answer)) == readyWord {
		return nil
	}
	_ = cmd.Wait() // reap it; what went wrong stands in the answer
	if text := strings.TrimSpace(string(answer)); text != "" {
		return errors.New(text)
	}
	return fmt.Errorf("supervisor of lab %s has died: run `holdfast lab down --name %s`", spec.Name, spec.Name)
}

package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// maxOutput of a command is kept; the first line of it can become a reason.
const maxOutput = 4 << 10

// command is a Prober that runs a program.
type command struct {
	argv    []string
	address string
}

// Probe implements Prober. When ctx ends the program is killed with its
// process group.
func (p *command) Probe(ctx context.Context, _ bool) Result {
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Env = append(os.Environ(), "HOLDFAST_CHECK_ADDRESS="+p.address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A grandchild that left the group may hold the output open.
	cmd.WaitDelay = 100 * time.Millisecond
	out := &head{}
	cmd.Stdout, cmd.Stderr = out, out

	begun := time.Now()
	Report(ctx, Connected)
	err := cmd.Run()
	r := Result{Grade: Ready, RTT: time.Since(begun)}
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
	case ctx.Err() != nil:
		r.Grade, r.Reason = Frozen, "the command did not end in time"
	case exited:
		r.Grade, r.Reason = NotReady, exit.String()
		if said := line(string(bytes.TrimSpace(out.data))); said != "" {
			r.Reason = line(exit.String() + ": " + said)
		}
	default:
		errno, _ := errors.AsType[syscall.Errno](err)
		r.Grade, r.Reason = NotReady, line(fmt.Sprintf("run command: %v", err))
		if isLocal(errno) {
			r.Grade = Unknown
		}
	}
	return r
}

// Lost implements Prober.
func (p *command) Lost() <-chan struct{} { return nil }

// Close implements Prober.
func (p *command) Close() {}

// head keeps the first maxOutput bytes written to it.
type head struct{ data []byte }

func (h *head) Write(b []byte) (int, error) {
	h.data = append(h.data, b[:min(len(b), maxOutput-len(h.data))]...)
	return len(b), nil
}

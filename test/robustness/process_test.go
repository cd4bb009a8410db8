package robustness

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// process is a child whose end is noticed.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// spawn starts a program that writes to a file, and dies with the test.
func spawn(t *testing.T, output, program string, args ...string) *process {
	t.Helper()
	out, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	onParent(func() { err = p.cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill is SIGKILL: what the program has not handed to the kernel is lost.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// state says how it does, for a message.
func (p *process) state() string {
	if p.runs() {
		return "its process runs"
	}
	return "its process ended with " + p.cmd.ProcessState.String()
}

// parent is the one thread that starts processes: each is to die with its parent, and
// the parent is a thread, which the runtime may end at any time.
var parent = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func onParent(f func()) {
	done := make(chan struct{})
	parent() <- func() {
		defer close(done)
		f()
	}
	<-done
}

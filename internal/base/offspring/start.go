package offspring

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// parent is the one thread that forks.
var parent = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread() // never unlocked, and the goroutine never ends
		for f := range work {
			f()
		}
	}()
	return work
})

// Start is cmd.Start for a process that is killed when this one ends. The caller waits
// for it. It sets the parent death signal and leaves what else stands in
// cmd.SysProcAttr; errors are those of cmd.Start. A clone into another pid namespace
// (CLONE_NEWPID) is fine, a cmd whose thread has joined one (setns) is not: package
// space starts those.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	done := make(chan error)
	parent() <- func() { done <- cmd.Start() }
	return <-done
}

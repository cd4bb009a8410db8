package e2e

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// daemons are what runs of FRR in a namespace.
type daemons struct {
	t       *testing.T
	spawner *space.Spawner
	console frr.Console
	running map[string]*exec.Cmd
	log     *buffer
}

func needFRR(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 || frr.Preflight() != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("this suite must not be skipped in CI: run it as root, after scripts/setup")
		}
		t.Skip("needs root and FRR; see scripts/setup")
	}
}

func newFRR(t *testing.T, in *space.Space) *daemons {
	t.Helper()
	spawner, err := space.NewSpawner(in)
	if err != nil {
		t.Fatal(err)
	}
	f := &daemons{t: t, spawner: spawner, console: frr.Console{Dir: t.TempDir()}, running: map[string]*exec.Cmd{}, log: &buffer{}}
	t.Cleanup(func() {
		for daemon := range f.running {
			f.kill(daemon)
		}
		spawner.Close()
		if t.Failed() {
			t.Log(f.log.tail())
		}
	})
	return f
}

// start starts a daemon of FRR.
func (f *daemons) start(daemon, config string) {
	f.t.Helper()
	cmd, err := frr.Command(f.console.Dir, daemon, config)
	if err != nil {
		f.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = f.log, f.log
	if err := f.spawner.Start(cmd); err != nil {
		f.t.Fatal(err)
	}
	f.running[daemon] = cmd
	if daemon == "bfdd" {
		f.first(cmd.Process.Pid)
	}
	until(f.t, daemon+" answers", func() error {
		_, err := f.vtysh(daemon, "show version")
		return err
	})
}

// first has a process run as our manager of BFD does, so that what is looked at is
// the hop and not what else this machine does.
func (f *daemons) first(pid int) {
	class := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(pid, class, 0); err != nil {
		f.t.Logf("it runs as ordinary processes do: %v", err)
	}
}

// tell changes the settings of a daemon that runs.
func (f *daemons) tell(daemon string, lines ...string) {
	f.t.Helper()
	if err := f.console.Tell(f.t.Context(), daemon, lines...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *daemons) kill(daemon string) {
	if cmd := f.running[daemon]; cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		delete(f.running, daemon)
	}
}

// vtysh outlives the test's context: daemons are looked at when it has failed.
func (f *daemons) vtysh(daemon string, commands ...string) ([]byte, error) {
	out, err := f.console.Ask(context.WithoutCancel(f.t.Context()), daemon, commands...)
	return []byte(out), err
}

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// frr is what runs of FRR in a namespace.
type frr struct {
	t       *testing.T
	spawner *space.Spawner
	dir     string
	daemons map[string]*exec.Cmd
	log     *buffer
}

func needFRR(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 || exec.Command("test", "-x", "/usr/lib/frr/bfdd").Run() != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("this suite must not be skipped in CI: run it as root, after scripts/setup")
		}
		t.Skip("needs root and FRR; see scripts/setup")
	}
}

func newFRR(t *testing.T, in *space.Space) *frr {
	t.Helper()
	spawner, err := space.NewSpawner(in)
	if err != nil {
		t.Fatal(err)
	}
	f := &frr{t: t, spawner: spawner, dir: routerDir(t), daemons: map[string]*exec.Cmd{}, log: &buffer{}}
	t.Cleanup(func() {
		f.kill("bfdd")
		f.kill("zebra")
		spawner.Close()
		if t.Failed() {
			t.Log(f.log.tail())
		}
	})
	return f
}

// routerDir is a directory that FRR, which runs as its own user, can write to.
func routerDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-frr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	frr, err := user.Lookup("frr")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(frr.Uid)
	gid, _ := strconv.Atoi(frr.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start starts a daemon of FRR.
func (f *frr) start(daemon, config string) {
	f.t.Helper()
	file := filepath.Join(f.dir, daemon+".conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command("/usr/lib/frr/"+daemon, "-f", file, "-z", filepath.Join(f.dir, "zserv.api"),
		"-i", filepath.Join(f.dir, daemon+".pid"), "--vty_socket", f.dir, "-P", "0", "--log", "stdout")
	if daemon == "bfdd" {
		cmd.Args = append(cmd.Args, "--bfdctl", filepath.Join(f.dir, "bfdd.sock"))
	}
	cmd.Stdout, cmd.Stderr = f.log, f.log
	if err := f.spawner.Start(cmd); err != nil {
		f.t.Fatal(err)
	}
	f.daemons[daemon] = cmd
	// As the manager, so that what is looked at is the hop and not what else
	// this machine does.
	first := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(cmd.Process.Pid, first, 0); err != nil {
		f.t.Logf("%s runs as ordinary processes do: %v", daemon, err)
	}
	until(f.t, daemon+" answers", func() error {
		_, err := f.vtysh(daemon, "show version")
		return err
	})
}

func (f *frr) kill(daemon string) {
	if cmd := f.daemons[daemon]; cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		delete(f.daemons, daemon)
	}
}

func (f *frr) vtysh(daemon string, commands ...string) ([]byte, error) {
	args := []string{"--vty_socket", f.dir, "-d", daemon}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	var errs bytes.Buffer
	cmd := exec.Command("vtysh", args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%w: %s%s", err, errs.Bytes(), out)
	}
	return out, nil
}

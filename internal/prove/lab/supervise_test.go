package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// TestMain lets the test binary stand in for holdfast: `lab up` starts its
// supervisor from the running executable.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "lab" {
		os.Exit(exit.Run(context.Background(), testRoot()))
	}
	os.Exit(m.Run())
}

func testRoot() *cobra.Command {
	root := &cobra.Command{Use: "holdfast"}
	root.AddCommand(Command())
	return root
}

// cli runs `holdfast lab` in processes of its own against a run directory.
type cli struct {
	t    *testing.T
	root string
}

func newCLI(t *testing.T) cli {
	t.Helper()
	requireLab(t)
	// A unix socket's path has at most 107 bytes; t.TempDir can be longer.
	dir, err := os.MkdirTemp("", "hl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return cli{t, dir}
}

func (c cli) command(args ...string) *exec.Cmd {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	return exec.Command(self, append([]string{"lab", "--run-dir", c.root}, args...)...)
}

// run expects the exit code and returns standard output and error.
func (c cli) run(code int, args ...string) (string, string) {
	c.t.Helper()
	cmd := c.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		c.t.Fatalf("lab %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func (c cli) up(name string, args ...string) state {
	c.t.Helper()
	c.run(0, append([]string{"up", "--name", name}, args...)...)
	c.t.Cleanup(func() { c.run(0, "down", "--name", name) })
	s, err := readState(c.root, name)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func TestCommands(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.up("t", "--preset", "rtt", "--cluster", "none")
	if _, err := c.run(2, "up", "--name", "t"); !strings.Contains(err, "lab t is up already") || !strings.Contains(err, "choose another --name") {
		t.Errorf("name taken: %s", err)
	}
	c.run(0, "cut", "a-b", "--tcp", "--reject", "--name", "t")
	var r Report
	out, _ := c.run(0, "status", "--name", "t", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Version != 1 || len(r.Cuts) != 1 || r.Cuts[0].What != "a-b tcp reset" || len(r.Mismatches) > 0 || r.Environment["links"] == "" {
		t.Errorf("status: %s", out)
	}
	if rtt := r.Links[1].RTTMS; rtt < 23 || rtt > 60 {
		t.Errorf("round trip a-c is %v ms, 23 asked", rtt)
	}
	out, _ = c.run(7, "exec", "--name", "t", "b1", "--", "sh", "-c", "echo $HOLDFAST_LAB $HOLDFAST_NODE $(uname -n); cat /proc/net/dev; exit 7")
	if !strings.Contains(out, "t b1 b1\n") || !strings.Contains(out, portName) {
		t.Errorf("exec: %s", out)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"cut", "a-z"}, `site or node "z" is unknown: use a, b, c, a1, b1, c1`},
		{[]string{"cut", "a-b", "--tcp", "--reject"}, "already in force: heal it first"},
		{[]string{"cut", "a-b", "--new", "--established"}, "new established"},
		{[]string{"heal", "x"}, `cut "x" is not in force: use "a-b tcp reset"`},
		{[]string{"delay", "a-z", "1ms"}, `link "a-z" is unknown: use a-b, a-c, b-c`},
		{[]string{"delay", "a-b", "1"}, "give a unit"},
		{[]string{"exec", "z1", "true"}, `node "z1" is unknown: use a1, b1, c1`},
		{[]string{"exec", "a1", "no-such-program"}, "find command"},
		{[]string{"exec", "--cluster", "main", "a1", "true"}, `etcd cluster "main" is unknown`},
	} {
		if _, err := c.run(2, append(tt.args[:1:1], append([]string{"--name", "t"}, tt.args[1:]...)...)...); !strings.Contains(err, tt.want) || strings.Count(err, "\n") != 1 {
			t.Errorf("%v: %s", tt.args, err)
		}
	}
	c.run(0, "heal", "--name", "t")
	c.run(0, "delay", "a-c", "40ms", "--name", "t", "--loss", "5%")
	out, _ = c.run(0, "status", "--name", "t")
	if !strings.Contains(out, "40.0 ms") || !strings.Contains(out, "5 %") || !strings.Contains(out, "No cut is in force.") {
		t.Errorf("status: %s", out)
	}
	c.run(0, "down", "--name", "t")
	if _, err := c.run(0, "down", "--name", "t"); !strings.Contains(err, "lab t is not up") {
		t.Errorf("second down: %s", err)
	}
	if _, err := c.run(2, "status", "--name", "t"); !strings.Contains(err, "start it with `holdfast lab up --name t`") {
		t.Errorf("status of nothing: %s", err)
	}
}

// TestKilledSupervisor kills a lab with SIGKILL and looks for remains.
func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	before := hostLinks(t)
	s := c.up("k", "--preset", "lan")
	etcds, err := space.Processes(s.ids())
	if err != nil || len(etcds) != 3 {
		t.Fatalf("processes in the lab: %v, %v", etcds, err)
	}
	stray := c.command("exec", "--name", "k", "a1", "sleep", "1000")
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = stray.Wait() }()
	waitFor(t, 5*time.Second, "the stray command enters", func() bool {
		pids, _ := space.Processes(s.ids())
		return len(pids) == 4
	})
	if err := syscall.Kill(s.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 5*time.Second, "etcd dies with its lab", func() bool {
		pids, _ := space.Processes(s.ids())
		return len(pids) == 1 && pids[0] == stray.Process.Pid
	})
	if _, err := c.run(1, "status", "--name", "k"); !strings.Contains(err, "lab k has crashed: clean up with") {
		t.Errorf("status: %s", err)
	}
	c.run(0, "down", "--name", "k")
	waitFor(t, 5*time.Second, "no descriptor keeps a namespace", func() bool { return holders(t, s.ids()) == 0 })
	if pids, _ := space.Processes(s.ids()); len(pids) > 0 {
		t.Errorf("processes left: %v", pids)
	}
	if after := hostLinks(t); after != before {
		t.Errorf("interfaces of the host were %s and are %s", before, after)
	}
	for _, dir := range []string{s.Data, filepath.Join(c.root, "k")} {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

func hostLinks(t *testing.T) string {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return strings.Join(names, " ")
}

// holders counts descriptors and processes that keep the namespaces alive.
func holders(t *testing.T, ids []space.ID) int {
	t.Helper()
	n := 0
	for _, glob := range []string{"/proc/[0-9]*/fd/*", "/proc/[0-9]*/task/*/ns/net"} {
		paths, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			target, err := os.Readlink(p)
			if err != nil {
				continue
			}
			for _, id := range ids {
				if target != fmt.Sprintf("net:[%d]", id.Inode) {
					continue
				}
				// The kernel may have given the number to another namespace.
				if got, err := space.Of(p); err == nil && got == id {
					n++
				}
			}
		}
	}
	return n
}

// TestTwoLabs runs two labs with the same addresses at once.
func TestTwoLabs(t *testing.T) {
	t.Parallel()
	spec := mustDefault(t, "rtt")
	spec.Etcd = nil
	one := startLab(t, spec)
	spec.Name, spec.Dir = "other", t.TempDir()
	two := startLab(t, spec)
	ctx := deadline(t, 30*time.Second)
	if err := one.Cut(ctx, Cut{From: "a", To: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := two.verify(ctx); err != nil {
		t.Errorf("the other lab: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if err := two.verify(ctx); err != nil {
		t.Errorf("the other lab after the first was closed: %v", err)
	}
}

// TestPreflightNames checks what a machine without root is told.
func TestPreflightNames(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Setenv("PATH", t.TempDir())
	}
	err := Preflight()
	if err == nil || !strings.Contains(err.Error(), ": ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

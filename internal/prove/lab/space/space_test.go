package space

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("this test must not be skipped in CI: run it as root")
	}
	t.Skip("namespaces need root")
}

func newSpace(t *testing.T) *Space {
	t.Helper()
	requireRoot(t)
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// here counts interfaces of the calling thread's namespace.
func here(t *testing.T) int {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestDoStaysInside(t *testing.T) {
	s := newSpace(t)
	outside := here(t)
	for range 50 {
		if err := s.Do(func() error {
			if n := here(t); n != 1 {
				t.Errorf("%d interfaces inside, want the loopback alone", n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if n := here(t); n != outside {
			t.Fatalf("%d interfaces outside after Do, want %d", n, outside)
		}
	}
}

func TestIdentity(t *testing.T) {
	a, b := newSpace(t), newSpace(t)
	if a.ID() == b.ID() || a.ID().Inode == 0 || a.ID().Cookie == 0 {
		t.Errorf("identities %+v and %+v", a.ID(), b.ID())
	}
}

// TestHostname starts a process in a named space, and asks code inside and
// outside of it.
func TestHostname(t *testing.T) {
	requireRoot(t)
	s, err := NewNamed("a1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	outside, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Do(func() error {
		if name, err := os.Hostname(); err != nil || name != "a1" {
			t.Errorf("inside the hostname is %s, %v", name, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	p, err := NewSpawner(s)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.Command("uname", "-n")
	cmd.Stdout = &out
	if err := p.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != "a1\n" {
		t.Errorf("a process inside has hostname %q, %v", out.String(), err)
	}
	p.Close()
	if name, err := os.Hostname(); err != nil || name != outside {
		t.Errorf("outside the hostname has become %s, %v", name, err)
	}
}

// TestPidNamespace starts a process under a process 1 of its own, with which it
// ends.
func TestPidNamespace(t *testing.T) {
	s := newSpace(t)
	outer, err := NewSpawner(s)
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	first := exec.Command("sleep", "60")
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if err := outer.Start(first); err != nil {
		t.Fatal(err)
	}
	inner, err := NewSpawnerWith(s, first.Process.Pid, true)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	if err := inner.Start(cmd); err != nil {
		t.Fatal(err)
	}
	inner.Close() // the thread may go
	for _, kind := range []string{"net", "pid", "mnt"} {
		want, _ := os.Readlink("/proc/" + strconv.Itoa(first.Process.Pid) + "/ns/" + kind)
		if got, err := os.Readlink("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/" + kind); err != nil || got != want {
			t.Errorf("%s namespace is %s, want %s: %v", kind, got, want, err)
		}
	}
	if found, err := Processes([]ID{s.ID()}); err != nil || len(found) != 2 {
		t.Errorf("found %v: %v", found, err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v", err)
	}
	_ = first.Wait()
}

func TestOpen(t *testing.T) {
	s := newSpace(t)
	again, err := Open("/proc/self/fd/" + strconv.Itoa(s.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if again.ID() != s.ID() {
		t.Errorf("opened %+v, want %+v", again.ID(), s.ID())
	}
	if _, err := Open("/dev/null"); err == nil {
		t.Error("opened /dev/null")
	}
}

func TestSpawnAndScan(t *testing.T) {
	s, other := newSpace(t), newSpace(t)
	p, err := NewSpawner(s)
	if err != nil {
		t.Fatal(err)
	}
	// Children must not inherit what the process has given itself.
	if err := Prefer(5); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	if err := p.Start(cmd); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if pgid, err := syscall.Getpgid(pid); err != nil || pgid != pid {
		t.Errorf("process group %d of process %d: %v", pgid, pid, err)
	}
	if nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid); err != nil || 20-nice != native() {
		t.Errorf("nice value of the child is %d, want %d: %v", 20-nice, native(), err)
	}
	if nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err != nil || 20-nice != native()-5 {
		t.Errorf("nice value of the process is %d, want %d: %v", 20-nice, native()-5, err)
	}
	if found, err := Processes([]ID{s.ID()}); err != nil || !slices.Equal(found, []int{pid}) {
		t.Errorf("found %v, want %d: %v", found, pid, err)
	}
	stale := ID{Inode: s.ID().Inode, Cookie: s.ID().Cookie + 1}
	if found, err := Processes([]ID{other.ID(), stale}); err != nil || len(found) > 0 {
		t.Errorf("found %v in foreign namespaces: %v", found, err)
	}
	// The end of the spawner's thread is the end of its children.
	p.Close()
	err = cmd.Wait()
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("process %s ended with %v", strconv.Itoa(pid), err)
	}
}

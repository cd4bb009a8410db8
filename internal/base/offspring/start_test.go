package offspring

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asParent makes the test binary a parent that tells the process id of its child.
const asParent = "HOLDFAST_OFFSPRING_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(asParent) != "" {
		cmd := exec.Command("sleep", "600")
		if err := Start(cmd); err != nil {
			panic(err)
		}
		fmt.Println(cmd.Process.Pid)
		select {}
	}
	os.Exit(m.Run())
}

// alive says whether a process still runs; one that nobody has waited for is dead.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

func comes(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute: ", what)
		}
	}
}

// endThread does f on a thread that ends, whose id it returns. The first thread of a
// process never does, so it is kept busy meanwhile.
func endThread(f func()) int {
	tid, done := make(chan int), make(chan struct{})
	defer close(done)
	var try func()
	try = func() {
		runtime.LockOSThread() // and ends without unlocking
		if unix.Gettid() == unix.Getpid() {
			go try()
			<-done
			runtime.UnlockOSThread()
			return
		}
		f()
		tid <- unix.Gettid()
	}
	go try()
	return <-tid
}

// The caller's thread ends, as those do that have entered a namespace.
func TestLivesOnWhenTheCallersThreadEnds(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	task := fmt.Sprintf("/proc/self/task/%d", endThread(func() {
		if err := Start(cmd); err != nil {
			t.Error(err)
		}
	}))
	comes(t, "the thread ends", func() bool {
		_, err := os.Stat(task)
		return os.IsNotExist(err)
	})
	if _, err := io.WriteString(in, "alive"); err != nil {
		t.Error(err)
	}
	in.Close()
	said, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil || string(said) != "alive" {
		t.Errorf("it said %q, and ended with %v", said, err)
	}
}

func TestDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), asParent+"=1")
	out, err := parent.StdoutPipe()
	if err == nil {
		err = parent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 32)
	n, _ := out.Read(line)
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:n])))
	if err != nil || !alive(pid) {
		t.Fatalf("a child %q: %v", line[:n], err)
	}
	if err := parent.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	comes(t, "the child dies", func() bool { return !alive(pid) })
}

func TestKeepsTheOtherAttributes(t *testing.T) {
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = Start(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	if group, err := unix.Getpgid(cmd.Process.Pid); err != nil || group != cmd.Process.Pid {
		t.Errorf("its group is %d, %v; want %d", group, err, cmd.Process.Pid)
	}
	in.Close()
	_ = cmd.Wait()
	if err := Start(exec.Command("/nonexistent")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

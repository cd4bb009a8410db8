package disk

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const asWriter = "HOLDFAST_DISK_WRITER"

// TestMain lets the test binary stand in for a database: it syncs once per line
// of its input and says how long that took.
func TestMain(m *testing.M) {
	path := os.Getenv(asWriter)
	if path == "" {
		os.Exit(m.Run())
	}
	f, err := os.Create(path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		began := time.Now()
		switch in.Text() {
		case "fsync":
			err = unix.Fsync(int(f.Fd()))
		case "fdatasync":
			err = unix.Fdatasync(int(f.Fd()))
		default:
			_, err = f.WriteString("x")
		}
		fmt.Println(time.Since(began), err)
	}
}

// writer is a program whose disk can be slow.
type writer struct {
	t   *testing.T
	in  *os.File
	out *bufio.Reader
}

func newWriter(t *testing.T, d *Disk) *writer {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("seccomp's notification needs root")
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asWriter+"="+filepath.Join(t.TempDir(), "file"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, os.Stderr
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := d.Watch()
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), out.Close()
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the writer ended in %v", err)
		}
	})
	return &writer{t: t, in: stdin, out: bufio.NewReader(stdout)}
}

func (w *writer) ask(what string) {
	w.t.Helper()
	if _, err := fmt.Fprintln(w.in, what); err != nil {
		w.t.Fatal(err)
	}
}

// took reads how long the call took for the program itself.
func (w *writer) took() time.Duration {
	w.t.Helper()
	line, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	text, failed, _ := strings.Cut(strings.TrimSpace(line), " ")
	if failed != "<nil>" {
		w.t.Fatalf("the call failed: %s", line)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func TestOnlySyncsWait(t *testing.T) {
	var d Disk
	t.Cleanup(d.Close)
	w := newWriter(t, &d)
	const delay = 300 * time.Millisecond
	for _, what := range []string{"fsync", "fdatasync"} {
		w.ask(what)
		if took := w.took(); took >= delay {
			t.Errorf("%s on a fast disk took %s", what, took)
		}
	}
	d.Slow(delay)
	for _, what := range []string{"fsync", "fdatasync"} {
		w.ask(what)
		if took := w.took(); took < delay {
			t.Errorf("%s on a slow disk took %s, want at least %s", what, took, delay)
		}
	}
	w.ask("write")
	if took := w.took(); took >= delay {
		t.Errorf("a write took %s, and is not to wait", took)
	}
	if n := d.Calls(); n != 4 {
		t.Errorf("%d calls, want 4", n)
	}
}

func TestUndoLetsGoAtOnce(t *testing.T) {
	var d Disk
	t.Cleanup(d.Close)
	w := newWriter(t, &d)
	d.Slow(time.Hour)
	w.ask("fsync")
	for d.Calls() == 0 {
		runtime.Gosched()
	}
	d.Slow(0)
	w.took() // would be an hour
}

func TestOtherDisksAreFast(t *testing.T) {
	var slow, fast Disk
	t.Cleanup(slow.Close)
	t.Cleanup(fast.Close)
	a, b := newWriter(t, &slow), newWriter(t, &fast)
	slow.Slow(time.Second)
	a.ask("fsync")
	b.ask("fsync")
	if took := b.took(); took >= time.Second {
		t.Errorf("the other program waited %s", took)
	}
	if took := a.took(); took < time.Second {
		t.Errorf("the program with the slow disk waited %s", took)
	}
}

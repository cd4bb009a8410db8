package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// killAt makes the test binary edit a directory and kill itself before a step.
const killAt = "HOLDFAST_WAL_KILL_AT"

// steps are those of an edit of a log with a torn end.
var steps = []string{"copy", "journal", "repair", "append", "sync", "check", "settle"}

// editAndDie is the other half of killAt: STEP:DIRECTORY.
func editAndDie(order string) {
	step, dir, _ := strings.Cut(order, ":")
	_, err := edit(Dir{Data: dir}, Options{}, func(now string) error {
		if now == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	})
	fmt.Println(err)
}

// tornMember ends in a write that a power loss cut short.
func tornMember(t testing.TB) *member {
	t.Helper()
	m := newMember(t).put(20, 100)
	m.store(filepath.Join(m.dir.snap(), "db"))
	if err := m.w.Sync(); err != nil {
		t.Fatal(err)
	}
	at := m.copied().end()
	m.put(1, 3*sector).stop()
	alter(t, m.tail(), (at/sector+2)*sector, func(b []byte) { clear(b) }, sector)
	m.last--
	return m
}

func TestEditKilledBeforeEveryStep(t *testing.T) {
	for _, torn := range []bool{false, true} {
		m := newMember(t).put(20, 100).stop()
		if torn {
			m = tornMember(t)
		}
		before, err := readAsEtcd(m.copied().dir.wal())
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			t.Run(fmt.Sprintf("torn=%t/%s", torn, step), func(t *testing.T) {
				m := m.copied()
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), killAt+"="+step+":"+m.dir.Data)
				out, err := cmd.CombinedOutput()
				if died := cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled(); died != (torn || step != "repair") {
					t.Fatalf("died: %t, %v\n%s", died, err, out)
				}
				if _, err := readAsEtcd(m.copied().dir.wal()); err != nil {
					t.Errorf("killed before %s, etcd reads: %v", step, err)
				}
				p, err := Edit(m.dir, Options{})
				if err != nil {
					t.Fatal(err)
				}
				landed := slices.Contains([]string{"sync", "check", "settle"}, step) || (!torn && step == "repair")
				if p.Alone != landed {
					t.Errorf("alone: %t, want %t", p.Alone, landed)
				}
				checkLandedOnce(t, m, before)
			})
		}
	}
}

// checkLandedOnce checks a completed edit, in however many runs it came about.
func checkLandedOnce(t *testing.T, m *member, before etcdReads) {
	t.Helper()
	again, err := Edit(m.dir, Options{})
	if err != nil || !again.Alone || again.Interrupted {
		t.Fatalf("edited again: %+v, %v; want nothing to do", again, err)
	}
	checkEdited(t, m, before, Plan{Last: m.at(), Remove: []Member{{ID: other}}})
	all, err := journals(m.dir.Data)
	if err != nil {
		t.Fatal(err)
	}
	landed := 0
	for _, j := range all {
		if j.State == done {
			landed++
		}
	}
	if landed != 1 {
		t.Errorf("%d journals say done, want one", landed)
	}
}

func (m *member) at() Position { return Position{m.last, m.term} }

// Whatever part of an edit's own write reaches the disk before the power goes,
// running it again completes it.
func TestEditCutShortByPowerLoss(t *testing.T) {
	for pad := range 9 { // where in its sector the edit begins
		m := newMember(t).put(20, 100)
		m.put(1, 1+pad*56)
		for i := range 6 { // several sectors' worth of removals
			m.conf(addLearner, third+uint64(i), false)
		}
		m.stop()
		before, err := readAsEtcd(m.copied().dir.wal())
		if err != nil {
			t.Fatal(err)
		}
		edited := m.copied()
		died := errors.New("power lost")
		_, err = edit(edited.dir, Options{}, func(step string) error {
			if step == "check" {
				return died
			}
			return nil
		})
		if !errors.Is(err, died) {
			t.Fatal(err)
		}
		all, err := journals(edited.dir.Data)
		if err != nil || len(all) != 1 || all[0].State != prepared {
			t.Fatalf("journals %v, %v", all, err)
		}
		j := all[0]
		for lost := range lostParts(j) {
			c := edited.copied()
			alter(t, c.tail(), j.Offset, func(b []byte) { loseSectors(b, j.Offset, lost) }, len(j.Append))
			if _, err := Edit(c.dir, Options{}); err != nil {
				t.Fatalf("pad %d, lost sectors %b: %v", pad, lost, err)
			}
			again, err := Edit(c.dir, Options{})
			if err != nil || !again.Alone {
				t.Fatalf("pad %d, lost sectors %b: not alone (%v)", pad, lost, err)
			}
			after, err := readAsEtcd(c.dir.wal())
			if err != nil {
				t.Fatalf("pad %d, lost sectors %b: etcd reads: %v", pad, lost, err)
			}
			if n := len(before.entries); len(after.entries) < n+7 || after.hard.GetCommit() != uint64(len(after.entries)) {
				t.Errorf("pad %d, lost sectors %b: %d entries, commit %d", pad, lost, len(after.entries), after.hard.GetCommit())
			}
		}
	}
}

// lostParts is how many sets of sectors of an edit there are.
func lostParts(j *journal) int {
	first, last := j.Offset/sector, (j.Offset+int64(len(j.Append))-1)/sector
	return 1 << (last - first + 1)
}

// loseSectors clears the parts of b, which stands at offset at, in each sector
// whose bit is set.
func loseSectors(b []byte, at int64, lost int) {
	for i := range b {
		if s := (at+int64(i))/sector - at/sector; lost>>s&1 == 1 {
			b[i] = 0
		}
	}
}

func TestEditKilledAtRandom(t *testing.T) {
	runs := 8
	if many() {
		runs = 60
	}
	m := tornMember(t)
	before, err := readAsEtcd(m.copied().dir.wal())
	if err != nil {
		t.Fatal(err)
	}
	for range runs {
		c := m.copied()
		for tries := 0; ; tries++ {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), killAt+"=never:"+c.dir.Data)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Duration(rand.Int64N(int64(60*time.Millisecond))), func() { _ = cmd.Process.Kill() })
			if cmd.Wait() == nil || tries == 5 {
				break
			}
			if _, err := readAsEtcd(c.copied().dir.wal()); err != nil {
				t.Fatalf("killed, etcd reads: %v", err)
			}
		}
		if _, err := Edit(c.dir, Options{}); err != nil {
			t.Fatal(err)
		}
		after, err := readAsEtcd(c.dir.wal())
		if err != nil || len(after.entries) != len(before.entries)+1 {
			t.Fatalf("%d entries came to %d: %v", len(before.entries), len(after.entries), err)
		}
	}
}

// small is a file system of its own with little room.
func small(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", bytes)); err != nil {
		t.Skipf("mount tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all the room that is left, and returns how to give it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b := make([]byte, 4096); ; {
		if _, err := f.Write(b); err != nil {
			break
		}
	}
	return func() { _ = os.Remove(path) }
}

func TestFullDiskIsRefused(t *testing.T) {
	m := newMember(t).put(20, 100).stop()
	dir := small(t, 1<<20)
	m.dir = Dir{Data: moved(t, m, dir)}
	free := fill(t, dir)
	before := m.hash()
	if _, err := Edit(m.dir, Options{}); reasonOf(err) != NoSpace {
		t.Errorf("got %v, want a refusal as %s", err, NoSpace)
	}
	if m.hash() != before {
		t.Error("the directory was changed")
	}
	free()
	mustEdit(t, m)
}

// The disk may fill up between the look at it and any step. After the failure
// the log is as it was, and there is no trace where nothing was begun.
func TestDiskFullAtEveryStep(t *testing.T) {
	for _, step := range []string{"copy", "journal", "repair", "append"} {
		t.Run(step, func(t *testing.T) {
			m := tornMember(t)
			before, err := readAsEtcd(m.copied().dir.wal())
			if err != nil {
				t.Fatal(err)
			}
			dir := small(t, 4<<20)
			m.dir = Dir{Data: moved(t, m, dir)}
			var free func()
			_, err = edit(m.dir, Options{}, func(now string) error {
				if now == step {
					free = fill(t, dir)
				}
				return nil
			})
			if err != nil && !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("got %v, want no space, or done", err)
			}
			if err == nil && (step == "copy" || step == "journal") {
				t.Error("done without room for a copy")
			}
			if err != nil {
				after, err := readAsEtcd(m.copied().dir.wal())
				if err != nil || len(after.entries) != len(before.entries) {
					t.Errorf("%d entries came to %d: %v", len(before.entries), len(after.entries), err)
				}
			}
			free()
			if _, err := Edit(m.dir, Options{}); err != nil {
				t.Fatal(err)
			}
			checkLandedOnce(t, m, before)
		})
	}
}

// moved puts a member's directory below dir.
func moved(t *testing.T, m *member, dir string) string {
	t.Helper()
	to := filepath.Join(dir, "data")
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(m.dir.Data)); err != nil {
		t.Fatal(err)
	}
	return to
}

// The journal says how to undo, and it does.
func TestJournalSaysHowToUndo(t *testing.T) {
	m := tornMember(t)
	whole, err := os.ReadFile(m.tail())
	if err != nil {
		t.Fatal(err)
	}
	p := mustEdit(t, m)
	all, err := journals(m.dir.Data)
	if err != nil || len(all) != 1 || all[0].dir != p.Copy {
		t.Fatalf("journals %v, %v", all, err)
	}
	if out, err := exec.Command("sh", "-c", all[0].Undo).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", all[0].Undo, err, out)
	}
	if now, err := os.ReadFile(m.tail()); err != nil || !bytes.Equal(now, whole) {
		t.Errorf("%d bytes came back as %d, or others (%v)", len(whole), len(now), err)
	}
	mustEdit(t, m)
}

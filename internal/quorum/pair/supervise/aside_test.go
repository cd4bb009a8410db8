package supervise

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// stoppedMember makes what etcd and package wal leave: names and contents.
func stoppedMember(t *testing.T, separate bool) Etcd {
	t.Helper()
	base := t.TempDir()
	e := Etcd{DataDir: filepath.Join(base, "data"), UID: os.Geteuid()}
	log := filepath.Join(e.DataDir, "member", "wal")
	if separate {
		e.WALDir = filepath.Join(base, "disk", "wal")
		log = e.WALDir
	}
	for _, path := range []string{
		database(e.DataDir), filepath.Join(log, "0-0.wal"), filepath.Join(e.DataDir, "holdfast", "wal-1-001", "journal.json"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(filepath.Base(path)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func there(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// isAside checks that all of the member is in dir, and nothing left behind.
func isAside(t *testing.T, e Etcd, dir string) {
	t.Helper()
	log := filepath.Join(dir, "member", "wal", "0-0.wal")
	if e.WALDir != "" {
		log = filepath.Join(e.WALDir+movedWAL+strings.TrimPrefix(filepath.Base(dir), asidePrefix), "0-0.wal")
	}
	for _, path := range []string{log, filepath.Join(dir, "member", "snap", "db"), filepath.Join(dir, "wal-1-001", "journal.json")} {
		if b, err := os.ReadFile(path); err != nil || string(b) != filepath.Base(path) {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	for _, path := range []string{filepath.Join(e.DataDir, "member"), filepath.Join(e.DataDir, "holdfast", "wal-1-001"), e.WALDir} {
		if path != "" && there(t, path) {
			t.Errorf("%s is still there", path)
		}
	}
}

func TestSetAside(t *testing.T) {
	for _, separate := range []bool{false, true} {
		e := stoppedMember(t, separate)
		dir, err := SetAside(e, "g7")
		if err != nil {
			t.Fatal(err)
		}
		isAside(t, e, dir)
		if again, err := SetAside(e, "g7"); again != dir || err != nil {
			t.Errorf("repeated: %q, %v; want %q", again, err, dir)
		}
		if other, err := SetAside(e, "g9"); other != "" || err != nil {
			t.Errorf("with nothing to move: %q, %v", other, err)
		}
		// A second member that is set aside in the same generation.
		if err := os.MkdirAll(filepath.Join(e.DataDir, "member"), 0o700); err != nil {
			t.Fatal(err)
		}
		second, err := SetAside(e, "g7")
		if err != nil || second == dir {
			t.Errorf("a second one: %q, %v", second, err)
		}
	}
	for _, tag := range []string{"", "a/b", "..", "A", "a-001", "a\n"} {
		if _, err := SetAside(Etcd{DataDir: t.TempDir()}, tag); err == nil {
			t.Errorf("tag %q is taken", tag)
		}
	}
}

// Killed at every step: each is one rename or one file, so that stopping
// before it is all that a kill can do. The next start completes it.
func TestSetAsideKilledAtEveryStep(t *testing.T) {
	for _, separate := range []bool{false, true} {
		for steps := 0; ; steps++ {
			e := stoppedMember(t, separate)
			left := steps
			killed := false
			interrupt = func() {
				if left--; left < 0 {
					killed = true
					panic("killed")
				}
			}
			func() {
				defer func() { _ = recover() }()
				if _, err := SetAside(e, "g7"); err != nil {
					t.Fatal(err)
				}
			}()
			interrupt = func() {}
			if err := finishMoves(e); err != nil {
				t.Fatalf("after %d steps: %v", steps, err)
			}
			whole := there(t, database(e.DataDir))
			if whole && e.WALDir != "" && !hasWAL(e.WALDir) {
				t.Errorf("after %d steps a start would find a database without its log", steps)
			}
			dir, err := SetAside(e, "g7")
			if err != nil {
				t.Fatalf("after %d steps: %v", steps, err)
			}
			isAside(t, e, dir)
			if !killed {
				if steps < 5 {
					t.Errorf("only %d steps", steps)
				}
				break
			}
		}
	}
}

func TestPrune(t *testing.T) {
	e := stoppedMember(t, true)
	first, err := SetAside(e, "g5")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(e.DataDir, "member"), filepath.Join(e.DataDir, "holdfast", asidePrefix+"mine"), filepath.Join(e.DataDir, "holdfast", "wal-2-001")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	second, err := SetAside(e, "g7")
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(first, "note.txt")
	if err := os.WriteFile(note, []byte("a person's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Prune(e, "g7"); err != nil {
		t.Fatal(err)
	}
	if there(t, filepath.Join(first, "member")) || there(t, e.WALDir+movedWAL+"g5-001") || !there(t, filepath.Join(second, "member")) {
		t.Error("the wrong one is removed")
	}
	if !there(t, note) || !there(t, filepath.Join(e.DataDir, "holdfast", asidePrefix+"mine")) {
		t.Error("what others put there is removed")
	}
	for range 2 {
		if err := Prune(e); err != nil {
			t.Fatal(err)
		}
	}
	if there(t, second) {
		t.Error("nothing is to be kept, and something is")
	}
}

func TestDataThatCannotBeMoved(t *testing.T) {
	e := stoppedMember(t, false)
	f, err := os.Open(database(e.DataDir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_, err = SetAside(e, "g7")
	refusal(t, err, Taken)

	e = stoppedMember(t, false)
	log := filepath.Join(e.DataDir, "member", "wal")
	if err := errors.Join(os.Rename(log, log+".away"), os.Symlink(log+".away", log)); err != nil {
		t.Fatal(err)
	}
	_, err = SetAside(e, "g7")
	refusal(t, err, Immovable)
}

// A mount is not moved along, and one that is discovered only by the rename
// leaves everything as it was.
func TestMountsAreNotMoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting takes root")
	}
	mount := func(dir string) {
		if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal("no tmpfs can be mounted here: ", err)
			}
			t.Skip("no tmpfs can be mounted here: ", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	inside := stoppedMember(t, false)
	mount(filepath.Join(inside.DataDir, "member", "wal"))
	_, err := SetAside(inside, "g7")
	refusal(t, err, Immovable)

	bound := stoppedMember(t, false)
	log := filepath.Join(bound.DataDir, "member", "wal")
	if err := unix.Mount(t.TempDir(), log, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(log, unix.MNT_DETACH) })
	_, err = SetAside(bound, "g7")
	refusal(t, err, Immovable)

	separate := stoppedMember(t, true)
	mount(separate.WALDir)
	_, err = SetAside(separate, "g7")
	refusal(t, err, Immovable)

	// A data directory that is a disk of its own is what many have.
	own := stoppedMember(t, false)
	whole := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(whole, 0o700); err != nil {
		t.Fatal(err)
	}
	mount(whole)
	if err := os.CopyFS(whole, os.DirFS(own.DataDir)); err != nil {
		t.Fatal(err)
	}
	own.DataDir = whole
	dir, err := SetAside(own, "g7")
	if err != nil {
		t.Fatal(err)
	}
	isAside(t, own, dir)
}

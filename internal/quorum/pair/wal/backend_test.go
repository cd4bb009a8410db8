package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A damaged database is refused, or its damage is where nobody looks. The script
// is as FuzzDirectory's.
func FuzzDatabase(f *testing.F) {
	seed := damaged(f)
	path := filepath.Join("member", "snap", "db")
	for _, s := range []string{"", "f\x00\x10\x01", "t\x00\x20\x00", "z\x00\x10\x03", "f\x00\x30\x10", "f\x00\x40\x08f\x00\x50\x20"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		m := *seed
		m.t = t
		c := m.copied()
		for ; len(script) >= 4; script = script[4:] {
			name := filepath.Join(c.dir.Data, path)
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			at := (int64(script[1]&3)<<16 | int64(script[2])<<8 | int64(script[3])) % max(1, info.Size())
			switch script[0] {
			case 't':
				err = os.Truncate(name, at)
			case 'z':
				alter(t, name, at, func(b []byte) { clear(b) }, sector)
			default:
				alter(t, name, at, func(b []byte) { b[0] ^= 1 << (script[0] % 8) }, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		asLibraryReads(t, filepath.Join(c.dir.Data, path))
		p, err := Edit(c.dir, Options{})
		if err != nil {
			if reasonOf(err) == "" {
				t.Fatalf("not a refusal: %v", err)
			}
			return
		}
		if len(p.Remove) != 2 || p.Remove[0].ID != other || p.Remove[1].ID != third {
			t.Fatalf("removed %v", p.Remove)
		}
	})
}

// asLibraryReads checks that what is read here is what bbolt reads, where bbolt
// can read it.
func asLibraryReads(t testing.TB, path string) {
	t.Helper()
	d, err := openDatabase(path)
	if err != nil {
		return
	}
	defer d.close()
	ours, err := d.read()
	if err != nil {
		return
	}
	theirs := stored{members: map[uint64]storedMember{}, removed: map[uint64]bool{}}
	if err := readWithLibrary(path, &theirs); err == nil && !reflect.DeepEqual(ours, theirs) {
		t.Errorf("read %+v, bbolt reads %+v", ours, theirs)
	}
}

// readWithLibrary fails where bbolt panics or faults.
func readWithLibrary(path string, s *stored) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return db.View(func(tx *bolt.Tx) error {
		for _, bucket := range []struct {
			name string
			read func(k, v []byte) error
		}{{"meta", s.readMeta}, {"cluster", s.readCluster}, {"members", s.readMember}, {"members_removed", s.readRemoved}} {
			if b := tx.Bucket([]byte(bucket.name)); b != nil {
				if err := b.ForEach(bucket.read); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Many members that were removed make a tree of several pages, and a database
// that grew one with pages freed between.
func TestDatabaseOfManyPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	m := newMember(t)
	m.consistent = 77
	for i := range uint64(2000) {
		m.removed = append(m.removed, 0x1000+i*7919)
	}
	m.store(path)
	for i := range 5 {
		m.removed = append(m.removed, uint64(i+1))
		m.store(path)
	}
	d, err := openDatabase(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	s, err := d.read()
	if err != nil || len(s.removed) != len(m.removed) || s.consistent != 77 || s.members[other].Name != "b" {
		t.Errorf("read %d removed, index %d, %v: %v; want %d, 77", len(s.removed), s.consistent, s.members[other], err, len(m.removed))
	}
	asLibraryReads(t, path)
}

// A page that leads to itself, which would keep bbolt for ever.
func TestDatabaseInACircle(t *testing.T) {
	page := make([]byte, 4096)
	binary.LittleEndian.PutUint64(page, 3)
	binary.LittleEndian.PutUint16(page[8:], branchPage)
	binary.LittleEndian.PutUint16(page[10:], 2)
	for i := range 2 {
		binary.LittleEndian.PutUint64(page[pageHead+i*elementSize+8:], 3)
	}
	file := bytes.Repeat(page, 4)
	tr := &tree{f: bytes.NewReader(file), pageSize: 4096, pages: 4, root: 3, left: mostPages}
	if err := tr.bucket("members", nil); !errors.Is(err, errTree) {
		t.Errorf("got %v, want %v", err, errTree)
	}
}

package wal

import (
	"path/filepath"
	"slices"
)

// Dir is where a stopped member keeps its data.
type Dir struct {
	Data string // etcd's --data-dir
	WAL  string // etcd's --wal-dir, empty for Data/member/wal
}

func (d Dir) wal() string {
	if d.WAL != "" {
		return d.WAL
	}
	return filepath.Join(d.Data, "member", "wal")
}

func (d Dir) snap() string { return filepath.Join(d.Data, "member", "snap") }

// opened is a directory under etcd's locks, read to the end.
type opened struct {
	dir      Dir
	segments segments
	database *database
	journals []*journal
	found    found
}

// open locks and reads a directory and changes nothing. The database's lock
// comes first: it is what a started etcd waits for, where it would die of a
// locked segment.
func open(d Dir) (*opened, error) {
	o := &opened{dir: d}
	if err := o.read(); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *opened) read() (err error) {
	if _, err = segmentNames(o.dir.wal()); err != nil {
		return err
	}
	if o.database, err = openDatabase(filepath.Join(o.dir.snap(), "db")); err != nil {
		return err
	}
	if o.segments, err = lockSegments(o.dir.wal()); err != nil {
		return err
	}
	if o.journals, err = journals(o.dir.Data); err != nil {
		return err
	}
	f := &o.found
	if f.scanned, err = scan(o.segments); err != nil {
		return err
	}
	if f.base, err = f.log.base(); err != nil {
		return err
	}
	if f.stored, err = o.store(); err != nil {
		return err
	}
	for _, j := range o.journals {
		f.ours = f.ours || j.owns(f.scanned)
	}
	_, err = startPoint(&f.log, f.base, minor(f.stored.version), o.dir.snap())
	return err
}

// store reads the database that etcd would start with: where a snapshot from the
// leader is newer, the file that came with it.
func (o *opened) store() (stored, error) {
	s, err := o.database.read()
	base := o.found.base.index
	if err != nil || s.consistent >= base {
		return s, err
	}
	received, err := openDatabase(receivedDatabase(o.dir.snap(), base))
	if err != nil {
		return s, refuse(Incomplete, remedyDamaged, "the database ends at entry %d, its snapshot at %d", s.consistent, base)
	}
	s, err = received.read()
	received.close()
	if err == nil && s.consistent < base {
		err = refuse(Incomplete, remedyDamaged, "the database ends at entry %d, its snapshot at %d", s.consistent, base)
	}
	return s, err
}

func (o *opened) close() {
	o.segments.close()
	if o.database != nil {
		o.database.close()
	}
}

// Examine says what Edit would do with a directory, or refuses as it would. It
// takes etcd's locks meanwhile and changes nothing.
func Examine(d Dir, opts Options) (Plan, error) {
	return look(d, func(o *opened) (Plan, error) { return o.plan(opts) })
}

// Verify says how a directory is: whether etcd will find in it everything that is
// known to have been committed, and who the members are, edited or not. A
// *Refusal says why etcd must not be started from it. It takes etcd's locks
// meanwhile and changes nothing.
func Verify(d Dir) (Plan, error) {
	return look(d, func(o *opened) (Plan, error) {
		p, _, err := state(o.found)
		p.Interrupted = o.interrupted()
		return p, err
	})
}

func look(d Dir, f func(*opened) (Plan, error)) (Plan, error) {
	var p Plan
	err := asOwner(d.wal(), func() error {
		o, err := open(d)
		if err != nil {
			return err
		}
		defer o.close()
		p, err = f(o)
		return err
	})
	return p, err
}

// interrupted says whether an earlier edit did not come to its end.
func (o *opened) interrupted() bool {
	return slices.ContainsFunc(o.journals, func(j *journal) bool { return j.State == prepared })
}

// plan decides and looks whether the disk has room.
func (o *opened) plan(opts Options) (Plan, error) {
	p, err := decide(o.found, opts)
	if err != nil {
		return p, err
	}
	if p.Interrupted = o.interrupted(); p.Alone {
		return p, nil
	}
	return p, o.room(&p)
}

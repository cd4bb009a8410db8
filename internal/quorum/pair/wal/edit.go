package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// comfortable is the free space below which etcd, once started, soon stops: it
// sets the next segment of 64 MB aside at its start.
const comfortable = 128 << 20

// Edit makes the member of d the only one of its cluster. It returns what it did,
// or a *Refusal and a directory that is as it was. After any other error, and
// after a crash, it may be run again; what it began it then completes.
func Edit(d Dir, opts Options) (Plan, error) {
	return edit(d, opts, func(string) error { return nil })
}

// edit is Edit with a place to fail at before each of its steps.
func edit(d Dir, opts Options, before func(step string) error) (Plan, error) {
	var p Plan
	start := time.Now()
	err := asOwner(d.wal(), func() error {
		o, err := open(d)
		if err != nil {
			return err
		}
		defer o.close()
		if p, err = o.plan(opts); err != nil {
			return err
		}
		return (&editor{o, &p, before}).run()
	})
	p.EditMS = float64(time.Since(start).Microseconds()) / 1000
	return p, err
}

type editor struct {
	*opened
	plan   *Plan
	before func(step string) error
}

// run copies, notes down, changes and checks, in this order and each synced
// before the next begins.
func (e *editor) run() error {
	if e.plan.Alone {
		return e.settle()
	}
	j, err := e.prepare()
	if err != nil {
		return err
	}
	if err := e.change(); err != nil {
		return err
	}
	if err := e.check(); err != nil {
		return err
	}
	e.journals = append(e.journals, j)
	return e.settle()
}

// room refuses where the copy and the edit do not fit.
func (o *opened) room(p *Plan) error {
	warned := false
	for _, dir := range []string{o.dir.Data, o.dir.wal()} {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return fmt.Errorf("ask for free space: %w", err)
		}
		free := int64(fs.Bavail) * fs.Bsize
		if free < p.Space {
			return refuse(NoSpace, "make room; the data directory must stay as it is", "%s has %d bytes free, the edit and its copy take %d", dir, free, p.Space)
		}
		if free < comfortable && !warned {
			warned = true
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s has %d MB free: etcd will stop at its next segment, which takes 64 MB", dir, free>>20))
		}
	}
	return nil
}

// prepare copies what the edit changes and some of what stands before it, and
// writes the journal. On an error nothing of it is left.
func (e *editor) prepare() (*journal, error) {
	if err := e.before("copy"); err != nil {
		return nil, err
	}
	dir, err := newDir(e.dir.Data, e.plan.Term)
	if err != nil {
		return nil, err
	}
	j := e.journal(dir)
	err = e.copyTail(j)
	if err == nil {
		err = e.before("journal")
	}
	if err == nil {
		err = j.write()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	e.plan.Copy = dir
	return j, nil
}

func (e *editor) journal(dir string) *journal {
	p, f := e.plan, &e.found
	tail := p.Segment + ".tail"
	from := max(0, f.end-keptTail)
	segment := quote(filepath.Join(e.dir.wal(), p.Segment))
	undo := fmt.Sprintf("truncate -s %d %s && dd if=%s of=%s bs=1 seek=%d conv=notrunc status=none && truncate -s %d %s",
		f.end, segment, quote(filepath.Join(dir, tail)), segment, from, f.tail.size, segment)
	return &journal{
		Version: 1, State: prepared, Undo: undo, Cluster: p.Cluster, Member: p.Self,
		Segment: p.Segment, Offset: f.end, Size: f.tail.size, Append: p.append, Tail: tail, TailFrom: from,
		Last: p.Last, Term: p.Term, Commit: p.Commit, Removed: p.Remove, Began: time.Now().UTC(), dir: dir,
	}
}

// quote makes one word of s for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (e *editor) copyTail(j *journal) error {
	n := e.found.end - j.TailFrom + int64(len(e.found.rest))
	r := io.NewSectionReader(e.found.tail.file, j.TailFrom, n)
	if err := writeSynced(filepath.Join(j.dir, j.Tail), r); err != nil {
		return fmt.Errorf("copy the tail: %w", err)
	}
	return syncDirs(j.dir)
}

// change takes a torn write away and appends the removals: one write, one sync.
// Where it cannot, it takes away what it wrote.
func (e *editor) change() error {
	f, end := e.found.tail.file, e.found.end
	if len(e.found.rest) > 0 {
		if err := e.before("repair"); err != nil {
			return err
		}
		if err := truncate(f.File, end); err != nil {
			return fmt.Errorf("cut the torn write off %s: %w", e.plan.Segment, err)
		}
	}
	err := e.before("append")
	if err == nil {
		_, err = f.WriteAt(e.plan.append, end)
	}
	if err == nil {
		err = e.before("sync")
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		return nil
	}
	if undo := truncate(f.File, end); undo != nil {
		return fmt.Errorf("append to %s: %w; taking it back failed as well: %w; run the edit again before etcd is started", e.plan.Segment, err, undo)
	}
	return fmt.Errorf("append to %s: %w; the log is as it was", e.plan.Segment, err)
}

// truncate ends the file at size. etcd appends behind it as well as into space
// set aside.
func truncate(f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// check reads the edit back, and that the log with it means what it should.
func (e *editor) check() error {
	if err := e.before("check"); err != nil {
		return err
	}
	f := e.found
	got := make([]byte, len(e.plan.append))
	if _, err := f.tail.file.ReadAt(got, f.end); err != nil || !bytes.Equal(got, e.plan.append) {
		return fmt.Errorf("read %s back: not what was written (%w); run the edit again before etcd is started", e.plan.Segment, err)
	}
	after := *f.scanned
	after.log.changes = slices.Clone(after.log.changes)
	r := newReader(bytes.NewReader(got), int64(len(got)), f.crc)
	for r.off < int64(len(got)) {
		rec, err := r.next()
		if err == nil {
			err = after.log.apply(rec)
		}
		if err != nil {
			return fmt.Errorf("read %s back: %w", e.plan.Segment, err)
		}
	}
	after.end, after.crc, after.rest = f.end+r.off, r.crc, nil
	f.scanned = &after
	again, err := decide(f, Options{})
	if err != nil || !again.Alone || again.Last.Index != e.plan.Commit {
		return fmt.Errorf("read %s back: member %v would not be alone (%w)", e.plan.Segment, e.plan.Self, err)
	}
	e.found, e.plan.Members = f, again.Members
	return nil
}

// settle closes the journals of this and earlier edits. Those that a crash cut
// short before the log was changed may hold the same bytes as the one that came
// to its end, which is the newest. They stay open until then: they tell their
// half-written bytes from damage.
func (e *editor) settle() error {
	state := done
	for _, j := range slices.Backward(e.journals) {
		if j.State != prepared {
			continue
		}
		if err := e.before("settle"); err != nil {
			return err
		}
		now := state
		if state == done && !j.landed(e.found.scanned) {
			now = abandoned
		} else {
			state = abandoned
		}
		if err := j.finish(now); err != nil {
			// The log is edited and synced: nothing depends on this any more.
			e.plan.Warnings = append(e.plan.Warnings, fmt.Sprintf("the journal stays open: %v", err))
		}
	}
	return nil
}

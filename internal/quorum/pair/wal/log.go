package wal

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// Position is one place in raft's log.
type Position struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

// change is one change of membership in the log.
type change struct {
	Position
	confChange
}

// termRun says that the entries from Index on have Term, up to the next run.
type termRun = Position

// gap is the entries from first up to, and without, the one at snapshot.
type gap struct{ first, snapshot uint64 }

// log is what the records of all segments, taken in order, come to. Values of
// keys pass by; only what membership rests on is kept, so that it stays small
// under any log.
type log struct {
	metadata        []byte
	member, cluster uint64

	hard HardState
	last Position
	// from is the index of the first entry, 0 while there is none.
	from uint64
	// gaps are entries that never came, since the leader sent a snapshot instead.
	gaps []gap
	// terms of the entries up to last. An entry that overwrites others drops
	// their runs, as raft drops the entries.
	terms   []termRun
	changes []change
	marks   []snapshotMark
}

// apply takes the next record. CRC records are the segments' affair.
func (l *log) apply(r record) error {
	switch r.kind {
	case kindMetadata:
		return l.applyMetadata(r.data)
	case kindEntry:
		return l.applyEntry(r.data)
	case kindState:
		h, err := parseHardState(r.data)
		if err != nil {
			return fmt.Errorf("read hard state: %w", err)
		}
		l.hard = h
	case kindSnapshot:
		return l.applyMark(r.data)
	default:
		return fmt.Errorf("a record of kind %d", r.kind)
	}
	return nil
}

func (l *log) applyMetadata(b []byte) error {
	if l.metadata != nil {
		if !bytes.Equal(l.metadata, b) {
			return fmt.Errorf("segments of two members or clusters")
		}
		return nil
	}
	member, cluster, err := parseMetadata(b)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	if member == 0 || cluster == 0 {
		return fmt.Errorf("read metadata: member %x, cluster %x", member, cluster)
	}
	l.metadata, l.member, l.cluster = bytes.Clone(b), member, cluster
	return nil
}

func (l *log) applyEntry(b []byte) error {
	e, err := parseEntry(b)
	if err != nil {
		return fmt.Errorf("read entry: %w", err)
	}
	if l.from == 0 {
		l.from = e.index
		if l.last.Index == 0 {
			// The oldest segment begins where older ones were thrown away.
			l.last.Index = e.index - 1
		}
	}
	if e.index > l.last.Index+1 || e.index == math.MaxUint64 {
		return fmt.Errorf("entry %d follows entry %d", e.index, l.last.Index)
	}
	if e.index <= l.last.Index {
		l.truncate(e.index)
	}
	if n := len(l.terms); n == 0 || l.terms[n-1].Term != e.term {
		if n > 0 && l.terms[n-1].Term > e.term {
			return fmt.Errorf("entry %d of term %d follows one of term %d", e.index, e.term, l.terms[n-1].Term)
		}
		l.terms = append(l.terms, termRun{e.index, e.term})
	}
	l.last = Position{e.index, e.term}
	switch e.typ {
	case entryConfChange:
		c, err := parseConfChange(e.data)
		if err != nil {
			return fmt.Errorf("read membership change %d: %w", e.index, err)
		}
		c.context = bytes.Clone(c.context)
		l.changes = append(l.changes, change{l.last, c})
	case entryConfChangeV2:
		// etcd writes none. Applied, it may leave a joint configuration.
		l.changes = append(l.changes, change{l.last, confChange{typ: changeJoint}})
	}
	return nil
}

// changeJoint stands for a change of the second kind, which is not looked into.
const changeJoint = math.MaxUint64

// truncate drops the entries from index on, before another takes its place.
func (l *log) truncate(index uint64) {
	l.from = min(l.from, index)
	l.terms = slices.DeleteFunc(l.terms, func(t termRun) bool { return t.Index >= index })
	l.changes = slices.DeleteFunc(l.changes, func(c change) bool { return c.Index >= index })
	l.gaps = slices.DeleteFunc(l.gaps, func(g gap) bool { return g.snapshot >= index })
}

// applyMark takes a snapshot's record: one of our own, of entries that stand in
// the log, or one from the leader, which the log goes on from.
func (l *log) applyMark(b []byte) error {
	s, err := parseSnapshot(b)
	if err != nil {
		return fmt.Errorf("read snapshot record: %w", err)
	}
	l.marks = append(l.marks, s)
	if s.index > l.last.Index {
		l.gaps = append(l.gaps, gap{l.last.Index + 1, s.index})
		l.last = Position{s.index, s.term}
		l.terms = append(l.terms, l.last)
	}
	return nil
}

// termAt is the term of the entry at index, or 0 where the log does not tell.
func (l *log) termAt(index uint64) uint64 {
	if index > l.last.Index || slices.ContainsFunc(l.gaps, func(g gap) bool { return g.first <= index && index < g.snapshot }) {
		return 0
	}
	for _, t := range slices.Backward(l.terms) {
		if t.Index <= index {
			return t.Term
		}
	}
	return 0
}

// base is the newest snapshot that etcd would start from once commit is the
// end of the log. etcd leaves out records above the commit index, which
// surgery raises, so each of them must be one of this very log.
func (l *log) base() (snapshotMark, error) {
	if len(l.marks) == 0 {
		return snapshotMark{}, refuse(Damaged, remedyDamaged, "no snapshot record: the oldest segment is missing")
	}
	for _, s := range l.marks {
		if s.index <= l.hard.Commit {
			continue
		}
		if have := l.termAt(s.index); have != s.term {
			return snapshotMark{}, refuse(Incomplete, remedyDamaged,
				"a snapshot up to entry %d was being received when etcd stopped; the log ends at %d", s.index, l.last.Index)
		}
	}
	s := l.marks[len(l.marks)-1]
	if s.index > 0 && s.conf == nil {
		return snapshotMark{}, refuse(UnknownVersion, "start this member with its cluster once, until it has written a snapshot",
			"the snapshot record at entry %d has no membership, as before etcd 3.5", s.index)
	}
	if err := l.reaches(s.index); err != nil {
		return snapshotMark{}, err
	}
	return s, nil
}

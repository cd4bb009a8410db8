package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func marshal(m proto.Message) ([]byte, error) { return proto.Marshal(m) }

// mustEdit edits and checks what etcd's own library reads afterwards.
func mustEdit(t *testing.T, m *member) Plan {
	t.Helper()
	before, err := readAsEtcd(m.copied().dir.wal())
	if err != nil {
		t.Fatal(err)
	}
	p, err := Edit(m.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkEdited(t, m, before, p)
	return p
}

func checkEdited(t *testing.T, m *member, before etcdReads, p Plan) {
	t.Helper()
	after, err := readAsEtcd(m.copied().dir.wal())
	if err != nil {
		t.Fatal(err)
	}
	n := len(before.entries)
	if len(after.entries) != n+len(p.Remove) {
		t.Fatalf("%d entries and %d removals came to %d entries", n, len(p.Remove), len(after.entries))
	}
	for i, e := range before.entries {
		if !proto.Equal(e, after.entries[i]) {
			t.Fatalf("entry %d was changed from %v to %v", e.GetIndex(), e, after.entries[i])
		}
	}
	for i, e := range after.entries[n:] {
		var cc raftpb.ConfChange
		if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
			t.Fatal(err)
		}
		want := p.Remove[i]
		if e.GetType() != raftpb.EntryConfChange || cc.GetType() != raftpb.ConfChangeRemoveNode || cc.GetNodeId() != uint64(want.ID) ||
			e.GetTerm() != before.hard.GetTerm()+1 || e.GetIndex() != p.Last.Index+uint64(i)+1 {
			t.Errorf("appended %v with %v, want the removal of %v", e, &cc, want.ID)
		}
	}
	last := p.Last.Index + uint64(len(p.Remove))
	if h := after.hard; h.GetTerm() != before.hard.GetTerm()+1 || h.GetVote() != self || h.GetCommit() != last {
		t.Errorf("hard state %v, want term %d, vote %x, commit %d", h, before.hard.GetTerm()+1, self, last)
	}
}

func TestEditRemovesTheOthersInTheNextTerm(t *testing.T) {
	for name, m := range map[string]*member{
		"committed":   newMember(t).put(20, 100).agree().stop(),
		"uncommitted": newMember(t).put(20, 100).stop(),
		"segments":    newMember(t).put(400, 200).agree().put(3, 10).stop(),
		"full":        newMember(t).put(1, 2*segmentBytes).stop(),
		"bare":        newMember(t).stop(),
		"young": func() *member {
			m := newMember(t).put(3, 10)
			m.version = ""
			return m.stop()
		}(),
		"higher term": func() *member {
			m := newMember(t).put(3, 10)
			m.term = 40
			return m.agree().stop()
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			p := mustEdit(t, m)
			if len(p.Remove) != 1 || p.Remove[0].ID != other {
				t.Errorf("removed %v, want %x", p.Remove, other)
			}
			if again, err := Edit(m.dir, Options{}); err != nil || !again.Alone || again.Last.Index != p.Commit {
				t.Errorf("edited again: %+v, %v; want nothing to do", again, err)
			}
		})
	}
}

// A write that etcd itself appends later must be readable behind the edit.
func TestEtcdGoesOnBehindTheEdit(t *testing.T) {
	m := newMember(t).put(50, 100).stop()
	p := mustEdit(t, m)
	r, err := readAsEtcd(m.dir.wal())
	if err != nil {
		t.Fatal(err)
	}
	w := reopen(t, m, r)
	e := &raftpb.Entry{Term: new(p.Term), Index: new(p.Commit + 1), Data: []byte("later")}
	if err := w.Save(&raftpb.HardState{Term: new(p.Term), Vote: new(uint64(self)), Commit: new(p.Commit + 1)}, []*raftpb.Entry{e}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err = readAsEtcd(m.dir.wal()); err != nil || string(r.entries[len(r.entries)-1].GetData()) != "later" {
		t.Errorf("read back %v, %v", r.entries[len(r.entries)-1], err)
	}
	again, err := Edit(m.dir, Options{})
	if err != nil || !again.Alone {
		t.Errorf("edited again: %+v, %v; want nothing to do", again, err)
	}
}

func reasonOf(err error) Reason {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return ""
}

func TestRefusals(t *testing.T) {
	grown := func() *member { // the other member and a third
		m := newMember(t).conf(addVoter, third, false)
		m.members[third] = storedMember{ID: third}
		m.agree().consistent = m.commit
		return m
	}
	for _, c := range []struct {
		name string
		m    *member
		want Reason
	}{
		{"learner", newLearner(t).put(3, 9).stop(), NotVoter},
		{"promotion not known to be committed", newLearner(t).conf(addVoter, self, true).put(1, 9).stop(), NotVoter},
		{"learner by the database alone", func() *member {
			m := newMember(t)
			m.members[self] = storedMember{ID: self, IsLearner: true}
			return m.stop()
		}(), Disagree},
		{"removed by an uncommitted change", newMember(t).conf(raftpb.ConfChangeRemoveNode, self, false).stop(), NotVoter},
		{"three voters", grown().put(3, 9).stop(), TooManyVoters},
		{"a third voter, uncommitted", newMember(t).conf(addVoter, third, false).stop(), TooManyVoters},
		{"two voters, but three a moment ago", grown().conf(raftpb.ConfChangeRemoveNode, third, false).stop(), TooManyVoters},
		{"joint change", func() *member {
			m := newMember(t)
			m.save(m.next(raftpb.EntryConfChangeV2, nil))
			return m.stop()
		}(), Joint},
		{"joint snapshot", func() *member {
			m := newMember(t).put(5, 9).agree()
			m.consistent = m.commit
			return m.markJoint(m.commit).stop()
		}(), Joint},
		{"member of the database that the log does not know", func() *member {
			m := newMember(t)
			m.members[third] = storedMember{ID: third}
			return m.stop()
		}(), Disagree},
		{"member of a snapshot that the database does not know", func() *member {
			m := newMember(t).put(5, 9).agree()
			m.consistent = m.commit
			delete(m.members, other)
			return m.mark(m.commit, self, other).stop()
		}(), Disagree},
		{"database ahead of the log", func() *member {
			m := newMember(t).put(5, 9)
			m.consistent = m.last + 1
			return m.stop()
		}(), Incomplete},
		{"commit ahead of the log", func() *member {
			m := newMember(t).put(5, 9)
			m.commit = m.last + 1
			m.save()
			return m.stop()
		}(), Incomplete},
		{"a snapshot being received", func() *member {
			m := newMember(t).put(5, 9).agree()
			return m.mark(m.last+100, self, other).stop()
		}(), Incomplete},
		{"database behind its snapshot", func() *member {
			m := newMember(t).put(5, 9).agree()
			return m.mark(m.commit, self, other).stop()
		}(), Incomplete},
		{"etcd 3.4", func() *member { m := newMember(t); m.version = "3.4.0"; return m.stop() }(), UnknownVersion},
		{"etcd 3.8", func() *member { m := newMember(t); m.version = "3.8.0"; return m.stop() }(), UnknownVersion},
		{"no version, and a snapshot", func() *member {
			m := newMember(t).put(5, 9).agree()
			m.version, m.consistent = "", m.commit
			return m.mark(m.commit, self, other).stop()
		}(), UnknownVersion},
		{"nothing there", &member{t: t, dir: Dir{Data: t.TempDir()}}, NotThere},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.m.hash()
			_, err := Edit(c.m.dir, Options{})
			if reasonOf(err) != c.want {
				t.Errorf("got %v, want a refusal as %s", err, c.want)
			}
			if c.m.hash() != before {
				t.Error("the directory was changed")
			}
			if _, examined := Examine(c.m.dir, Options{}); reasonOf(examined) != c.want {
				t.Errorf("a plan says %v, an edit %v", examined, err)
			}
		})
	}
}

func TestThreeVotersAreEditedWhereTheLossIsAccepted(t *testing.T) {
	m := newMember(t).conf(addVoter, third, false)
	m.members[third] = storedMember{ID: third}
	m.agree().consistent = m.commit
	m.put(3, 9).stop()
	p, err := Edit(m.dir, Options{AcceptDataLoss: true})
	if err != nil || len(p.Remove) != 2 || len(p.Warnings) == 0 {
		t.Errorf("got %+v, %v; want two removals and a warning", p, err)
	}
}

func TestLearnersAndUncommittedMembersAreRemovedToo(t *testing.T) {
	m := newMember(t).conf(addLearner, third, false).agree().put(2, 9)
	m.conf(addLearner, third+1, false).stop()
	p := mustEdit(t, m)
	want := []Member{
		{ID: other, Name: "b", Source: FromStore},
		{ID: third, Learner: true, Source: FromCommitted},
		{ID: third + 1, Learner: true, Source: FromUncommitted},
	}
	if !slices.EqualFunc(p.Remove, want, func(a, b Member) bool {
		return a.ID == b.ID && a.Name == b.Name && a.Learner == b.Learner && a.Source == b.Source
	}) {
		t.Errorf("removed %+v, want %+v", p.Remove, want)
	}
}

func TestPromotedLearnerMaySurvive(t *testing.T) {
	m := newLearner(t).conf(addVoter, self, true).agree().put(2, 9).stop()
	if p := mustEdit(t, m); len(p.Remove) != 1 || p.Remove[0].ID != other {
		t.Errorf("removed %v, want %x", p.Remove, other)
	}
}

// The lost leader may have removed the other member in an entry that is not known
// to be committed. It counts as a member until that is certain.
func TestUncommittedRemovalIsCommitted(t *testing.T) {
	m := newMember(t).put(2, 9).agree().conf(raftpb.ConfChangeRemoveNode, other, false).stop()
	if p := mustEdit(t, m); len(p.Remove) != 1 || p.Remove[0].ID != other {
		t.Errorf("removed %v, want %x once more", p.Remove, other)
	}
}

// etcd rejects an addition with another's peer URL when it applies it; the log
// keeps the entry.
func TestRejectedAdditionIsNoDisagreement(t *testing.T) {
	m := newMember(t).conf(addVoter, third, false).put(1, 9).agree()
	m.consistent = m.commit
	m.stop()
	if p := mustEdit(t, m); len(p.Remove) != 1 || p.Remove[0].ID != other {
		t.Errorf("removed %v, want %x", p.Remove, other)
	}
}

func TestSnapshotFromTheLeader(t *testing.T) {
	m := newMember(t).put(5, 9).agree()
	m.mark(m.last+100, self, other).agree().put(3, 9)
	m.stop()
	m.consistent = m.commit
	m.store(receivedDatabase(m.dir.snap(), m.commit))
	m.version = "3.7.0"
	m.store(filepath.Join(m.dir.snap(), "db"))
	mustEdit(t, m)
}

func TestRunningEtcdIsRefused(t *testing.T) {
	m := newMember(t).put(3, 9).stop()
	o, err := open(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	if _, err := Edit(m.dir, Options{}); reasonOf(err) != Running {
		t.Errorf("got %v, want a refusal as %s", err, Running)
	}
}

func TestFilesBelongToTheOwnerOfTheDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	m := newMember(t).put(3, 9).stop()
	m.giveTo(1234)
	if _, err := Edit(m.dir, Options{}); err != nil {
		t.Fatal(err)
	}
	m.ownedBy(1234)
	if now := os.Geteuid(); now != 0 {
		t.Errorf("the process is user %d", now)
	}
	// A directory that its own owner may not write to must not be written to.
	m = newMember(t).put(3, 9).stop()
	m.giveTo(1234)
	if err := os.Chmod(m.dir.Data, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(m.dir, Options{}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v, want permission denied", err)
	}
}

// Of the snapshot files of etcd 3.5 and 3.6 the newest whole one counts that the
// log names, and the log must go on from it.
func TestSnapFiles(t *testing.T) {
	build := func(version string) *member {
		m := newMember(t).put(5, 9).agree()
		m.version, m.consistent = version, m.commit
		return m.mark(m.commit, self, other).put(100, 300).stop()
	}
	write := func(m *member, index uint64, change func([]byte)) {
		t.Helper()
		mark := &raftpb.SnapshotMetadata{Index: new(index), Term: new(m.term), ConfState: &raftpb.ConfState{Voters: []uint64{self, other}}}
		data, err := marshal(&raftpb.Snapshot{Data: []byte("{}"), Metadata: mark})
		if err != nil {
			t.Fatal(err)
		}
		b := protowire.AppendTag(nil, 1, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(crc32.Checksum(data, crcTable)))
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		b = protowire.AppendBytes(b, data)
		change(b)
		if err := os.WriteFile(filepath.Join(m.dir.snap(), fmt.Sprintf("%016x-%016x.snap", m.term, index)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole := func([]byte) {}
	flipped := func(b []byte) { b[len(b)-1] ^= 1 }
	oldest := func(m *member) {
		t.Helper()
		names, err := segmentNames(m.dir.wal())
		if err == nil {
			err = os.Remove(filepath.Join(m.dir.wal(), names[0]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, version string
		change        func(*member)
		want          Reason
	}{
		{"no file, but all of the log", "3.6.0", func(*member) {}, ""},
		{"a file", "3.5.0", func(m *member) { write(m, m.commit, whole) }, ""},
		{"a damaged file, but all of the log", "3.5.0", func(m *member) { write(m, m.commit, flipped) }, ""},
		{"no file, and a log that begins later", "3.6.0", oldest, Damaged},
		{"no file for 3.7, and a log that begins later", "3.7.0", oldest, Damaged},
		{"a file that the log does not name", "3.6.0", func(m *member) { write(m, m.commit+1, whole); oldest(m) }, Damaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := build(c.version)
			c.change(m)
			if _, err := Examine(m.dir, Options{}); reasonOf(err) != c.want || (c.want == "" && err != nil) {
				t.Errorf("got %v, want a refusal as %q", err, c.want)
			}
		})
	}
}

// etcd throws away segments that its snapshots have made useless.
func TestOldSegmentsMayBeGone(t *testing.T) {
	m := newMember(t).put(200, 300).agree()
	m.version, m.consistent = "3.7.0", m.commit
	m.mark(m.commit, self, other).put(20, 300).stop()
	names, err := segmentNames(m.dir.wal())
	if err != nil || len(names) < 4 {
		t.Fatalf("segments %v, %v", names, err)
	}
	for _, name := range names[:2] {
		if err := os.Remove(filepath.Join(m.dir.wal(), name)); err != nil {
			t.Fatal(err)
		}
	}
	if p := mustEdit(t, m); len(p.Remove) != 1 || p.Remove[0].ID != other {
		t.Errorf("removed %v, want %x", p.Remove, other)
	}
}

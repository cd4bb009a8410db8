package wal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

const (
	self    = 0xa11ce
	other   = 0xb0b
	third   = 0xcafe
	cluster = 0xc1
)

const (
	addVoter   = raftpb.ConfChangeAddNode
	addLearner = raftpb.ConfChangeAddLearnerNode
)

// segmentBytes is small, so that a log of a hundred entries has segments.
const segmentBytes = 16 << 10

func TestMain(m *testing.M) {
	if order := os.Getenv(killAt); order != "" {
		editAndDie(order)
		return
	}
	etcdwal.SegmentSizeBytes = segmentBytes
	os.Exit(m.Run())
}

// member is a directory of a stopped member, its log written by etcd's own
// library.
type member struct {
	t   testing.TB
	dir Dir
	w   *etcdwal.WAL

	term, last, commit uint64
	version            string
	consistent         uint64
	members            map[uint64]storedMember
	removed            []uint64
}

// newMember is a member of a cluster of two, bootstrapped as etcd does it: one
// addition for each.
func newMember(t testing.TB) *member { return bootstrap(t, addVoter) }

// newLearner is a member that the log, from its beginning, has as a learner.
func newLearner(t testing.TB) *member {
	m := bootstrap(t, addLearner)
	m.members[self] = storedMember{ID: self, IsLearner: true}
	return m
}

// inMemory is a directory that needs no disk where there is such, since some
// thousands are made.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "wal-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// bootstrap begins a log; as is how self is added.
func bootstrap(t testing.TB, as raftpb.ConfChangeType) *member {
	t.Helper()
	return begin(t, inMemory(t), as)
}

func begin(t testing.TB, dir string, as raftpb.ConfChangeType) *member {
	t.Helper()
	m := &member{t: t, dir: Dir{Data: dir}, term: 1, version: "3.6.0", members: map[uint64]storedMember{}}
	if err := os.MkdirAll(m.dir.snap(), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	m.w, err = etcdwal.Create(zap.NewNop(), m.dir.wal(), appendNumbers(nil, self, cluster))
	if err != nil {
		t.Fatal(err)
	}
	m.conf(as, self, false).conf(addVoter, other, false)
	m.members[self] = storedMember{ID: self, Name: "a"}
	m.members[other] = storedMember{ID: other, Name: "b"}
	m.agree()
	m.consistent = m.commit
	return m
}

// save is one Save of etcd's.
func (m *member) save(entries ...*raftpb.Entry) {
	m.t.Helper()
	hard := &raftpb.HardState{Term: new(m.term), Vote: new(uint64(self)), Commit: new(m.commit)}
	if err := m.w.Save(hard, entries); err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) next(typ raftpb.EntryType, data []byte) *raftpb.Entry {
	m.last++
	return &raftpb.Entry{Type: typ.Enum(), Term: new(m.term), Index: new(m.last), Data: data}
}

// put appends n entries with values of size bytes, one save each.
func (m *member) put(n, size int) *member {
	m.t.Helper()
	for range n {
		m.save(m.next(raftpb.EntryNormal, []byte(strings.Repeat("v", size))))
	}
	return m
}

func (m *member) conf(typ raftpb.ConfChangeType, id uint64, promote bool) *member {
	m.t.Helper()
	context, _ := json.Marshal(map[string]any{"id": id, "isPromote": promote})
	cc := &raftpb.ConfChange{Type: typ.Enum(), NodeId: new(id), Context: context, Id: new(uint64(7))}
	b, err := marshal(cc)
	if err != nil {
		m.t.Fatal(err)
	}
	m.save(m.next(raftpb.EntryConfChange, b))
	return m
}

// agree commits everything so far and says so in the log.
func (m *member) agree() *member {
	m.t.Helper()
	m.commit = m.last
	m.save()
	return m
}

// mark writes a snapshot's record.
func (m *member) mark(index uint64, voters ...uint64) *member {
	m.t.Helper()
	s := &walpb.Snapshot{Index: new(index), Term: new(m.term), ConfState: &raftpb.ConfState{Voters: voters}}
	if err := m.w.SaveSnapshot(s); err != nil {
		m.t.Fatal(err)
	}
	m.last = max(m.last, index)
	return m
}

// stop closes the log and writes the database.
func (m *member) stop() *member {
	m.t.Helper()
	if err := m.w.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.store(filepath.Join(m.dir.snap(), "db"))
	return m
}

func (m *member) store(path string) {
	m.t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	err = db.Update(func(tx *bolt.Tx) error {
		put := func(bucket, key string, value []byte) {
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			if err == nil {
				err = b.Put([]byte(key), value)
			}
			if err != nil {
				m.t.Error(err)
			}
		}
		put("meta", "consistent_index", binary.BigEndian.AppendUint64(nil, m.consistent))
		if m.version >= "3.6" {
			put("meta", "storageVersion", []byte(m.version))
		}
		put("cluster", "clusterVersion", []byte(m.version))
		for id, one := range m.members {
			b, _ := json.Marshal(one)
			put("members", ID(id).String(), b)
		}
		for _, id := range m.removed {
			put("members_removed", ID(id).String(), []byte("removed"))
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// tail is the path of the last segment.
func (m *member) tail() string {
	m.t.Helper()
	names, err := segmentNames(m.dir.wal())
	if err != nil {
		m.t.Fatal(err)
	}
	return filepath.Join(m.dir.wal(), names[len(names)-1])
}

// end is where the log ends in the last segment.
func (m *member) end() int64 {
	m.t.Helper()
	o, err := open(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	defer o.close()
	return o.found.end
}

// copied is a second directory with the same files.
func (m *member) copied() *member {
	m.t.Helper()
	c := *m
	c.dir = Dir{Data: inMemory(m.t)}
	if err := os.CopyFS(c.dir.Data, os.DirFS(m.dir.Data)); err != nil {
		m.t.Fatal(err)
	}
	return &c
}

// alter changes bytes of a file.
func alter(t testing.TB, path string, at int64, change func([]byte), n int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	change(b)
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// etcdReads is what etcd's own library makes of a log, as its start does: the
// newest valid snapshot, everything behind it, one repair.
type etcdReads struct {
	hard    *raftpb.HardState
	entries []*raftpb.Entry
	start   *walpb.Snapshot
}

func readAsEtcd(dir string) (r etcdReads, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	snaps, err := etcdwal.ValidSnapshotEntries(zap.NewNop(), dir)
	if err != nil {
		return r, err
	}
	r.start = &walpb.Snapshot{}
	if len(snaps) > 0 {
		r.start = snaps[len(snaps)-1]
	}
	for repaired := false; ; repaired = true {
		w, err := etcdwal.Open(zap.NewNop(), dir, r.start)
		if err != nil {
			return r, err
		}
		_, r.hard, r.entries, err = w.ReadAll()
		if cerr := w.Close(); err == nil && cerr != nil {
			err = cerr
		}
		if err == nil {
			return r, nil
		}
		if repaired || !etcdwal.Repair(zap.NewNop(), dir) {
			return r, err
		}
	}
}

// markJoint writes the record of a snapshot in the middle of a joint change.
func (m *member) markJoint(index uint64) *member {
	m.t.Helper()
	conf := &raftpb.ConfState{Voters: []uint64{self}, VotersOutgoing: []uint64{self, other}}
	if err := m.w.SaveSnapshot(&walpb.Snapshot{Index: new(index), Term: new(m.term), ConfState: conf}); err != nil {
		m.t.Fatal(err)
	}
	return m
}

// reopen opens a log for writing, as etcd does.
func reopen(t *testing.T, m *member, r etcdReads) *etcdwal.WAL {
	t.Helper()
	w, err := etcdwal.Open(zap.NewNop(), m.dir.wal(), r.start)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := w.ReadAll(); err != nil {
		t.Fatal(err)
	}
	return w
}

// hash is a sum over etcd's files.
func (m *member) hash() (sum uint32) {
	m.t.Helper()
	err := filepath.WalkDir(m.dir.Data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		sum = crc32.Update(sum, crcTable, append([]byte(path), b...))
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return sum
}

func (m *member) giveTo(uid int) {
	m.t.Helper()
	// The way there must be open, too.
	for dir := m.dir.Data; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	err := filepath.WalkDir(m.dir.Data, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Chown(path, uid, uid)
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) ownedBy(uid uint32) {
	m.t.Helper()
	err := filepath.WalkDir(m.dir.Data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != uid {
			m.t.Errorf("%s belongs to user %d, want %d", path, info.Sys().(*syscall.Stat_t).Uid, uid)
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

package wal

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// incompressible is a value without a sector of zeros, which a bit flip could
// not be told from.
func (m *member) noise(n, size int) *member {
	m.t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(size)))
	for range n {
		value := make([]byte, size)
		for i := range value {
			value[i] = byte(random.Uint32())
		}
		m.save(m.next(raftpb.EntryNormal, value))
	}
	return m
}

// Whatever sectors of its last write a power loss takes, what is left is edited
// as etcd would read it.
func TestTornTailIsRepaired(t *testing.T) {
	repaired := 0
	for pad := range 5 {
		m := newMember(t).noise(10, 100).noise(1, 40+pad*100)
		m.store(m.dir.snap() + "/db")
		if err := m.w.Sync(); err != nil {
			t.Fatal(err)
		}
		at, last := m.copied().end(), m.last
		m.noise(1, 3*sector).stop()
		to := m.end()
		parts := int((to-1)/sector - at/sector + 1)
		for lost := 1; lost < 1<<parts; lost++ {
			c := m.copied()
			alter(t, c.tail(), at, func(b []byte) { loseSectors(b, at, lost) }, int(to-at))
			before, err := readAsEtcd(c.copied().dir.wal())
			if err != nil {
				t.Fatalf("pad %d, lost sectors %b: etcd reads: %v", pad, lost, err)
			}
			p, err := Edit(c.dir, Options{})
			if err != nil {
				t.Fatalf("pad %d, lost sectors %b: %v", pad, lost, err)
			}
			checkEdited(t, c, before, p)
			if p.Last.Index == last {
				repaired++
			}
		}
	}
	if repaired < 5*8 {
		t.Errorf("%d torn entries were cut off; that is too few to have tried it", repaired)
	}
}

// What an entry that was committed stands in is never cut off: the hard state,
// the database or a hard state behind the tear tells.
func TestCommittedEntryIsNeverCutOff(t *testing.T) {
	build := func(after func(*member)) *member {
		m := newMember(t).noise(10, 100).agree()
		m.store(m.dir.snap() + "/db")
		if err := m.w.Sync(); err != nil {
			t.Fatal(err)
		}
		at := m.copied().end()
		m.noise(1, 3*sector)
		after(m)
		m.stop()
		alter(t, m.tail(), (at/sector+1)*sector, func(b []byte) { clear(b) }, sector)
		return m
	}
	for name, m := range map[string]*member{
		"a hard state behind it": build(func(m *member) { m.agree().noise(3, 30) }),
		"the database":           build(func(m *member) { m.consistent = m.last }),
	} {
		t.Run(name, func(t *testing.T) {
			before := m.hash()
			_, err := Edit(m.dir, Options{})
			if reasonOf(err) != Incomplete && reasonOf(err) != Damaged {
				t.Errorf("got %v, want a refusal", err)
			}
			if m.hash() != before {
				t.Error("the directory was changed")
			}
		})
	}
}

// damaged is a member of several segments with records of all kinds.
func damaged(t testing.TB) *member {
	m := newMember(t).noise(60, 300).agree()
	m.consistent = m.commit
	m.mark(m.commit, self, other).noise(5, 700).conf(addLearner, third, false).noise(20, 50)
	return m.stop()
}

func TestEveryFlippedBitIsRefused(t *testing.T) {
	m := damaged(t)
	step := 29
	if many() {
		step = 3
	}
	names, err := segmentNames(m.dir.wal())
	if err != nil {
		t.Fatal(err)
	}
	end := m.end()
	random := rand.New(rand.NewPCG(1, 2))
	for i, name := range names {
		path := m.dir.wal() + "/" + name
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size := info.Size()
		if i == len(names)-1 {
			size = end
		}
		for at := int64(random.IntN(step)); at < size; at += int64(1 + random.IntN(2*step)) {
			bit := byte(1) << random.IntN(8)
			alter(t, path, at, func(b []byte) { b[0] ^= bit }, 1)
			if _, err := Examine(m.dir, Options{}); reasonOf(err) != Damaged && reasonOf(err) != Incomplete {
				t.Errorf("%s, bit %#x of the byte at %d flipped: %v", name, bit, at, err)
			}
			alter(t, path, at, func(b []byte) { b[0] ^= bit }, 1)
		}
	}
	if _, err := Examine(m.dir, Options{}); err != nil {
		t.Fatalf("mended: %v", err)
	}
}

// A record's sum covers its data, but not its kind. Each record is tried as each
// other kind, by however many bits they differ.
func TestEveryChangedKindIsRefused(t *testing.T) {
	m := damaged(t)
	names, err := segmentNames(m.dir.wal())
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, name := range names {
		path := m.dir.wal() + "/" + name
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r := newReader(bytes.NewReader(b), int64(len(b)), 0)
		for {
			at := r.off + frameHead + 1
			rec, err := r.next()
			if err != nil {
				break
			}
			if rec.kind == kindCRC {
				r.crc = rec.crc
			}
			for kind := byte(0); kind < 8; kind++ {
				if uint64(kind) == rec.kind {
					continue
				}
				tried++
				alter(t, path, at, func(b []byte) { b[0] = kind }, 1)
				if _, err := Examine(m.dir, Options{}); reasonOf(err) != Damaged && reasonOf(err) != Joint {
					t.Errorf("%s: the record at %d of kind %d made kind %d: %v", name, at, rec.kind, kind, err)
				}
				alter(t, path, at, func(b []byte) { b[0] = byte(rec.kind) }, 1)
			}
		}
	}
	if tried < 1000 {
		t.Errorf("%d changes tried", tried)
	}
}

// A log that ends early is taken as it is only where nothing tells that more was
// committed.
func TestTruncatedLog(t *testing.T) {
	m := damaged(t)
	path, end := m.tail(), m.end()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for size := int64(0); size < end; size += 61 {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Examine(m.dir, Options{})
		if err != nil {
			if reasonOf(err) == "" {
				t.Errorf("cut at %d: %v", size, err)
			}
			continue
		}
		accepted++
		r, err := readAsEtcd(m.copied().dir.wal())
		if err != nil {
			t.Errorf("cut at %d: etcd refuses what is accepted here: %v", size, err)
			continue
		}
		if n := len(r.entries); n > 0 && r.entries[n-1].GetIndex() != p.Last.Index {
			t.Errorf("cut at %d: ends at entry %d, for etcd at %d", size, p.Last.Index, r.entries[n-1].GetIndex())
		}
		if p.Last.Index < m.commit {
			t.Errorf("cut at %d: ends at entry %d, %d is committed", size, p.Last.Index, m.commit)
		}
	}
	if accepted == 0 {
		t.Error("no cut was accepted")
	}
}

// The fuzzer has a directory of three segments and a script of changes to it,
// four bytes each: what to do, where, and with what.
func FuzzDirectory(f *testing.F) {
	seed := damaged(f)
	names, err := segmentNames(seed.dir.wal())
	if err != nil {
		f.Fatal(err)
	}
	original := map[uint64]*raftpb.Entry{}
	w, err := etcdwal.OpenForRead(zap.NewNop(), seed.dir.wal(), &walpb.Snapshot{})
	if err != nil {
		f.Fatal(err)
	}
	_, _, entries, err := w.ReadAll()
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		original[e.GetIndex()] = e
	}
	for _, s := range []string{"", "f\x00\x10\x01", "t\x02\x00\x00", "z\x02\x00\x03", "r\x01\x00\x00", "t\x02\x08\x00", "c\x02\x01\x02"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		m := *seed
		m.t = t
		c := m.copied()
		onlyFlips := mutate(t, c, names, script)
		pristine := c.copied()
		p, err := Edit(c.dir, Options{})
		if err != nil {
			if reasonOf(err) == "" {
				t.Fatalf("not a refusal: %v", err)
			}
			return
		}
		before, err := readAsEtcd(pristine.dir.wal())
		if err != nil {
			t.Fatalf("etcd refuses what was edited: %v", err)
		}
		if p.Last.Index < seed.commit {
			t.Fatalf("entry %d was committed, the log ended at %d", seed.commit, p.Last.Index)
		}
		if onlyFlips && p.Last.Index != uint64(len(original)) {
			t.Fatalf("of %d entries %d were taken for all", len(original), p.Last.Index)
		}
		for _, e := range before.entries {
			if want := original[e.GetIndex()]; !proto.Equal(e, want) {
				t.Fatalf("entry %v was edited as %v", want, e)
			}
		}
		checkEdited(t, c, before, p)
	})
}

// mutate carries a script out and says whether it flipped bits only.
func mutate(t *testing.T, m *member, names []string, script []byte) (onlyFlips bool) {
	t.Helper()
	onlyFlips = true
	for ; len(script) >= 4; script = script[4:] {
		path := m.dir.wal() + "/" + names[int(script[1])%len(names)]
		info, err := os.Stat(path)
		if err != nil {
			continue // removed before
		}
		at := (int64(script[2])<<8 | int64(script[3])) % max(1, info.Size())
		switch script[0] {
		case 't':
			onlyFlips = false
			err = os.Truncate(path, at)
		case 'z':
			onlyFlips = false
			alter(t, path, at/sector*sector, func(b []byte) { clear(b) }, sector)
		case 'r':
			onlyFlips = false
			err = os.Remove(path)
		default:
			if info.Size() > 0 {
				alter(t, path, at, func(b []byte) { b[0] ^= 1 << (script[0] % 8) }, 1)
			}
		}
		if err != nil && !strings.Contains(err.Error(), "no such file") {
			t.Fatal(err)
		}
	}
	return onlyFlips
}

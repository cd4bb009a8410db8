package wal

import (
	"bytes"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// What is accepted here means the same to etcd's generated types.
func FuzzMessages(f *testing.F) {
	entry := marshalRemoval(other, 3, 9)
	framed, _ := appendRecord(nil, kindEntry, entry, 7)
	conf, _ := proto.Marshal(&raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}, AutoLeave: new(true)})
	mark, _ := proto.Marshal(&walpb.Snapshot{Index: new(uint64(4)), Term: new(uint64(2)), ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
	for _, b := range [][]byte{nil, entry, framed, conf, mark, HardState{1, 2, 3}.marshal(), appendNumbers(nil, self, cluster)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(what string, err error, m proto.Message, equal func() bool) {
			if err != nil {
				return
			}
			if err := proto.Unmarshal(b, m); err != nil {
				t.Errorf("%s: etcd refuses what is accepted here: %v", what, err)
			} else if !equal() {
				t.Errorf("%s: not what etcd reads: %v", what, m)
			}
		}
		r, err := parseRecord(b)
		var rec walpb.Record
		same("record", err, &rec, func() bool {
			return uint64(rec.GetType()) == r.kind && rec.GetCrc() == r.crc && bytes.Equal(rec.GetData(), r.data)
		})
		e, err := parseEntry(b)
		var ent raftpb.Entry
		same("entry", err, &ent, func() bool {
			return uint64(ent.GetType()) == e.typ && ent.GetTerm() == e.term && ent.GetIndex() == e.index && bytes.Equal(ent.GetData(), e.data)
		})
		h, err := parseHardState(b)
		var hard raftpb.HardState
		same("hard state", err, &hard, func() bool {
			return hard.GetTerm() == h.Term && hard.GetVote() == h.Vote && hard.GetCommit() == h.Commit
		})
		member, cluster, err := parseMetadata(b)
		var meta etcdserverpb.Metadata
		same("metadata", err, &meta, func() bool { return meta.GetNodeID() == member && meta.GetClusterID() == cluster })
		s, err := parseSnapshot(b)
		var snap walpb.Snapshot
		same("snapshot", err, &snap, func() bool {
			return snap.GetIndex() == s.index && snap.GetTerm() == s.term && (snap.ConfState == nil) == (s.conf == nil) &&
				(s.conf == nil || s.conf.equal(snap.ConfState))
		})
		c, err := parseConfState(b)
		var cs raftpb.ConfState
		same("configuration", err, &cs, func() bool { return c.equal(&cs) })
		cc, err := parseConfChange(b)
		var change raftpb.ConfChange
		same("change", err, &change, func() bool {
			return uint64(change.GetType()) == cc.typ && change.GetNodeId() == cc.node && bytes.Equal(change.GetContext(), cc.context)
		})
	})
}

func (c confState) equal(o *raftpb.ConfState) bool {
	return slices.Equal(c.voters, o.GetVoters()) && slices.Equal(c.learners, o.GetLearners()) &&
		slices.Equal(c.outgoing, o.GetVotersOutgoing()) && slices.Equal(c.nextLearners, o.GetLearnersNext()) && c.autoLeave == o.GetAutoLeave()
}

// TestIDIsReadWhole: what stands behind an id makes it none.
func TestIDIsReadWhole(t *testing.T) {
	var id ID
	if err := id.UnmarshalText([]byte("8e9e05c52164694d")); err != nil || id != 0x8e9e05c52164694d {
		t.Errorf("%v, %v", id, err)
	}
	for _, bad := range []string{"", "8e9e 1", "8e9eg", "-1", "18e9e05c52164694d"} {
		if err := id.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, id)
		}
	}
}

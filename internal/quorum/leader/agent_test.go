package leader

import (
	"log/slog"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

// knowing is an agent beside member 1 of cluster 0xcafe, which has the members
// 1 and 2.
func knowing(t *testing.T) *Agent {
	t.Helper()
	a, err := New(plainSettings(), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.obs.row = Row{Member: 1, Cluster: 0xcafe}
	a.obs.peers = []etcd.Peer{{ID: 1}, {ID: 2}}
	return a
}

// Whoever hands out rows of members that do not exist must not fill the memory.
func TestAgentHearsOfMembersOnly(t *testing.T) {
	a := knowing(t)
	for id := range MemberID(5000) {
		a.hear(Row{Member: id, Cluster: 0xcafe, Boot: "x", Seq: 1})
	}
	a.hear(Row{Member: 9, Cluster: 0xcafe, Boot: "x", Seq: 1, Penalty: Penalty{Seq: 4, Value: 1}})
	a.hear(Row{Member: 2, Cluster: 0xbeef, Boot: "y", Seq: 9, Penalty: Penalty{Seq: 9, Value: 9}})
	rows := a.registry.at(a.clock())
	if len(rows) != 1 || rows[2].Boot != "x" {
		t.Errorf("%d rows kept: %+v", len(rows), rows)
	}
	if p := a.registry.newest(); p.Seq != 4 {
		t.Errorf("newest record %+v, want that of the member to come, and none of another cluster", p)
	}
}

func TestAgentKeepsRecordsOfMovesToItsMember(t *testing.T) {
	a := knowing(t)
	if a.keepRecord(Penalty{Seq: 1, Value: 1, To: 2}) || a.registry.newest().Seq != 0 {
		t.Error("kept the record of a move to another member")
	}
	if !a.keepRecord(Penalty{Seq: 1, Value: 1, To: 1}) || a.registry.newest().Seq != 1 {
		t.Error("refused the record of a move to its own member")
	}
}

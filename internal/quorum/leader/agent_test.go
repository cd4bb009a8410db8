package leader

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
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

// Revisions begin anew with a cluster: a watch from an old one is deaf until
// the new cluster has caught up with it, and the record belongs to the old.
func TestAgentListsAnewInANewCluster(t *testing.T) {
	a := knowing(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	a.followed.Store(&cancel)
	a.record.revision, a.record.term = 40, 3
	a.obs.row = a.obs.update(a.obs.row, etcd.Status{Cluster: 0xcafe, Member: 1}, nil)
	if ctx.Err() != nil || !a.record.known(3) {
		t.Error("the same cluster is taken for another")
	}
	a.obs.row = a.obs.update(a.obs.row, etcd.Status{Cluster: 0xbeef, Member: 7}, nil)
	if context.Cause(ctx) != errReborn || a.record.known(3) {
		t.Errorf("still follows the old cluster: %v", context.Cause(ctx))
	}
}

// NOSPACE at any member stops writes at all: the snapshot must say so, for
// records of moves go another way then.
func TestSnapshotSaysThatNothingIsRecorded(t *testing.T) {
	a := knowing(t)
	a.obs.row = a.obs.update(a.obs.row, etcd.Status{Cluster: 0xcafe, Member: 1, NoSpace: true}, nil)
	if !a.snapshot().Unrecorded {
		t.Error("not said")
	}
}

func TestCredentialsThatNeedAHandAreACondition(t *testing.T) {
	half := filepath.Join(t.TempDir(), "half.crt")
	if err := os.WriteFile(half, []byte("-----BEGIN CERTIFICATE-----\nMII"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := knowing(t)
	a.settings.Etcd.Peer = PeerSettings{CA: half, Cert: half, Key: half}
	a.checkFiles()
	if bad := a.cond.all(); !strings.Contains(bad[condPeerTLS], half) || bad[condClientTLS] != "" {
		t.Errorf("conditions %v", bad)
	}
	if err := checkFiles(creds.Files{}); err != nil {
		t.Errorf("no files: %v", err)
	}
}

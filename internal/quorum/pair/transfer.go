package pair

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Transfer is how much of the survivor's database has come to a member that joins.
type Transfer struct {
	Bytes int64 `json:"bytes"`
	Of    int64 `json:"of"`
}

// databaseSize asks a member for the size of its database, in bytes; 0: unknown.
func databaseSize(ctx context.Context, cli *clientv3.Client) int64 {
	r, err := etcdserverpb.NewMaintenanceClient(cli.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return 0
	}
	return r.DbSize
}

// received is how much of a database etcd has been sent so far. It writes what
// arrives to a file tmp… in its snapshot directory, and renames that at the end
// (etcdserver/api/snap, SaveDBFrom).
func received(dataDir string) int64 {
	dir := filepath.Join(dataDir, "member", "snap")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var most int64
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "tmp") && !strings.HasSuffix(e.Name(), ".snap.db") {
			continue
		}
		if info, err := e.Info(); err == nil {
			most = max(most, info.Size())
		}
	}
	return most
}

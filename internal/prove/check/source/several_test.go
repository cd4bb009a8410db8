package source

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// bundle writes one of a machine or a cluster, and returns its path.
func bundle(t *testing.T, name string, m Manifest, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, m.Collected)
	for at, text := range files {
		if err := w.File(at, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(m); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Bundles of a cluster and of its machines are one cluster: what one of them has the
// others do not take away, and what one could not read is not known.
func TestSeveralTargetsAreOneCluster(t *testing.T) {
	when := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	present, absent := Stated{State: "present"}, Stated{State: "absent"}
	cluster := bundle(t, "cluster.tgz", Manifest{Collected: when, Server: "v1.37.2", States: map[string]Stated{"nodes": present, "pods": {State: "unknown", Why: "forbidden"}, "etcd": absent}},
		map[string]string{"objects/nodes.1.ndjson": oneNode + "\n"})
	member := `{"members": [{"name": "a1", "id": "1f", "healthy": true}]}`
	states := map[string]Stated{"files/a1": present, "etcd": present, "pods": present}
	a1 := bundle(t, "a1.tgz", Manifest{Collected: when.Add(time.Hour), States: states}, map[string]string{"nodes/a1/files/etc/hosts": "x", "etcd.yaml": member})
	a2 := bundle(t, "a2.tgz", Manifest{Collected: when.Add(time.Hour), States: map[string]Stated{"files/a2": present}}, map[string]string{"nodes/a2/files/etc/hosts": "y", "etcd.yaml": member})
	for _, order := range [][]string{{cluster, a1, a2}, {a2, a1, cluster}} {
		f, err := OpenAll(order, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Nodes.Items) != 1 || len(f.Files.Items) != 2 || len(f.Etcd.Items) != 1 || f.Etcd.State != fact.Present || f.Pods.State != fact.Unknown {
			t.Errorf("%v: %d nodes, %d files, %d members %s, pods %s", order, len(f.Nodes.Items), len(f.Files.Items), len(f.Etcd.Items), f.Etcd.State, f.Pods.State)
		}
		if !f.Collected.Equal(when) || f.Server != "v1.37.2" {
			t.Errorf("%v: %s, %s", order, f.Collected, f.Server)
		}
	}
	again := bundle(t, "again.tgz", Manifest{Collected: when, States: states}, map[string]string{"nodes/a1/files/etc/hosts": "z", "nodes/a1/files/etc/hostname": "a1"})
	f, err := OpenAll([]string{a1, again}, DefaultLimits())
	if err != nil || len(f.Problems) != 1 || !strings.Contains(f.Problems[0].What, "machine a1 is in ") || string(f.Files.Items[0].Object.Data) != "x" {
		t.Errorf("%v, %+v", err, f)
	}
	if _, err := OpenAll([]string{a1, "/none"}, DefaultLimits()); err == nil {
		t.Error("a target that is not there")
	}
}

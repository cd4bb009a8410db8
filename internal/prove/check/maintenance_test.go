package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// The codes and words of the command, over a bundle that is made by hand.
func TestMaintenanceNext(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	states := "version: 1\ncollected: 2026-12-01T12:00:00Z\nstates: {nodes: {state: present}, pods: {state: absent}, services: {state: absent}, poddisruptionbudgets: {state: absent}}\n"
	node := func(name, ready string) string {
		return "apiVersion: v1\nkind: Node\nmetadata: {name: " + name + ", labels: {node-role.kubernetes.io/control-plane: ''}}\nstatus: {conditions: [{type: Ready, status: '" + ready + "'}]}\n---\n"
	}
	etcd := "members: [{name: a1, healthy: true, leader: true}, {name: b2, healthy: true}, {name: c3, healthy: true}]\n"
	ask := func(args string) (string, int) {
		t.Helper()
		out, err := command(strings.Fields("maintenance next " + args)...)
		if err != nil {
			out += err.Error()
		}
		return out, exit.Code(err)
	}
	for _, tc := range []struct {
		c3, etcd, args string
		code           int
		says           string
	}{
		{"True", etcd, dir, exit.Good, "b2 may go down now"},
		{"True", etcd, dir, exit.Good, "as of 2026-12-01T12:00:00Z"},
		{"True", etcd, "--json --done b2 " + dir, exit.Good, `"next": "c3"`},
		{"True", etcd, "--done a1,b2,c3 " + dir, exit.Failed, "c3 (control-plane): done"},
		{"Unknown", etcd, dir, exit.Failed, "all wait: node c3 is not Ready"},
		{"True", "", dir, exit.Unknown, "not known: etcd"},
		{"True", "members: 7\n", dir, exit.Unknown, "etcd.yaml"},
		{"True", etcd, "--done d4 " + dir, exit.Unknown, `--done "d4"`},
		{"True", etcd, "", exit.Unknown, "no target"},
		{"True", etcd, broken, exit.Unknown, "not known: nodes"},
	} {
		put("bundle.yaml", states)
		put("objects/nodes.yaml", node("a1", "True")+node("b2", "True")+node("c3", tc.c3))
		put("etcd.yaml", tc.etcd)
		if tc.etcd == "" {
			if err := os.Remove(filepath.Join(dir, "etcd.yaml")); err != nil {
				t.Fatal(err)
			}
		}
		if out, code := ask(tc.args); code != tc.code || !strings.Contains(out, tc.says) {
			t.Errorf("%s: code %d, want %d and %q:\n%s", tc.args, code, tc.code, tc.says, out)
		}
	}
}

package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
)

const broken, healthy = examples + "/HF-BGP-001/broken", examples + "/HF-BGP-001/healthy"

// The code and the last words of a check, by what it is given.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	report := filepath.Join(dir, "report.json")
	if _, err := command("--json", "-o", report, broken); exit.Code(err) != exit.Failed {
		t.Fatal(err)
	}
	stays := put("stays.yaml", "suppressions:\n- {rule: HF-BGP-001, object: 'nodes/*/files/etc/frr/frr.conf', reason: lab, expires: 9999-12-31}\n")
	over := put("over.yaml", "suppressions:\n- {rule: HF-BGP-001, reason: lab, expires: 2020-01-01}\n")
	for _, tc := range []struct {
		args string
		code int
		says string // in the output or the error
	}{
		{healthy, exit.Good, "0 fired"},
		{broken, exit.Failed, "20–30 s"},
		{"--fail-on error " + broken, exit.Good, "1 fired"},
		{"--baseline " + report + " " + broken, exit.Good, "known warning HF-BGP-001"},
		{"--suppressions " + stays + " " + broken, exit.Good, "suppressed HF-BGP-001"},
		{"--suppressions " + over + " " + broken, exit.Failed, "expired on 2020-01-01"},
		{"--rule HF-BGP-001 " + healthy, exit.Good, "1 rules"},
		{"--rule HF-BGP-001,HF-BGP-001 " + healthy, exit.Good, "1 rules"},
		{"--rule bgp,HF-BGP-001 " + healthy, exit.Good, "rules: 0 fired"},
		{"--rule HF-CERT-001 " + healthy, exit.Unknown, "no rule had the facts"},
		{"--rule x " + healthy, exit.Unknown, "neither a rule nor a group"},
		{"--format pdf " + healthy, exit.Unknown, "want one of"},
		{"--fail-on high " + healthy, exit.Unknown, "want note, warning or error"},
		{"--baseline /dev/null " + healthy, exit.Unknown, "/dev/null"},
		{"", exit.Unknown, "no target"},
		{"--kubeconfig x --node", exit.Unknown, "reads this machine alone"},
		{"--node " + healthy + " " + broken, exit.Unknown, "one machine has one root"},
		{"--rule HF-BGP-001 " + healthy + " " + examples + "/HF-API-007/healthy", exit.Good, "1 rules"},
		{broken + " " + healthy, exit.Unknown, "machine a1 is in "},
		{"--kubeconfig " + dir + "/none", exit.Unknown, "no such file"},
		{dir + "/none", exit.Unknown, "no such file"},
		{"--etcd-endpoints https://127.0.0.1:1 " + healthy, exit.Unknown, "TARGET is a recording"},
		{"--node --etcd-endpoints https://127.0.0.1:1 --etcd-cacert /none " + healthy + "/nodes/a1/files", exit.Unknown, "read credentials for etcd"},
		{put("bad.yaml", "a: [\n"), exit.Unknown, "bad.yaml:"},
		{"--rule clients --client " + examples + "/HF-CLI-001/broken/kubeconfigs/pipeline.yaml " + examples + "/HF-CLI-001/healthy", exit.Failed, "127.0.0.1"},
		{"--client " + dir + "/none " + healthy, exit.Unknown, "kubeconfig of a client"},
		{"--client " + stays + " " + healthy, exit.Unknown, "no cluster in it"},
		{"clients --target " + examples + "/HF-CLI-001/healthy " + examples + "/HF-CLI-001/broken/kubeconfigs/pipeline.yaml", exit.Failed, "127.0.0.1"},
		{"clients --target " + examples + "/HF-CLI-001/healthy " + examples + "/HF-CLI-006/broken/.gitlab-ci.yml", exit.Failed, ".gitlab-ci.yml:5"},
		{"clients " + stays, exit.Unknown, "no cluster; give --kubeconfig or --target"},
		{"collect", exit.Unknown, "-o: missing"},
		{"collect -o " + dir + "/x.tgz", exit.Unknown, "nothing to read"},
		{"path nonsense", exit.Unknown, "want https://HOST:PORT"},
		{"path 127.0.0.1:1", exit.Failed, "no apiserver listens there"},
		{"path --json https://127.0.0.1:1", exit.Failed, `"outcome": "refused"`},
	} {
		out, err := command(strings.Fields(tc.args)...)
		said := out
		if err != nil {
			said += "\n" + err.Error()
		}
		if exit.Code(err) != tc.code || !strings.Contains(said, tc.says) {
			t.Errorf("check %s: code %d, want %d and %q:\n%s", tc.args, exit.Code(err), tc.code, tc.says, said)
		}
	}
}

// A machine's settings go into a bundle, and the bundle says what the machine does.
func TestCollectNode(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "node.tgz")
	root := broken + "/nodes/a1/files"
	if _, err := command("collect", "--node", "--root", root, "-o", bundle); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--json", bundle}, {"--json", "--node", root}} {
		out, err := command(args...)
		if exit.Code(err) != exit.Failed {
			t.Fatal(err)
		}
		var r audit.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Findings) != 1 || r.Findings[0].Rule != "HF-BGP-001" || r.Findings[0].Location.File != "nodes/node/files/etc/frr/frr.conf" {
			t.Errorf("%v: %+v", args, r.Findings)
		}
	}
}

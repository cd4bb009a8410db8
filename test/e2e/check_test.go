package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// TestCheck audits a real cluster with the rights of the role that is shipped: all
// that rules ask for is known, within 5 s; a bundle says the same; and with fewer
// rights that is said and the code is 2.
func TestCheck(t *testing.T) {
	nightly(t)
	z := startZoned(t, "lease")
	role, err := os.ReadFile("../../deploy/check-role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	z.grant(string(role))
	account := z.accountOf("holdfast-check")

	began := time.Now()
	live, code := z.audit("--kubeconfig", account)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a live check took %s, want 5 s at most", took)
	}
	if code == 2 {
		t.Fatalf("could not tell: %v", live.Problems)
	}
	for _, f := range live.Source.Facts {
		fromElsewhere := slices.Contains([]fact.Kind{fact.Files, fact.Etcd, fact.Kubeconfigs}, f.Kind)
		if (f.State == fact.Unknown.String()) != fromElsewhere {
			t.Errorf("%s: %s (%s)", f.Kind, f.State, f.Why)
		}
	}
	if live.Source.Server == "" {
		t.Error("the server's version is not known")
	}

	bundle := filepath.Join(t.TempDir(), "bundle.tgz")
	if said, err := z.holdfast("a", "check", "collect", "--kubeconfig", account, "-o", bundle); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	kept, bundled := z.audit(bundle)
	if bundled != code || outcomes(kept) != outcomes(live) {
		t.Errorf("a bundle says\n%s, the cluster\n%s", outcomes(kept), outcomes(live))
	}

	few, code := z.audit("--kubeconfig", z.kubeconfig) // the rights of another agent
	if code != 2 || !slices.ContainsFunc(few.Problems, func(p fact.Problem) bool { return strings.Contains(p.What, "deploy/check-role.yaml") }) {
		t.Errorf("with fewer rights: code %d, problems %v", code, few.Problems)
	}
	for _, site := range sites {
		if said, err := z.holdfast("a", "check", "path", z.apiserver(site).URL(), "--ca", z.apiserver(site).PKI().CA); err != nil || !strings.Contains(said, ": ok (200)") {
			t.Errorf("%v: %s", err, said)
		}
	}
}

// audit runs a check on the node of a, and returns its report and code.
func (z *zoned) audit(args ...string) (*audit.Report, int) {
	z.t.Helper()
	file := filepath.Join(z.t.TempDir(), "report.json")
	said, err := z.holdfast("a", append([]string{"check", "--json", "-o", file}, args...)...)
	data, readErr := os.ReadFile(file)
	if readErr != nil {
		z.t.Fatalf("%v: %s", err, said)
	}
	var r audit.Report
	if err := json.Unmarshal(data, &r); err != nil {
		z.t.Fatal(err)
	}
	return &r, code(err)
}

// outcomes are those of all rules, one a line.
func outcomes(r *audit.Report) string {
	var all []string
	for _, one := range r.Rules {
		all = append(all, one.ID+" "+string(one.Outcome))
	}
	return strings.Join(all, "\n")
}

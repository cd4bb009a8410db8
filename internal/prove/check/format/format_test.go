package format

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample is an audit with everything that a report can have: findings of each
// severity, with and without an object, suppressed and known ones, expired and
// unused suppressions, rules of each outcome, problems, and names that are hostile.
func sample() *audit.Report {
	facts := &fact.Facts{
		Origin: "the directory cluster", Root: "cluster", Server: "v1.37.2",
		Collected: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC),
	}
	facts.Note("objects/pods.ndjson:17", "read object: not a JSON object")
	facts.Declare("nodes", fact.Known{State: fact.Absent})
	lb := fact.Location{File: "nodes/lb 1/files/etc/haproxy/haproxy.cfg", Line: 9, Node: "lb 1"}
	evil := fact.Location{File: "x.yaml", Line: 3, Object: fact.Reference{APIVersion: "v1", Kind: "Service", Namespace: "a", Name: "\x1b[31m|<b>`]]>\u202e"}}
	pod := fact.Location{File: "pods.yaml", Line: 2, Object: fact.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "kube-system", Name: "etcd-a1"}}
	other := pod
	other.Object.Name = "kube-scheduler-a1"
	finds := func(all ...rule.Finding) func(*fact.Facts) ([]rule.Finding, error) {
		return func(*fact.Facts) ([]rule.Finding, error) { return all, nil }
	}
	base := rule.Rule{Needs: []fact.Kind{fact.Nodes}, Why: "It breaks.", Remedy: "mend it", Drill: "site-loss"}
	named := func(id string, g rule.Group, s rule.Severity, title string, check func(*fact.Facts) ([]rule.Finding, error)) rule.Rule {
		r := base
		r.ID, r.Group, r.Severity, r.Title, r.Check = id, g, s, title, check
		return r
	}
	all := []rule.Rule{
		named("HF-BAL-901", rule.Balancer, rule.Error, "A balancer's fault", finds(
			rule.Finding{At: lb, What: "backend api checks nothing", Effect: rule.Unending("a hang", "1 of 3 requests fails"), Remedy: "option httpchk\n  server a"},
			rule.Finding{At: evil, What: "a name that is <hostile>", Effect: rule.Lasts("losing b", "it fails", scenario.EndpointLease())},
		)),
		named("HF-ETCD-901", rule.Etcd, rule.Warning, "A member's fault", finds(
			rule.Finding{At: pod, What: "suppressed"}, rule.Finding{At: other, Key: "2", What: "known"}, rule.Finding{At: other, Key: "3", What: "new"})),
		named("HF-VIP-901", rule.VIP, rule.Note, "Worth knowing", finds(rule.Finding{At: pod, What: "noted"})),
		named("HF-BGP-901", rule.BGP, rule.Note, "Passes", finds()),
		named("HF-TIME-901", rule.Timers, rule.Note, "Lacks", func(*fact.Facts) ([]rule.Finding, error) { return nil, fact.Lacking("no version") }),
		named("HF-CLI-901", rule.Clients, rule.Note, "Nothing to judge", func(*fact.Facts) ([]rule.Finding, error) { return nil, fact.NotApplicable("one node") }),
	}
	known := audit.Evaluate(all, facts, audit.Options{}).Findings[3].Fingerprint
	return audit.Evaluate(all, facts, audit.Options{
		FailOn: rule.Warning, Now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Baseline: map[string]bool{known: true},
		Suppressions: []audit.Suppression{
			{Rule: "HF-ETCD-901", Object: "kube-system/Pod/etcd-*", Reason: "moved in December", Expires: "2026-12-31"},
			{Rule: "HF-BAL-901", Reason: "was to be mended", Expires: "2026-11-29"},
			{Rule: "HF-API-901", Reason: "gone", Expires: "2026-12-31"},
		},
	})
}

func TestFormats(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			write, err := For(name)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := write(&b, sample()); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.Bytes())
			if name != "json" && bytes.ContainsRune(b.Bytes(), 0x1b) {
				t.Error("an escape sequence came through")
			}
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "report."+name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; compare with -update:\n%s", file, got)
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	if _, err := For("pdf"); err == nil || !strings.Contains(err.Error(), "sarif") {
		t.Errorf("%v: does not name those there are", err)
	}
}

func validate(t *testing.T, schema string, data []byte) error {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(schema)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// The golden files are valid by the schemas, and the schemas see a fault.
func TestSchemas(t *testing.T) {
	for name, schema := range map[string]string{
		"sarif": "testdata/sarif/sarif-schema-2.1.0.json", "json": "../../../../docs/reference/check.schema.json",
	} {
		data, err := os.ReadFile(filepath.Join("testdata", "report."+name))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, schema, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		broken := bytes.Replace(data, []byte(`"version": `), []byte(`"versions": `), 1)
		if validate(t, schema, broken) == nil {
			t.Errorf("%s: the schema accepts a report without a version", name)
		}
	}
}

// A pipeline reads what failed, was left out and could not be read.
func TestJUnitCounts(t *testing.T) {
	data, err := os.ReadFile("testdata/report.junit")
	if err != nil {
		t.Fatal(err)
	}
	var s junitSuites
	if err := xml.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if s.Tests != 7 || s.Failures != 3 || s.Errors != 1 || s.Skipped != 2 {
		t.Errorf("%d tests, %d failures, %d errors, %d skipped; want 7, 3, 1, 2", s.Tests, s.Failures, s.Errors, s.Skipped)
	}
}

// A report that --baseline reads again knows all its findings.
func TestReportIsItsOwnBaseline(t *testing.T) {
	data, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	known, err := audit.ReadBaseline(data, "x")
	if err != nil || len(known) != 6 {
		t.Errorf("%d known, %v; want 6", len(known), err)
	}
}

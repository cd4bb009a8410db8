package check

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

const examples = "testdata/rules"

// now is the time of all examples.
var now = demoTime

func TestRulesAreWhole(t *testing.T) {
	drills := scenario.Names()
	ids := map[string]bool{}
	for _, r := range rules.All() {
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
		if ids[r.ID] {
			t.Errorf("%s: given twice", r.ID)
		}
		ids[r.ID] = true
		if !slices.Contains(drills, r.Drill) {
			t.Errorf("%s: drill %q: no such scenario; choose one of %v", r.ID, r.Drill, drills)
		}
	}
}

// Each rule fires on its broken example and is evaluated, and silent, on the
// healthy twin. No other rule breaks on either, nor fires on any healthy twin.
func TestEveryRuleHasExamples(t *testing.T) {
	for _, r := range rules.All() {
		for _, twin := range []string{"broken", "healthy"} {
			t.Run(r.ID+"/"+twin, func(t *testing.T) { example(t, r, twin) })
		}
	}
	dirs, err := os.ReadDir(examples)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if !slices.ContainsFunc(rules.All(), func(r rule.Rule) bool { return r.ID == d.Name() }) {
			t.Errorf("%s/%s: an example of no rule", examples, d.Name())
		}
	}
}

func example(t *testing.T, r rule.Rule, twin string) {
	dir := filepath.Join(examples, r.ID, twin)
	facts, err := source.Open(dir, source.DefaultLimits())
	if err != nil {
		t.Fatalf("%v; every rule has a broken and a healthy example", err)
	}
	report := audit.Evaluate(rules.All(), facts, audit.Options{Now: now})
	for _, p := range report.Problems {
		t.Errorf("%s: %s: %s", dir, p.Where, p.What)
	}
	i := slices.IndexFunc(report.Rules, func(x audit.RuleResult) bool { return x.ID == r.ID })
	want := audit.Passed
	if twin == "broken" {
		want = audit.Fired
	}
	if got := report.Rules[i]; got.Outcome != want {
		t.Errorf("%s: %s %s, want %s", dir, got.Outcome, got.Reason, want)
	}
	for _, f := range report.Findings {
		switch {
		case f.Rule == r.ID:
			located(t, dir, f)
		case twin == "healthy":
			t.Errorf("%s: %s fires on what is in order: %s: %s", dir, f.Rule, f.Location, f.What)
		}
	}
}

// Clusters as the documents of kubeadm, Kubespray and k3s set them up have no error.
func TestSaneClustersHaveNoError(t *testing.T) {
	dirs, err := filepath.Glob("testdata/sane/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%v, %v", dirs, err)
	}
	for _, dir := range dirs {
		facts, err := source.Open(dir, source.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		report := audit.Evaluate(rules.All(), facts, audit.Options{Now: now})
		if report.Summary.Passed < 5 {
			t.Errorf("%s: only %d rules could be evaluated", dir, report.Summary.Passed)
		}
		for _, f := range report.Findings {
			if f.Severity == rule.Error.String() {
				t.Errorf("%s: %s: %s: %s", dir, f.Rule, f.Location, f.What)
			}
		}
	}
}

// located checks that a finding can be shown: its file is there and has its line.
func located(t *testing.T, dir string, f audit.Finding) {
	t.Logf("%s: %s; %+v", f.Location, f.What, f.Effect)
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Location.File)))
	if err != nil {
		t.Errorf("%s: %v", f.Rule, err)
		return
	}
	lines := 1
	for _, b := range data {
		if b == '\n' {
			lines++
		}
	}
	if f.Location.Line < 1 || f.Location.Line > lines {
		t.Errorf("%s: line %d of %s, which has %d", f.Rule, f.Location.Line, f.Location.File, lines)
	}
	if f.Effect == nil || f.What == "" || f.Remedy == "" {
		t.Errorf("%s: no effect, or nothing said, or nothing to paste: %+v", f.Rule, f)
	}
}

package check

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules"
	"github.com/holdfast-ha/holdfast/internal/prove/check/seed"
)

// The program itself shows that every rule finds its mistake and nothing else.
func TestLabDemo(t *testing.T) {
	out, err := command("--lab-demo", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var d demo
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	n := len(rules.All())
	if len(d.Rules) != n || len(d.Broken.Fired) != n || len(d.Healthy.Silent) != n || len(d.Healthy.Fired) != 0 {
		t.Errorf("%d rules: %d fired, %d silent, %d cried: %v", n, len(d.Broken.Fired), len(d.Healthy.Silent), len(d.Healthy.Fired), d.Healthy)
	}
	for _, r := range d.Rules {
		if r.Effect == "" || r.Title == "" || r.Drill == "" {
			t.Errorf("%+v", r)
		}
	}
	if out, err = command("--lab-demo"); err != nil || !strings.Contains(out, "broken: fires") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A rule that misses its mistake, or cries, makes the demonstration fail.
func TestLabDemoFails(t *testing.T) {
	whole := demo{Rules: make([]demoRule, 2), Broken: demoTwins{Fired: []string{"a", "b"}}, Healthy: demoTwins{Silent: []string{"a", "b"}}}
	if err := whole.verdict(); err != nil {
		t.Error(err)
	}
	missed, cried, blind := whole, whole, whole
	missed.Broken.Fired = []string{"a"}
	cried.Healthy.Fired = []string{"b"}
	blind.Healthy.Silent = []string{"a"}
	for _, d := range []demo{missed, cried, blind} {
		if err := d.verdict(); exit.Code(err) != exit.Failed {
			t.Errorf("%+v: %v", d, err)
		}
	}
	for _, args := range []string{"--lab-demo .", "--lab-demo --node", "--lab-demo --format sarif", "--live", "--lab-demo --rule x"} {
		if _, err := command(strings.Fields(args)...); exit.Code(err) != exit.Unknown {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// On live clusters what is otherwise than it should be is said, whichever rule it is of.
func TestLiveDemoIsJudged(t *testing.T) {
	report := func(outcome audit.Outcome, fired ...string) seed.Result {
		r := seed.Result{Report: audit.Report{Rules: []audit.RuleResult{{ID: "a", Outcome: outcome}}}}
		for _, id := range fired {
			r.Findings = append(r.Findings, audit.Finding{Rule: id, What: "it is so"})
		}
		return r
	}
	for _, tc := range []struct {
		twin   string
		result seed.Result
		err    error
		wrong  string
	}{
		{"broken", report(audit.Fired, "a", "b"), nil, ""},
		{"broken", report(audit.Passed), nil, "a/broken: passed"},
		{"broken", seed.Result{}, errors.New("no such program"), "a/broken: no such program"},
		{"healthy", report(audit.Passed), nil, ""},
		{"healthy", report(audit.NotEvaluated), nil, "a/healthy: not-evaluated"},
		{"healthy", report(audit.Passed, "b"), nil, "a/healthy: b fires"},
		{"healthy", seed.Result{Report: audit.Report{Problems: []fact.Problem{{Where: "x", What: "forbidden"}}}}, nil, "a/healthy: x: forbidden"},
	} {
		d := demo{Broken: newTwins(), Healthy: newTwins()}
		d.judge(&demoRule{ID: "a"}, tc.twin, tc.result, tc.err)
		if got := strings.Join(d.Wrong, "\n"); (tc.wrong == "") != (got == "") || !strings.HasPrefix(got, tc.wrong) {
			t.Errorf("%s %v: %q, want %q", tc.twin, tc.result.Rules, got, tc.wrong)
		}
	}
}

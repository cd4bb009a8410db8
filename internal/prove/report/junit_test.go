package report

import (
	"encoding/xml"
	"strings"
	"testing"
)

func parseJUnit(t *testing.T, r *Report) junitSuites {
	t.Helper()
	var all junitSuites
	if err := xml.Unmarshal([]byte(render(t, r, FormatJUnit)), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestInconclusiveIsNotGreen: CI counts skipped cases as good, so the suite of a
// run that proved nothing must hold an error.
func TestInconclusiveIsNotGreen(t *testing.T) {
	all := parseJUnit(t, demo())
	last := all.Suites[len(all.Suites)-1]
	if last.Errors != 1 || last.Failures != 0 || last.Skipped != last.Tests-1 {
		t.Errorf("inconclusive suite: %d errors, %d failures, %d skipped of %d", last.Errors, last.Failures, last.Skipped, last.Tests)
	}
	if all.Errors != 1 {
		t.Errorf("%d errors in all, want 1", all.Errors)
	}
}

// TestFailureIsNeverGreen: a verdict of fail shows even when every path passed,
// as with too many moves.
func TestFailureIsNeverGreen(t *testing.T) {
	r := demo()
	r.Variants = nil
	r.Verdict, r.Reasons = Fail, []string{"3 leadership moves, at most 1 allowed"}
	all := parseJUnit(t, r)
	if all.Failures != 1 || all.Suites[0].Cases[1].Failure.Message != r.Reasons[0] {
		t.Errorf("failures: %d, case %+v", all.Failures, all.Suites[0].Cases[1])
	}
}

func TestFailureTellsMeasuredExpectedAndError(t *testing.T) {
	r := demo()
	for i := range r.With.Paths {
		if p := &r.With.Paths[i]; p.Name == "b/etcd/put/new" {
			p.Verdict, p.Reason = Fail, "too slow"
		}
	}
	for _, c := range parseJUnit(t, r).Suites[0].Cases {
		if c.Failure == nil {
			continue
		}
		for _, want := range []string{"measured: 3.1–3.3 s", "expected: ≤ 6 s", "first error: context deadline exceeded"} {
			if !strings.Contains(c.Failure.Text, want) {
				t.Errorf("failure lacks %q:\n%s", want, c.Failure.Text)
			}
		}
		if c.Name != "b/etcd/put/new: answers again within its window" {
			t.Errorf("case is called %q", c.Name)
		}
		return
	}
	t.Error("no failure")
}

package e2e

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	stdslices "slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules"
	"github.com/holdfast-ha/holdfast/internal/prove/check/seed"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// examples are recorded clusters with the mistake of each rule, and in order.
const examples = "../../internal/prove/check/testdata/rules"

// TestCheckSeeded makes the mistake of each rule on a running cluster, and its healthy
// twin, and audits both with the rights of the role that is shipped: the rule fires on
// the one and is silent on the other, and no rule fires on a healthy one.
func TestCheckSeeded(t *testing.T) {
	nightly(t)
	l := startSeeds(t)
	var table []string
	t.Cleanup(func() { t.Logf("how each was seeded:\n%s", strings.Join(table, "\n")) })
	for _, group := range rule.Groups() {
		t.Run(string(group), func(t *testing.T) {
			for _, r := range rules.All() {
				if r.Group != group {
					continue
				}
				for _, twin := range []string{"broken", "healthy"} {
					t.Run(r.ID+"/"+twin, func(t *testing.T) {
						table = append(table, seeded(t, l, r, twin))
					})
				}
			}
		})
	}
}

func startSeeds(t *testing.T) *seed.Lab {
	t.Helper()
	if err := lab.Preflight(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this suite must not be skipped in CI: %v", err)
		}
		t.Skip(err)
	}
	role, err := os.ReadFile("../../deploy/check-role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := seed.Start(t.Context(), seed.Options{Program: []string{self}, Env: []string{asAgent + "=1"}, Role: string(role), Dir: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close lab: %v", err)
		}
	})
	return l
}

// seeded makes one twin and judges its audit; the line it returns says how it was made.
func seeded(t *testing.T, l *seed.Lab, r rule.Rule, twin string) string {
	files, err := fs.Sub(os.DirFS(examples), r.ID+"/"+twin)
	if err != nil {
		t.Fatal(err)
	}
	s, err := seed.Read(files, r.ID, twin, time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if s.Unmade != "" {
		return fmt.Sprintf("%-12s %-8s not made: %s", r.ID, twin, s.Unmade)
	}
	began := time.Now()
	result, err := l.Audit(t.Context(), s)
	line := fmt.Sprintf("%-12s %-8s %-40s %4d ms", r.ID, twin, fmt.Sprint(s.Means()), time.Since(began).Milliseconds())
	if err != nil {
		t.Error(err)
		return line + " " + err.Error()
	}
	if result.Code == 2 {
		t.Errorf("could not tell: %v", result.Problems)
	}
	want := audit.Passed
	if twin == "broken" {
		want = audit.Fired
	}
	i := stdslices.IndexFunc(result.Rules, func(x audit.RuleResult) bool { return x.ID == r.ID })
	if got := result.Rules[i]; got.Outcome != want {
		t.Errorf("%s %s, want %s", got.Outcome, got.Reason, want)
	}
	for _, f := range result.Findings {
		if twin == "healthy" {
			t.Errorf("%s fires on what is in order: %s: %s", f.Rule, f.Location, f.What)
		}
	}
	return line + " " + string(result.Rules[i].Outcome)
}

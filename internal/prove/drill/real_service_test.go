package drill

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// starvedOnly says whether a busy machine alone kept a drill from proving anything.
func starvedOnly(r *report.Report) bool {
	return r.Verdict == report.Inconclusive && !slices.ContainsFunc(r.Reasons, func(reason string) bool {
		return !strings.Contains(reason, "too busy") && !strings.Contains(reason, "starved")
	})
}

// A real pod that accepts and hangs: a readiness probe that connects keeps it, one
// that asks has it out in its window, and clients of its zone fall back.
func TestRealService(t *testing.T) {
	if os.Getenv("HOLDFAST_E2E_ADDRESS") == "" {
		t.Skip("takes six minutes; set HOLDFAST_E2E_ADDRESS=1")
	}
	needLab(t)
	for _, name := range []string{"zone-last-endpoint", "accept-and-hang"} {
		t.Run(name, func(t *testing.T) {
			s, err := scenario.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Scenario: s, Variants: []string{"main"}, Out: filepath.Join(t.TempDir(), "out"), Tries: 2, Progress: io.Discard}
			if err := o.preflight(); err != nil {
				needed(t, err)
			}
			r, err := Run(t.Context(), o, slog.New(slog.NewTextHandler(t.Output(), nil)))
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != report.Pass && !starvedOnly(r) {
				t.Errorf("verdict %s, reasons %q; want a pass", r.Verdict, r.Reasons)
			}
		})
	}
}

package drill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

func TestCompareReadsTwoDirectories(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	for i, ms := range []float64{3000, 5000} {
		run := &report.Run{Agents: true, Verdict: report.Pass, Paths: []report.Path{{
			Name: "b/put/new", Site: "b", Role: "affected", Verdict: report.Pass,
			Outages: []report.Outage{{ToMS: ms, LowerMS: ms - 200, UpperMS: ms}},
		}}}
		r := &report.Report{Version: report.Version, Scenario: "flap", Verdict: report.Pass, With: run, Paths: run.Paths, Numbers: map[string]float64{}}
		if err := (report.Directory{Path: dirs[i]}).Write(r); err != nil {
			t.Fatal(err)
		}
	}
	page := filepath.Join(t.TempDir(), "compare.html")
	out, err := drill("compare", dirs[0], dirs[1], "--html", page)
	if err != nil || !strings.Contains(out, "longer by 1.8–2.2 s") {
		t.Errorf("%v\n%s", err, out)
	}
	if data, err := os.ReadFile(page); err != nil || !strings.Contains(string(data), "longer by 1.8–2.2 s") {
		t.Errorf("page: %v", err)
	}
}

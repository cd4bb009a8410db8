package drill

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// testdata/small is the record of a real drill on etcd 3.7.3 (10 s hold, two
// kinds of path per site). Judging it again must give the report of that day.
func TestSavedDrillIsJudgedAlike(t *testing.T) {
	r, err := Judge(filepath.Join("testdata", "small"))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := report.Encode(&got, r); err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("small", report.ReportFile), got.Bytes())
	if r.Verdict != report.Pass || r.Without.Recovered || !r.With.Recovered || r.With.Moves != 1 {
		t.Errorf("verdict %s, without recovered %v, with recovered %v after %d moves", r.Verdict, r.Without.Recovered, r.With.Recovered, r.With.Moves)
	}
}

// The command prints the same, in the version that dashboards read.
func TestJudgePrintsTheReport(t *testing.T) {
	out, err := drill("judge", "--json", "--read-only", filepath.Join("testdata", "small"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Version int    `json:"version"`
		Verdict string `json:"verdict"`
		With    struct {
			RecoveryMS float64 `json:"recovery_ms"`
			Moves      int     `json:"moves"`
		} `json:"with"`
		Without struct {
			Recovered  *bool    `json:"recovered"`
			RecoveryMS *float64 `json:"recovery_ms"`
		} `json:"without"`
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Version != 1 || doc.Verdict != "pass" || doc.With.RecoveryMS < 1000 || doc.With.Moves != 1 ||
		doc.Without.Recovered == nil || *doc.Without.Recovered || doc.Without.RecoveryMS != nil {
		t.Errorf("the contract of --json is broken: %+v", doc)
	}
}

func TestJudgeWritesTheReport(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "small"))); err != nil {
		t.Fatal(err)
	}
	if _, err := drill("judge", dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{report.HTMLFile, report.TimelineFile, report.JUnitFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	out, err := drill("report", "--format", "md", dir)
	if err != nil || len(out) == 0 {
		t.Errorf("report: %q, %v", out, err)
	}
}

package drill

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/address/vip"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// TestMain lets the test binary stand in for holdfast: the engine starts its
// own program as prober and as agent.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"probe", "vip", "drill"}, os.Args[1]) {
		root := &cobra.Command{Use: "holdfast"}
		root.AddCommand(probe.Command(), vip.Command(), Command())
		os.Exit(exit.Run(context.Background(), root))
	}
	os.Exit(m.Run())
}

// needLab skips a test that this machine cannot run; in CI it fails instead.
func needLab(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a lab takes half a minute")
	}
	if err := lab.Preflight(); err != nil {
		needed(t, err)
	}
}

// needed skips a test for what this machine lacks; in CI it fails instead.
func needed(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI runs every lab test: %v", err)
	}
	t.Skip(err)
}

const realScenario = `version: 1
name: real
title: The a–b link is cut and agent-less etcd stays split
lab: {preset: lan}
agents: none
phases: {baseline: 2s, hold: 6s, settle: 1s}
faults:
  - name: a-b
    cuts: [{from: a, to: b}]
  - name: witness
    at: 2s
    pause: [main/c]
    for: 500ms
paths:
  - {sites: [a, b], kinds: [put, serializable], modes: [new], interval: 200ms}
expect:
  - {role: affected, sites: [b], kinds: [put], window: never, without: never}
  - {role: clean, gap: 2s}
variants:
  - name: main
    leaders: {main: a}
`

// Real etcd, real cuts and real probers: the split shows on b's writes alone,
// the report says so, and nothing is left.
func TestRealDrill(t *testing.T) {
	needLab(t)
	s, err := scenario.Parse("real.yaml", []byte(realScenario))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	o := Options{Scenario: s, Without: true, Out: out, Tries: 2, Progress: io.Discard}
	r, err := Run(t.Context(), o, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if r.Without == nil || r.Without.Recovered {
		t.Fatalf("verdict %s, reasons %q; want a run in which b never recovers", r.Verdict, r.Reasons)
	}
	// What is tested is the engine. That a busy machine proves nothing is its
	// right answer, and no other reason is.
	if r.Verdict != report.Pass && !tooBusy(r) {
		t.Errorf("verdict %s, reasons %q; want a pass", r.Verdict, r.Reasons)
	}
	for _, p := range r.Paths {
		if p.Name == "b/main/put/new" && p.Failed < 10 {
			t.Errorf("path %s: only %d of %d samples failed", p.Name, p.Failed, p.Samples)
		}
		if strings.HasPrefix(p.Name, "a/main/serializable") && r.Verdict == report.Pass && p.Failed > 0 {
			t.Errorf("path %s: %d of %d samples failed", p.Name, p.Failed, p.Samples)
		}
	}
	if !slices.ContainsFunc(r.Without.Events, func(e report.Event) bool {
		return e.Kind == record.KindNoLeader && e.Keys["member"] == "b1"
	}) {
		t.Errorf("no event says that b1 lost its leader: %+v", r.Without.Events)
	}
	dir := filepath.Join(out, runsDir, "main-without")
	if _, err := os.Stat(filepath.Join(dir, "lab")); !os.IsNotExist(err) {
		t.Errorf("the lab's directory with its keys is left: %v", err)
	}
	journal, err := os.ReadFile(filepath.Join(dir, record.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"inject a-b: cut a-b", "inject witness: pause main/c", "undo witness", "undo a-b", "nft -f -"} {
		if !strings.Contains(string(journal), want) {
			t.Errorf("the journal does not say %q", want)
		}
	}
}

// An interrupt while the fault is in force heals, closes the lab and leaves a
// record that says why it proves nothing.
func TestInterruptedDrill(t *testing.T) {
	needLab(t)
	s, err := scenario.Parse("real.yaml", []byte(realScenario))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := filepath.Join(t.TempDir(), "out")
	o := Options{Scenario: s, Without: true, Out: out, Progress: &trigger{word: ": hold", pull: cancel}}
	if _, err := Run(ctx, o, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("an interrupted drill returned no error")
	}
	rec, err := record.Load(filepath.Join(out, runsDir, "main-without"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(rec.Run.Trouble, "interrupted while the fault was in force") || rec.Run.Healed.IsZero() {
		t.Errorf("trouble %q, healed %s", rec.Run.Trouble, rec.Run.Healed)
	}
}

// trigger calls pull when the text written to it contains word.
type trigger struct {
	word string
	pull func()
}

func (t *trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), t.word) {
		t.pull()
	}
	return len(p), nil
}

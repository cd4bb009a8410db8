package drill

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

const realAPI = `version: 1
name: real-api
title: The apiserver of b loses its etcd, then that of a freezes for a moment
lab: {preset: lan}
apiservers: true
etcdCheck: 500ms
agents: none
phases: {baseline: 2s, hold: 10s, settle: 2s}
faults:
  - name: storage
    unready: [apiserver/b]
  - name: freeze
    at: 5s
    pause: [apiserver/a]
    for: 500ms
paths:
  - {sites: [a, b], kinds: [api-get, api-put, api-watch], modes: [new], interval: 300ms}
expect:
  - {role: affected, sites: [b], window: never, without: never}
  - {role: clean, gap: 3s}
variants:
  - name: main
    leaders: {main: a}
`

// Real apiservers, asked as kubelets ask: b's clients fail for as long as its
// apiserver has no etcd, and a's hardly notice the freeze.
func TestRealAPIServers(t *testing.T) {
	needLab(t)
	if _, err := lab.FindAPIServer(); err != nil {
		needed(t, err)
	}
	s, err := scenario.Parse("real-api.yaml", []byte(realAPI))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	o := Options{Scenario: s, Without: true, Out: out, Tries: 2, Progress: io.Discard}
	r, err := Run(t.Context(), o, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != report.Pass && !tooBusy(r) {
		t.Errorf("verdict %s, reasons %q; want a pass", r.Verdict, r.Reasons)
	}
	for _, kind := range []string{record.KindUnready, record.KindReady} {
		if !slices.ContainsFunc(r.Without.Events, func(e report.Event) bool {
			return e.Kind == kind && e.Keys["apiserver"] == "b1" && e.AtMS > 0
		}) {
			t.Errorf("no event %s of b1: %+v", kind, r.Without.Events)
		}
	}
	for _, p := range r.Paths {
		if p.Site == "b" && p.Role == scenario.RoleAffected && p.Failed < 10 {
			t.Errorf("path %s: only %d of %d samples failed", p.Name, p.Failed, p.Samples)
		}
	}
	journal, err := os.ReadFile(filepath.Join(out, runsDir, "main-without", record.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"inject storage: take the etcd member from apiserver/b", "detach apiserver b1", "undo freeze", "attach apiserver b1"} {
		if !strings.Contains(string(journal), want) {
			t.Errorf("the journal does not say %q", want)
		}
	}
}

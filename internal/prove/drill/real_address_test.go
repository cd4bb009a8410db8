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
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

const realAddress = `version: 1
name: real-address
title: The agent that holds the address is killed, then the machine of the next one is switched off
lab: {preset: lan, sites: [{name: a, nodes: 3}, {name: b}]}
agents: vip
vip: {nodes: [a2, a3], moves: {min: 2, max: 2}}
phases: {baseline: 2s, hold: 9s, settle: 3s}
faults:
  - name: killed
    kill: [agent:vip/a2]
    for: 3s
  - name: power
    at: 5s
    off: [a3]
paths:
  - {targets: [address], kinds: [udp], interval: 20ms, timeout: 200ms}
  - {targets: [address], kinds: [echo], interval: 100ms, timeout: 500ms}
expect:
  - {role: clean, gap: 3s}
variants:
  - name: main
    leaders: {main: a}
`

// The real agents on real machines: the observer on the link sees who answers, and
// what comes back after a loss of power has forgotten the address. There are two
// machines, so that each fault leaves one to take over and no race decides which.
func TestRealAddress(t *testing.T) {
	needLab(t)
	s, err := scenario.Parse("real-address.yaml", []byte(realAddress))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	o := Options{Scenario: s, With: true, Out: out, Tries: 2, Progress: io.Discard}
	r, err := Run(t.Context(), o, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if tooBusy(r) {
		t.Skipf("the machine was too busy: %q", r.Reasons)
	}
	if r.Verdict != report.Pass || r.Numbers["with_moves"] != 2 || r.Numbers["with_stale_neighbours"] != 0 {
		t.Errorf("verdict %s, reasons %q, numbers %v; want a pass with two moves", r.Verdict, r.Reasons, r.Numbers)
	}
	saw := func(kind, node string) bool {
		return slices.ContainsFunc(r.With.Events, func(e report.Event) bool { return e.Kind == kind && e.Keys["node"] == node && e.AtMS > 0 })
	}
	for _, node := range []string{"a2", "a3"} {
		if !saw(record.KindCeased, node) || !saw(record.KindAddressOff, node) {
			t.Errorf("nothing says that the address left %s", node)
		}
	}
	if !saw(record.KindAnswering, "a2") {
		t.Error("nothing says that a2 answered in the end")
	}
	journal, err := os.ReadFile(filepath.Join(out, runsDir, "main-with", record.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"inject killed: kill agent:vip/a2", "inject power: power off a3", "node a3: foreign addresses", "undo power"} {
		if !strings.Contains(string(journal), want) {
			t.Errorf("the journal does not say %q", want)
		}
	}
}

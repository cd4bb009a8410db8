package drill

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

const realAnycast = `version: 1
name: real-anycast
title: One of two machines that announce an address loses its agent
lab: {preset: lan, sites: [{name: a, nodes: 3}]}
agents: vip
vip: {nodes: [a2, a3], mode: anycast, bgp: {withdrawn: bgp-closed}}
phases: {baseline: 2s, hold: 6s, settle: 2s}
faults:
  - name: killed
    kill: [agent:vip/a2]
    for: 2s
paths:
  - {targets: [address], kinds: [udp], interval: 50ms, timeout: 200ms}
expect:
  - {role: clean, gap: 2s, without: any}
variants:
  - name: main
    leaders: {main: a}
`

// Real agents and FRR announce to a real router, and a prober in it sees next hops
// go and come in either run.
func TestRealAnycast(t *testing.T) {
	if os.Getenv("HOLDFAST_E2E_ADDRESS") == "" {
		t.Skip("HOLDFAST_E2E_ADDRESS=1 runs it")
	}
	needLab(t)
	if err := frr.Preflight(); err != nil {
		needed(t, err)
	}
	s, err := scenario.Parse("real-anycast.yaml", []byte(realAnycast))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Scenario: s, Out: filepath.Join(t.TempDir(), "out"), Tries: 2, Progress: io.Discard}
	r, err := Run(t.Context(), o, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if tooBusy(r) {
		t.Skipf("the machine was too busy: %q", r.Reasons)
	}
	if r.Verdict != report.Pass {
		t.Errorf("verdict %s, reasons %q", r.Verdict, r.Reasons)
	}
	for _, side := range []string{"with", "without"} {
		n := func(name string) float64 { return r.Numbers[side+"_"+name] }
		if n("next_hops") != 2 || n("next_hops_min") != 1 || n("withdrawn_ms") <= 0 || n("back_ms") <= 0 {
			t.Errorf("%s the agents: numbers %v; want two next hops, one, and two again", side, r.Numbers)
		}
	}
}

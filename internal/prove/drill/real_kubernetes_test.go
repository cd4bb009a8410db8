package drill

import (
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

const realKubernetes = `version: 1
name: real-kubernetes
title: Pod traffic from a to b is dropped, and then the apiserver of b stands still
lab: {preset: lan}
kubernetes: true
gateway: [a, b]
agents: none
phases: {baseline: 2s, hold: 10s, settle: 3s}
faults:
  - name: vxlan
    cuts: [{from: a, to: b, oneWay: true, proto: vxlan}]
  - name: freeze
    at: 6s
    pause: [apiserver/b]
    for: 2s
paths:
  - {sites: [a, b], targets: [gateway], kinds: [web], modes: [new], interval: 200ms}
  - {sites: [c], targets: [service], kinds: [api-get, api-put], modes: [new, reused], interval: 400ms}
expect:
  - {role: clean, sites: [a, b], without: half}
  - {role: info}
variants:
  - name: main
    leaders: {main: a}
`

// A real kubelet, kube-proxy and HAProxy on every node: a gateway with pods of
// both zones as upstreams loses half of its requests, clients in a pod reach the
// apiservers, and the endpoints are seen.
func TestRealKubernetes(t *testing.T) {
	needLab(t)
	s, err := scenario.Parse("real-kubernetes.yaml", []byte(realKubernetes))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Scenario: s, Without: true, Out: filepath.Join(t.TempDir(), "out"), Tries: 2, Progress: io.Discard}
	if err := o.preflight(); err != nil {
		needed(t, err)
	}
	r, err := Run(t.Context(), o, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != report.Pass && !tooBusy(r) {
		t.Errorf("verdict %s, reasons %q; want a pass", r.Verdict, r.Reasons)
	}
	for _, p := range r.Paths {
		if p.Site == "c" && p.Kind != "connect" && p.Samples-p.Failed < 20 {
			t.Errorf("path %s: %d of %d samples failed", p.Name, p.Failed, p.Samples)
		}
	}
	if !slices.ContainsFunc(r.Without.Events, func(e report.Event) bool {
		list, err := record.ParseEndpoints(e.Keys)
		return e.Kind == record.KindEndpoints && err == nil && len(list) == 3 && e.AtMS < 0
	}) {
		t.Errorf("no event has the endpoints of three apiservers: %+v", r.Without.Events)
	}
}

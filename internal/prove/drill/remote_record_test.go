package drill

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/remote"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

const byHandScenario = `version: 1
name: cable
title: The cable is pulled
phases: {baseline: 1s, hold: 2s, settle: 1s}
faults: [{name: a-b, cuts: [{from: a, to: b}]}]
expect: [{role: clean}]
variants: [{name: main, leaders: {main: a}}]
`

// TestADrillByHandIsReported drills a listener of the test's own, and wants the
// documents of a lab drill.
func TestADrillByHandIsReported(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cable := write("cable.yaml", byHandScenario)
	probes := write("probe.yaml", fmt.Sprintf("targets: [{name: port, url: 'tcp://%s', modes: [new], labels: {site: b}}]\n", l.Addr()))
	run := func(name string, more ...string) (string, *report.Report, error) {
		out := filepath.Join(dir, name)
		text, err := drill(append([]string{"run", cable, "--observe-only", "--probe", probes, "--out", out}, more...)...)
		r, rerr := report.Directory{Path: out}.Read()
		if rerr != nil {
			t.Fatalf("%v; %v:\n%s", rerr, err, text)
		}
		for _, file := range []string{report.HTMLFile, report.JUnitFile, report.MarkdownFile, "runs/main-with/" + report.SamplesFile} {
			if _, err := os.Stat(filepath.Join(out, file)); err != nil {
				t.Error(err)
			}
		}
		return text, r, err
	}
	text, r, err := run("clean", "--max-outage", "900ms")
	if r.With == nil || len(r.Paths) != 2 || r.Paths[0].Site != "b" || r.Paths[0].Expected == nil || r.Paths[0].Expected.MaxMS != 900 || r.With.Faults[0].Kind != "by hand" {
		t.Errorf("%+v", r)
	}
	if starved := exit.Code(err) == exit.Unknown && strings.Contains(fmt.Sprint(err), "too busy"); err != nil && !starved {
		t.Errorf("%v:\n%s", err, text)
	}
	_, r, err = run("unknown", "--json")
	if exit.Code(err) != exit.Unknown || r.Verdict != report.Inconclusive || !strings.Contains(r.Paths[0].Reason, "window: unknown; no host was asked for its timers; give --max-outage") {
		t.Errorf("%v: %s: %s", err, r.Verdict, r.Paths[0].Reason)
	}
	if _, err := drill("run", cable, "--observe-only", "--probe", probes, "--out", filepath.Join(dir, "clean")); err == nil || !strings.Contains(err.Error(), "holds a drill already") {
		t.Errorf("an --out that exists: %v", err)
	}
}

func TestTimersOfHostsMakeWindows(t *testing.T) {
	s, err := scenario.Parse("x.yaml", []byte(byHandScenario))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Case("main")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &probe.Config{Targets: []probe.Target{{Name: "x", URL: "etcd+insecure://192.0.2.1:2379?kind=put"}, {Name: "y", URL: "https://192.0.2.1:6443"}}}
	paths, err := cfg.Paths()
	if err != nil {
		t.Fatal(err)
	}
	real := realCase(c, paths, remote.Timers{Election: 5 * time.Second}, 0)
	w, err := real.WindowOf(real.Paths[0], real.ExpectationOf(real.Paths[0]).Window)
	if err != nil || w.Max < 15*time.Second || real.ExpectationOf(real.Paths[0]).Role != scenario.RoleAffected {
		t.Errorf("%+v, %v", w, err)
	}
	if e := real.ExpectationOf(real.Paths[len(real.Paths)-1]); e.Role != scenario.RoleInfo || !strings.Contains(e.Note, "window: unknown") {
		t.Errorf("%+v", e)
	}
	if c.Clusters[0].Election == 5*time.Second || len(c.Expect) != 1 {
		t.Error("the scenario's own case was changed")
	}
}

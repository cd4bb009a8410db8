package e2e

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	stdslices "slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// drillPair runs one variant of a built-in drill of a pair with its agents, which are
// this test binary, and wants it to pass.
func drillPair(t *testing.T, name, variant string) *report.Report {
	t.Helper()
	nightly(t)
	return runPair(t, name, variant, true)
}

func runPair(t *testing.T, name, variant string, agents bool) *report.Report {
	t.Helper()
	peer := ""
	if !agents {
		peer = "3.5" // it loses most
	}
	if err := lab.Preflight(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this suite must not be skipped in CI: %v", err)
		}
		t.Skip(err)
	}
	t.Setenv(asAgent, "1")
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	o := drill.Options{
		Scenario: s, Variants: []string{variant}, With: agents, Without: !agents, Out: out, Tries: 1, Peer: peer, Progress: io.Discard,
	}
	r, err := drill.Run(t.Context(), o, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, variant %s: %s %q, %v", name, variant, r.Verdict, r.Reasons, r.Numbers)
	if busy(r) {
		t.Skip("the machine was too busy")
	}
	if r.Verdict != report.Pass {
		t.Errorf("%s, variant %s: %s: %q", name, variant, r.Verdict, r.Reasons)
	}
	return r
}

// busy says that the drill proved nothing, because of the machine.
func busy(r *report.Report) bool {
	return r.Verdict == report.Inconclusive && stdslices.ContainsFunc(r.Reasons, func(reason string) bool {
		return strings.Contains(reason, "too busy") || strings.Contains(reason, "starved")
	})
}

// decided says whether an agent gave a reason that contains a text, after the fault.
func decided(r *report.Report, agent, text string) bool {
	run := r.With
	if len(r.Variants) > 0 {
		run = r.Variants[0].With
	}
	return run != nil && stdslices.ContainsFunc(run.Events, func(e report.Event) bool {
		return e.Kind == record.KindDecided && e.Source == "pair/"+agent && e.AtMS > 0 && strings.Contains(e.Message, text)
	})
}

// Either site is lost with all its processes, the other one writes on within its bar, and
// the lost one is back by itself.
func TestPairSiteLoss(t *testing.T) {
	for _, variant := range []string{"main", "follower", "preferred"} {
		t.Run(variant, func(t *testing.T) {
			if r := drillPair(t, "pair-site-loss", variant); !decided(r, "a", "serves without this member") {
				t.Error("nothing says that the old data of a was moved aside")
			}
		})
	}
}

// The database has 100 MB, which the member that returns has to fetch.
func TestPairLargeDatabase(t *testing.T) { drillPair(t, "pair-site-loss", "large") }

// The record is elsewhere.
func TestPairArbiters(t *testing.T) {
	for _, variant := range []string{"etcd", "s3"} {
		t.Run(variant, func(t *testing.T) { drillPair(t, "pair-site-loss", variant) })
	}
}

// --force-new-cluster is the control: what the drill calls no loss is one that it sees.
func TestPairForced(t *testing.T) {
	nightly(t)
	lost := 0.0
	for range 5 { // it may be lucky
		if lost = runPair(t, "pair-both-down", "forced", false).Numbers["forced.without_acked_lost"]; lost > 0 {
			return
		}
	}
	t.Error("--force-new-cluster lost nothing five times; the drill would not see a loss")
}

func TestPairSiteCut(t *testing.T) {
	for _, variant := range []string{"main", "leader-b", "preferred", "blips"} {
		t.Run(variant, func(t *testing.T) { drillPair(t, "pair-site-cut", variant) })
	}
}

func TestPairArbiterDown(t *testing.T) { drillPair(t, "pair-arbiter-down", "main") }

// Nobody may write alone while the arbiter is away, and whoever waits says so.
func TestPairArbiterDownThenLoss(t *testing.T) {
	if r := drillPair(t, "pair-arbiter-down-then-loss", "main"); !decided(r, "b", "no quorum") {
		t.Error("b does not say that it has no quorum")
	}
}

func TestPairBothDown(t *testing.T) {
	for _, variant := range []string{"main", "one-first"} {
		t.Run(variant, func(t *testing.T) { drillPair(t, "pair-both-down", variant) })
	}
}

func TestPairAgentKilled(t *testing.T) { drillPair(t, "pair-agent-killed", "main") }

func TestPairFrozenLeader(t *testing.T) { drillPair(t, "pair-frozen-leader", "main") }

func TestPairPlanned(t *testing.T) {
	for _, variant := range []string{"main", "leader"} {
		t.Run(variant, func(t *testing.T) { drillPair(t, "pair-planned", variant) })
	}
}

// What the survivor acknowledged alone is gone with it, and that is all.
func TestPairDoubleFailure(t *testing.T) {
	r := drillPair(t, "pair-double-failure", "main")
	if lost := r.Numbers["acked_lost"]; lost == 0 || lost == r.Numbers["with_acked"] {
		t.Errorf("%v of %v writes were lost, want what b acknowledged alone", lost, r.Numbers["with_acked"])
	}
}

func TestPairBlindSite(t *testing.T) {
	if r := drillPair(t, "pair-blind-site", "main"); !decided(r, "a", "does not see its clients") {
		t.Error("a does not say why it leaves the claim to b")
	}
}

package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		name    string
		variant string
		without bool
		world   world
		moves   []float64
		spoil   func(*record.Record)
		verdict report.Verdict
		reason  string // the first must contain it
	}{
		{name: "moved in time", world: split(3.2), moves: []float64{3.2}, verdict: report.Pass},
		{name: "moved too late", world: split(7), moves: []float64{7}, verdict: report.Fail,
			reason: "b/main/put/new: answered for good after 7.1 s, allowed 5.8 s"},
		{name: "never recovered", world: split(30), moves: []float64{3.2}, verdict: report.Fail,
			reason: "b/main/put/new: did not answer for good while the fault was in force"},
		{name: "recovered before anyone could have moved", world: split(0.5), moves: []float64{3.2}, verdict: report.Inconclusive,
			reason: "sooner than the timers allow"},
		{name: "nothing was felt", world: always, moves: []float64{3.2}, verdict: report.Inconclusive,
			reason: "sooner than the timers allow"},
		{name: "no move", world: split(3.2), verdict: report.Fail, reason: "0 leadership moves, at least 1 expected"},
		{name: "moved twice", world: split(3.2), moves: []float64{3.2, 9}, verdict: report.Fail, reason: "2 leadership moves, at most 1 allowed"},
		{name: "moved by an attempt that is said to have failed", world: split(3.2), verdict: report.Pass, spoil: attempted(2, "true", 3.2)},
		{name: "moved again by such an attempt", world: split(3.2), moves: []float64{3.2}, verdict: report.Fail, reason: "2 leadership moves, at most 1 allowed",
			spoil: attempted(9, "true", 15.9)},
		{name: "changed before the attempt was given up", world: split(3.2), moves: []float64{3.2}, verdict: report.Fail, reason: "2 leadership moves, at most 1 allowed",
			spoil: attempted(9, "true", 8)},
		{name: "attempt without a call", world: split(3.2), moves: []float64{3.2}, verdict: report.Pass, spoil: attempted(9, "false", 9.5)},
		{name: "attempt without a change", world: split(3.2), moves: []float64{3.2}, verdict: report.Pass, spoil: attempted(9, "true", 16.1)},
		{name: "attempt before the move that made the change", world: split(3.2), moves: []float64{3.2}, verdict: report.Pass, spoil: attempted(2, "true", 3.25)},
		{name: "attempt of another cluster", world: split(3.2), moves: []float64{3.2}, verdict: report.Pass, spoil: func(r *record.Record) {
			attempted(9, "true", 10)(r)
			r.Events[len(r.Events)-1].Cluster = "other"
		}},
		{name: "clean path stalls", world: split(3.2).broken(refused, 3, 4.5, "c/main/put/new"), moves: []float64{3.2}, verdict: report.Fail,
			reason: "c/main/put/new: gap of 1.8 s, allowed 1.0 s: dial: refused"},
		{name: "clean path answers late", world: split(3.2).waits(5, 7.5, "c/main/get/new"), moves: []float64{3.2}, verdict: report.Fail,
			reason: "c/main/get/new: gap of"},
		{name: "clean path blinks", world: split(3.2).broken(refused, 3.2, 3.7, "c/main/put"), moves: []float64{3.2}, verdict: report.Pass},
		{name: "relapse after recovery", world: split(3.2).broken(refused, 15, 15.5, "b/main/put/new"), moves: []float64{3.2}, verdict: report.Fail,
			reason: "b/main/put/new: answered for good after 15.7 s"},
		{name: "not whole at the end", world: split(3.2).broken(refused, 22, 30, "b/main/get/new"), moves: []float64{3.2}, verdict: report.Fail,
			reason: "b/main/get/new: not whole at the end"},

		{name: "without agents", without: true, world: split(20), verdict: report.Pass},
		{name: "without agents, a watch that outlives the fault", without: true, world: split(20), verdict: report.Pass},
		{name: "without agents it heals itself", without: true, world: split(5), verdict: report.Inconclusive,
			reason: "answered again after 5.1 s though the fault was in force and nobody helped"},
		{name: "without agents nothing is felt", without: true, world: always, verdict: report.Inconclusive,
			reason: "answered again after 0 ms"},

		{name: "without agents only the last sample fails", without: true, world: world(always).broken(refused, 19.8, 20, "b/main/put", "b/main/get"), verdict: report.Inconclusive,
			reason: "answered again 5 times in a row from 5.8 s on"},
		{name: "without agents it answers for a while", without: true, world: split(8).broken(timeout, 10, 20, "b/main/put", "b/main/get"), verdict: report.Inconclusive,
			reason: "it was not felt to the end"},

		{name: "leader in c", variant: "leader-c", world: always, verdict: report.Pass},
		{name: "leader in c is moved", variant: "leader-c", world: always, moves: []float64{3}, verdict: report.Fail,
			reason: "1 leadership move, at most 0 allowed"},

		{name: "baseline not clean", world: split(3.2).broken(refused, -0.8, -0.7, "a/main/get/new"), moves: []float64{3.2}, verdict: report.Inconclusive,
			reason: "a/main/get/new: baseline not clean, 1 of"},
		{name: "in flight at the injection is not baseline", world: split(3.2).broken(timeout, -0.2, 0, "b/main/get"), moves: []float64{3.2}, verdict: report.Pass},
		{name: "fault not in force", world: split(3.2), moves: []float64{3.2}, verdict: report.Inconclusive,
			reason: "fault a-b was not measured to be in force",
			spoil:  func(r *record.Record) { r.Run.Faults[0].Verified = false }},
		{name: "engine in trouble", world: split(3.2), moves: []float64{3.2}, verdict: report.Inconclusive, reason: "agent ended",
			spoil: func(r *record.Record) { r.Run.Trouble = []string{"agent ended"} }},
		{name: "never injected", world: always, verdict: report.Inconclusive, reason: "no fault was injected",
			spoil: func(r *record.Record) {
				r.Run.Injected, r.Run.Healed, r.Run.Faults = time.Time{}, time.Time{}, nil
			}},
		{name: "control path fails", world: split(3.2).broken(timeout, 5, 5.5, "b/control"), moves: []float64{3.2}, verdict: report.Inconclusive,
			reason: "b/control: 3 samples to the prober's own loopback failed"},
		{name: "control path is slow", world: split(3.2).broken(answer{after: 300 * time.Millisecond}, 5, 5.2, "c/control"), moves: []float64{3.2}, verdict: report.Inconclusive,
			reason: "c/control: an echo over the prober's own loopback took 300 ms, more than 250 ms"},
		{name: "prober lags", world: split(3.2), moves: []float64{3.2}, verdict: report.Inconclusive, reason: "the prober sent 700 ms late",
			spoil: func(r *record.Record) { r.Samples[40].Scheduled = r.Samples[40].Sent.Add(-700 * time.Millisecond) }},
		{name: "prober dies", world: split(3.2), moves: []float64{3.2}, verdict: report.Inconclusive, reason: "b/main/put/new: no sample for 14.2 s; its prober was starved or dead",
			spoil: func(r *record.Record) {
				r.Samples = slices.DeleteFunc(r.Samples, func(s probe.Sample) bool {
					return strings.HasPrefix(s.Path, "b/") && s.Sent.After(at(10))
				})
			}},
		{name: "prober stalls for less than a timeout", world: split(3.2), moves: []float64{3.2}, verdict: report.Inconclusive, reason: "c/main/get/new: no sample for 1.6 s",
			spoil: without("c/main/get/new", 10, 11.4)},
		{name: "control path without samples", world: split(3.2), moves: []float64{3.2}, verdict: report.Inconclusive, reason: "b/control: no sample for",
			spoil: without("b/control", -3, 30)},
		{name: "lost ticks", world: split(3.2), moves: []float64{3.2}, verdict: report.Inconclusive, reason: "a/main/get/new: the prober lost 2 ticks",
			spoil: without("a/main/get/new", 10, 10.4)},
		{name: "one tick is lost amid requests that hang", without: true, world: split(20), verdict: report.Pass,
			spoil: without("b/main/get/new", 10, 10.2)},
		{name: "one tick is lost though all is well", world: split(3.2), moves: []float64{3.2}, verdict: report.Inconclusive, reason: "b/main/get/new: the prober lost 1 tick",
			spoil: without("b/main/get/new", 10, 10.2)},
		{name: "nothing is on trial", world: always, variant: "leader-c", verdict: report.Inconclusive, reason: "of no path that it is affected or clean",
			spoil: func(r *record.Record) { r.Case.Expect = nil }},
		{name: "a failure beside a doubt is a doubt", world: split(30), verdict: report.Inconclusive, reason: "too busy",
			spoil: func(r *record.Record) { r.Samples[40].Scheduled = r.Samples[40].Sent.Add(-time.Second) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.variant == "" {
				tc.variant = "main"
			}
			rec := film(load(t, "partial-split", tc.variant), !tc.without, tc.world)
			for _, m := range tc.moves {
				moved(rec, m, 100)
			}
			if tc.spoil != nil {
				tc.spoil(rec)
			}
			got := Run(rec)
			if got.Verdict != tc.verdict {
				t.Fatalf("verdict %s, want %s; %q", got.Verdict, tc.verdict, got.Reasons)
			}
			if (len(got.Reasons) == 0) != (tc.verdict == report.Pass) {
				t.Errorf("reasons %q with verdict %s", got.Reasons, got.Verdict)
			}
			if tc.reason != "" && !strings.Contains(strings.Join(got.Reasons, "\n"), tc.reason) {
				t.Errorf("reasons %q, want one with %q", got.Reasons, tc.reason)
			}
		})
	}
}

// attempted adds a move that failed, begun 2 s before, and a change of leader.
func attempted(seconds float64, called string, changed float64) func(*record.Record) {
	return func(r *record.Record) {
		r.Events = append(r.Events,
			record.Event{At: at(seconds - 2), Source: "agent/a", Kind: record.KindMoving, Cluster: "main"},
			record.Event{At: at(seconds), Source: "agent/a", Kind: record.KindMoveFailed, Cluster: "main", Keys: map[string]string{"attempted": called}},
			record.Event{At: at(changed), Source: "observer", Kind: record.KindLeader, Cluster: "main", Keys: map[string]string{"from": "a1", "to": "c1"}})
		r.Sort()
	}
}

// A change of leader that nobody asked for is shown beside the verdict.
func TestUnaskedChangeOfLeaderIsShown(t *testing.T) {
	siteB := world(always).broken(refused, 0, 15, "b/main")
	for _, tc := range []struct {
		name, from string
		at         float64
		fault      record.Fault
		shown      bool
	}{
		{"no fault took a", "a1", 6, record.Fault{Name: "site-b"}, true},
		{"after the heal", "a1", 16, record.Fault{Name: "site-b"}, false},
		{"its process was killed", "b1", 2, record.Fault{Name: "site-b"}, false},
		{"its site was cut off", "c1", 2, record.Fault{Name: "x", Links: []report.Link{{From: "c", To: "a"}, {From: "c", To: "b"}}}, false},
		{"one link of its site was cut", "c1", 2, record.Fault{Name: "x", Links: []report.Link{{From: "c", To: "a"}}}, true},
	} {
		for _, agents := range []bool{true, false} {
			rec := film(load(t, "site-loss", "main"), agents, siteB)
			tc.fault.From, tc.fault.To, tc.fault.Verified = at(0), at(15), true
			rec.Run.Faults = []record.Fault{tc.fault}
			rec.Events = []record.Event{{At: at(tc.at), Kind: record.KindLeader, Cluster: "main", Keys: map[string]string{"from": tc.from, "to": "d1"}}}
			got := Run(rec)
			want := 0
			if tc.shown && agents {
				want = 1
			}
			if got.Verdict != report.Pass || len(got.Reasons) != want {
				t.Errorf("%s, agents %v: verdict %s, reasons %q, want %d", tc.name, agents, got.Verdict, got.Reasons, want)
			}
		}
	}
}

// without removes the samples of a path that were sent in [from, to).
func without(path string, from, to float64) func(*record.Record) {
	return func(r *record.Record) {
		r.Samples = slices.DeleteFunc(r.Samples, func(s probe.Sample) bool {
			return s.Path == path && !s.Sent.Before(at(from)) && s.Sent.Before(at(to))
		})
	}
}

// A flap must be felt in each of its cuts, not in the last alone.
func TestNeverHoldsInEveryCut(t *testing.T) {
	flap := func(skip int) *record.Record {
		w := world(always)
		c := load(t, "flap", "main")
		var faults []record.Fault
		for i := range 8 {
			from := float64(8 * i)
			to := min(from+4, 60)
			faults = append(faults, record.Fault{Name: fmt.Sprintf("a-b-%d", i+1), Kind: "cut", From: at(from), To: at(to), Verified: true})
			if i != skip {
				w = w.broken(timeout, from, to, "b/main/put", "b/main/get")
			}
		}
		rec := film(c, false, w)
		rec.Run.Faults = faults
		return rec
	}
	if got := Run(flap(-1)); got.Verdict != report.Pass {
		t.Errorf("every cut is felt: verdict %s, %q", got.Verdict, got.Reasons)
	}
	got := Run(flap(3))
	if got.Verdict != report.Inconclusive || !strings.Contains(strings.Join(got.Reasons, "\n"), "from 26.1 s on") {
		t.Errorf("the fourth cut is not felt: verdict %s, %q", got.Verdict, got.Reasons)
	}
}

func TestRecoveryIsDatedByTheAnswer(t *testing.T) {
	// Reads sent from 1.5 s on wait inside the server and are answered at 3.3 s.
	w := split(1.5).waits(1.5, 3.3, "b/main/get", "b/main/put")
	rec := film(load(t, "partial-split", "main"), true, w)
	moved(rec, 3.25, 100)
	got := Run(rec)
	if got.RecoveryMS == nil || *got.RecoveryMS != 3300 {
		t.Errorf("recovery %v, want 3300 ms, when the waiting requests were answered", got.RecoveryMS)
	}
}

func TestLoneSlowAnswerIsNoOutage(t *testing.T) {
	w := split(3.2).broken(answer{after: 1500 * time.Millisecond}, 12, 12.2, "b/main/get/new")
	rec := film(load(t, "partial-split", "main"), true, w)
	moved(rec, 3.2, 100)
	if got := Run(rec); *got.RecoveryMS > 3300 {
		t.Errorf("recovery %v ms; the slow answer at 12 s was taken for an outage", *got.RecoveryMS)
	}
}

func TestRecoveryIncludesWhatTheMoveCost(t *testing.T) {
	// a drops proposals while the leader moves at 3.2 s.
	w := split(3.2).broken(refused, 3.0, 3.5, "a/main/put")
	rec := film(load(t, "partial-split", "main"), true, w)
	moved(rec, 3.2, 150)
	got := Run(rec)
	if *got.RecoveryMS < 3500 {
		t.Errorf("recovery %v ms, want the end of the gap that the move made on a", *got.RecoveryMS)
	}
	if got.Inflight == 0 {
		t.Error("no request counted as hit by the move")
	}
}

func TestMoveFigures(t *testing.T) {
	// Two requests of c are in flight at the move and hang; b's were lost before.
	w := split(3.2).broken(timeout, 2.7, 3.1, "c/main/put/new")
	rec := film(load(t, "partial-split", "main"), true, w)
	moved(rec, 3.2, 103)
	got := Run(rec)
	if got.Moves != 1 || *got.FirstMoveMS != 3200 || *got.TransferMS != 103 || got.Inflight != 2 {
		t.Errorf("moves %d first %v transfer %v inflight %d, want 1, 3200, 103, 2", got.Moves, *got.FirstMoveMS, *got.TransferMS, got.Inflight)
	}
}

func TestOutageBounds(t *testing.T) {
	rec := film(load(t, "partial-split", "main"), false, split(20))
	got := Run(rec)
	i := slices.IndexFunc(got.Paths, func(p report.Path) bool { return p.Name == "b/main/put/new" })
	o := got.Paths[i].Outages
	if len(o) != 1 || o[0].LowerMS != 19800 || o[0].UpperMS != 20200 || o[0].Errors["timeout"] != 100 {
		t.Errorf("outages %+v, want one of 19.8 to 20.2 s with 100 timeouts", o)
	}
}

func TestStripLeavesHolesOpen(t *testing.T) {
	rec := film(load(t, "partial-split", "main"), true, split(3.2))
	rec.Samples = slices.DeleteFunc(rec.Samples, func(s probe.Sample) bool {
		return s.Path == "a/main/put/new" && s.Sent.After(at(8)) && s.Sent.Before(at(12))
	})
	got := Run(rec)
	strip := got.Paths[0].Strip
	if len(strip) != 2 || strip[0].ToMS > 8000 || strip[1].FromMS < 12000 {
		t.Errorf("strip %+v, want two stretches with nothing between 8 and 12 s", strip)
	}
}

func TestCompare(t *testing.T) {
	c := func() *scenario.Case { return load(t, "site-loss", "main") }
	siteB := world(always).broken(refused, 0, 15, "b/main")
	for _, tc := range []struct {
		name    string
		with    world
		verdict report.Verdict
		reason  string
	}{
		{"no worse", siteB, report.Pass, ""},
		{"a little worse", siteB.broken(refused, 5, 5.6, "a/main/put/new"), report.Pass, ""},
		{"worse on a clean path, yet no gap over a second", siteB.broken(refused, 5, 5.6, "a/main/put/new").broken(refused, 7, 7.6, "a/main/put/new"), report.Fail, "a/main/put/new: out for"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Assemble([]*record.Record{film(c(), true, tc.with), film(c(), false, siteB)})
			if got.Verdict != tc.verdict || !strings.Contains(strings.Join(got.Reasons, "\n"), tc.reason) {
				t.Errorf("verdict %s reasons %q, want %s with %q", got.Verdict, got.Reasons, tc.verdict, tc.reason)
			}
		})
	}
}

// A starved run with the agents looks worse than any without; it says nothing.
func TestCompareLeavesOutWhatProvesNothing(t *testing.T) {
	c := load(t, "site-loss", "main")
	siteB := world(always).broken(refused, 0, 15, "b/main")
	starved := siteB.broken(refused, 5, 9, "a/")
	got := Assemble([]*record.Record{film(c, true, starved), film(load(t, "site-loss", "main"), false, siteB)})
	if got.With.Verdict != report.Inconclusive || got.Verdict != report.Inconclusive {
		t.Errorf("verdict %s with a run that is %s: %q", got.Verdict, got.With.Verdict, got.Reasons)
	}
}

func TestAssembleKeepsVariantsApart(t *testing.T) {
	c := load(t, "partial-split", "leader-c")
	with := film(load(t, "partial-split", "main"), true, split(3.2))
	moved(with, 3.2, 100)
	got := Assemble([]*record.Record{
		film(c, true, always),
		film(load(t, "partial-split", "main"), false, split(20)),
		with,
	})
	if got.Verdict != report.Pass {
		t.Fatalf("verdict %s: %q", got.Verdict, got.Reasons)
	}
	if got.With == nil || got.With.Moves != 1 || got.Without == nil || got.Without.Recovered {
		t.Errorf("the main variant is not on top: with %+v", got.With)
	}
	if len(got.Variants) != 1 || got.Variants[0].Name != "leader-c" || got.Variants[0].Without != nil {
		t.Errorf("variants %+v, want leader-c with one run", got.Variants)
	}
	for name, want := range map[string]float64{"with_moves": 1, "without_recovered": 0, "leader-c.with_moves": 0} {
		if v, ok := got.Numbers[name]; !ok || v != want {
			t.Errorf("number %s = %v %v, want %v", name, v, ok, want)
		}
	}
}

func TestFailedRunWithoutAgentsIsInconclusive(t *testing.T) {
	w := split(20).broken(refused, 5, 8, "c/main/put/new")
	got := Assemble([]*record.Record{film(load(t, "partial-split", "main"), false, w)})
	if got.Verdict != report.Inconclusive {
		t.Errorf("verdict %s, want inconclusive: the world without agents is not on trial", got.Verdict)
	}
}

// A comparison that the scenario asks for and one side of which is missing is
// said to be missing.
func TestOneSideIsNotCompared(t *testing.T) {
	w := world(always).broken(refused, 0, 15, "b/main")
	for _, agents := range []bool{true, false} {
		got := Assemble([]*record.Record{film(load(t, "site-loss", "main"), agents, w)})
		if got.Verdict != report.Pass || !slices.Equal(got.Reasons, []string{"not compared: run without --with/--without"}) {
			t.Errorf("agents %v: verdict %s, reasons %q", agents, got.Verdict, got.Reasons)
		}
	}
}

// A remark on the main variant is not what another variant failed for.
func TestRemarkIsNoReasonForAnothersFailure(t *testing.T) {
	w := world(always).broken(refused, 0, 15, "b/main")
	got := Assemble([]*record.Record{
		film(load(t, "site-loss", "main"), true, w),
		film(load(t, "site-loss", "leader-b"), true, w.broken(refused, 0, 20, "a/main/put")),
	})
	if got.Verdict != report.Fail || len(got.Reasons) == 0 || slices.ContainsFunc(got.Reasons, func(r string) bool { return strings.HasPrefix(r, "main: ") }) {
		t.Errorf("verdict %s, reasons %q, want those of leader-b alone", got.Verdict, got.Reasons)
	}
}

func TestNothingRun(t *testing.T) {
	if got := Assemble(nil); got.Verdict != report.Inconclusive {
		t.Errorf("verdict %s of nothing", got.Verdict)
	}
}

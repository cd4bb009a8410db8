package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// paired is pair-site-loss in which b answers again after some seconds, with every
// write numbered and kept by both members, and the record as it should be.
func paired(t *testing.T, agents bool, until float64) *record.Record {
	t.Helper()
	w := world(always).broken(refused, 0, until, "b/main/").broken(refused, 0, 15, "a/main/")
	rec := film(load(t, "pair-site-loss", "main"), agents, w)
	rec.Run.Faults = []record.Fault{{Name: "site-a", Kind: "cut", From: t0, To: at(15), Verified: true}}
	rec.Keys = record.Keys{}
	for _, site := range []string{"a", "b"} {
		rec.Keys[site] = record.MemberKeys{Revision: 10000, Keys: map[string]int64{}}
	}
	for i := range rec.Samples {
		s := &rec.Samples[i]
		if !strings.Contains(s.Path, scenario.KindWrite) {
			continue
		}
		s.Key = fmt.Sprintf("/%s/%d", s.Path, s.Seq)
		if s.OK {
			s.Revision = 1 + int64(i)
			for _, has := range rec.Keys {
				has.Keys[s.Key] = s.Revision
			}
		}
	}
	said(rec, -2, "paired", "", 1)
	said(rec, 4.6, "solo", "b", 2)
	said(rec, 17, "paired", "", 3)
	return rec
}

// said adds a change of the record.
func said(rec *record.Record, seconds float64, state, survivor string, generation int) {
	rec.Events = append(rec.Events, record.Event{
		At: at(seconds), Source: "observer", Kind: record.KindPairRecord,
		Keys: map[string]string{"state": state, "survivor": survivor, "generation": fmt.Sprint(generation)},
	})
	rec.Sort()
}

// writesBy lists the indices of acknowledged writes at a member from a time on.
func writesBy(rec *record.Record, site string, from float64) []int {
	var out []int
	for i, s := range rec.Samples {
		if s.Revision > 0 && strings.HasPrefix(s.Path, site+"/") && !s.Sent.Before(at(from)) {
			out = append(out, i)
		}
	}
	return out
}

func TestPairIsHeldToItsPromise(t *testing.T) {
	forget := func(rec *record.Record, i int, sites ...string) {
		for _, site := range sites {
			delete(rec.Keys[site].Keys, rec.Samples[i].Key)
		}
	}
	for _, tt := range []struct {
		name   string
		until  float64
		change func(*record.Record)
		want   report.Verdict
		reason string
	}{
		{"as promised", 6, nil, report.Pass, ""},
		{"late", 9.1, nil, report.Fail, "answered for good after"},
		{"sooner than anybody may claim", 1, nil, report.Inconclusive, "sooner than the timers allow"},
		{"a write is lost everywhere", 6, func(rec *record.Record) { forget(rec, writesBy(rec, "a", -1)[0], "a", "b") }, report.Fail, "1 acknowledged write of"},
		{"a write is lost at one member", 6, func(rec *record.Record) { forget(rec, writesBy(rec, "b", 8)[0], "a") }, report.Fail, "1 acknowledged write of"},
		{"a key is there with another revision", 6, func(rec *record.Record) {
			key := rec.Samples[writesBy(rec, "b", 8)[0]].Key
			rec.Keys["a"].Keys[key]++
			rec.Keys["b"].Keys[key]++
		}, report.Fail, "1 acknowledged write of"},
		{"the members differ in what nobody acknowledged", 6, func(rec *record.Record) { rec.Keys["a"].Keys["/unknown"] = 9999 }, report.Fail, "the members differ in 1 key"},
		{"two members took writes at once", 6, func(rec *record.Record) {
			i, k := writesBy(rec, "a", -1)[0], writesBy(rec, "b", 8)[0]
			rec.Samples[k].Revision = rec.Samples[i].Revision
			for _, has := range rec.Keys {
				has.Keys[rec.Samples[k].Key] = rec.Samples[i].Revision
			}
		}, report.Fail, "two members took writes at once"},
		{"a member does not answer in the end", 6, func(rec *record.Record) { rec.Keys["a"] = record.MemberKeys{Error: "read the keys of a1: refused"} }, report.Fail, "the end: read the keys of a1"},
		{"nothing is known of the end", 6, func(rec *record.Record) { rec.Keys = nil }, report.Fail, "is not known"},
		{"never paired again", 6, func(rec *record.Record) { said(rec, 18, "solo", "b", 4) }, report.Fail, "does not say paired in the end"},
		{"paired again too late", 6, func(rec *record.Record) { said(rec, 31, "paired", "", 4) }, report.Fail, "paired again 16.0 s after"},
		{"the lost site does not come back", 6, func(rec *record.Record) {
			for i := range rec.Samples {
				if s := &rec.Samples[i]; strings.HasPrefix(s.Path, "a/main/get") && s.Sent.After(at(14)) {
					s.OK, s.Class = false, probe.ClassRefused
				}
			}
		}, report.Fail, "a/main/get/reused: not whole at the end"},
		{"the wrong one survived", 6, func(rec *record.Record) { said(rec, 8, "solo", "a", 3) }, report.Fail, "[b a] served alone, and b should have"},
	} {
		rec := paired(t, true, tt.until)
		if tt.change != nil {
			tt.change(rec)
		}
		got := Run(rec)
		if got.Verdict != tt.want || !strings.Contains(strings.Join(got.Reasons, "; "), tt.reason) {
			t.Errorf("%s: %s, %q, want %s with %q", tt.name, got.Verdict, got.Reasons, tt.want, tt.reason)
		}
	}
}

func TestSurvivorsAreHeldToTheScenario(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*scenario.Pair)
		reason string
	}{
		{"nobody should", func(p *scenario.Pair) { p.Survivor = scenario.SurvivorNone }, "b was to serve alone from 4.6 s on, and nobody should have been"},
		{"either may", func(p *scenario.Pair) { p.Survivor = scenario.SurvivorAny }, ""},
		{"too early", func(p *scenario.Pair) { p.AloneAfter = 5 * time.Second }, "b was to serve alone from 4.6 s on, allowed from 5.0 s on"},
	} {
		rec := paired(t, true, 6)
		tt.change(&rec.Case.Pair)
		if got := strings.Join(Run(rec).Reasons, "; "); got != tt.reason {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.reason)
		}
	}
}

// What a person gives up may be lost if a member acknowledged it alone, and nothing else.
func TestLossesThatAPersonAccepts(t *testing.T) {
	for _, tt := range []struct {
		name, site string
		from       float64
		want       report.Verdict
	}{
		{"acknowledged alone", "b", 8, report.Pass},
		{"acknowledged by both", "b", -1, report.Fail},
		{"acknowledged by who did not serve", "a", 15.5, report.Fail},
	} {
		rec := paired(t, true, 6)
		rec.Case.Pair.Loses = true
		key := rec.Samples[writesBy(rec, tt.site, tt.from)[0]].Key
		for _, has := range rec.Keys {
			delete(has.Keys, key)
		}
		if got := Run(rec); got.Verdict != tt.want {
			t.Errorf("%s: %s, %q, want %s", tt.name, got.Verdict, got.Reasons, tt.want)
		}
	}
}

func TestNumbersOfAPair(t *testing.T) {
	with, without := paired(t, true, 6), paired(t, false, 15)
	lost := writesBy(without, "a", -1)[0]
	delete(without.Keys["b"].Keys, without.Samples[lost].Key)
	r := Assemble([]*record.Record{without, with})
	if r.Verdict != report.Pass {
		t.Errorf("%s, %q, want a pass: without the agents losses are counted and not judged", r.Verdict, r.Reasons)
	}
	for name, want := range map[string]float64{
		"with_acked_lost": 0, "with_two_writable": 0, "with_divergent": 0, "with_generation": 3, "with_paired_again_ms": 2000,
		"without_acked_lost": 1, "without_divergent": 1,
		// The same, by the names of the product's promise.
		"acked_lost": 0, "paired_again_ms": 2000, "writable_ms": r.Numbers["with_writable_ms"],
	} {
		if got, ok := r.Numbers[name]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
	if got := r.Numbers["with_writable_ms"]; got < 6000 || got > 6400 {
		t.Errorf("writable again after %v ms, want the first answer after 6 s", got)
	}
	if got := r.Numbers["without_writable_ms"]; got < 15000 || got > 15400 {
		t.Errorf("without the agents writable again after %v ms, want the heal at 15 s", got)
	}
}

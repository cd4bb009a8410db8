package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// routed adds what the router's prober saw: as many next hops from a time in
// seconds on, asked every 10 ms.
func routed(rec *record.Record, turns ...[2]float64) {
	var via []string
	end := rec.Run.Ended
	for i, when := 0, at(-4); when.Before(end); i, when = i+1, when.Add(10*time.Millisecond) {
		for _, t := range turns {
			if !when.Before(at(t[0])) {
				via = make([]string, int(t[1]))
				for k := range via {
					via[k] = fmt.Sprintf("10.77.1.%d", 11+k)
				}
			}
		}
		s := probe.Sample{Path: "router-a/route/new", Seq: uint64(i), Scheduled: when, Sent: when, Done: when.Add(100 * time.Microsecond), OK: len(via) > 0, Hops: slices.Clone(via)}
		if s.Hops == nil {
			s.Hops, s.Class = []string{}, probe.ClassUnreachable
		}
		rec.Samples = append(rec.Samples, s)
	}
	rec.Run.Controls = append(rec.Run.Controls, "router-a/control")
	rec.Samples = append(rec.Samples, samples("router-a/control", -3, rec.Case.Phases.Hold.Seconds()+4, always)...)
	rec.Sort()
}

// lostPower is bgp-node-dead: the power is back after 36 s.
func lostPower(t *testing.T, agents bool, felt float64, turns ...[2]float64) *record.Record {
	t.Helper()
	w := world(always).broken(answer{200 * time.Millisecond, probe.ClassTimeout}, 0, felt, "a/address/udp", "b/address/udp")
	rec := film(load(t, "bgp-node-dead", "main"), agents, w)
	rec.Run.Faults = []record.Fault{{Name: "power-a2", Kind: "off", From: t0, To: at(36), Verified: true}}
	routed(rec, turns...)
	return rec
}

func TestNextHopsAreHeldToWhatTheyMust(t *testing.T) {
	for _, tt := range []struct {
		name   string
		agents bool
		felt   float64
		turns  [][2]float64
		want   report.Verdict
		reason string
	}{
		{"as promised", true, 0.4, [][2]float64{{-4, 3}, {0.31, 2}, {37, 3}}, report.Pass, ""},
		{"late", true, 0.4, [][2]float64{{-4, 3}, {0.9, 2}, {37, 3}}, report.Fail, "a next hop left 900 ms after the fault, allowed 670 ms"},
		{"too early", true, 0.4, [][2]float64{{-4, 3}, {0.05, 2}, {37, 3}}, report.Inconclusive, "a next hop left 50 ms after the fault, sooner than the timers allow (180 ms)"},
		{"never", true, 0.4, [][2]float64{{-4, 3}}, report.Fail, "the router kept all 3 next hops"},
		{"another left too", true, 0.4, [][2]float64{{-4, 3}, {0.31, 2}, {2, 1}, {2.5, 2}, {37, 3}}, report.Fail, "the router had 1 next hop, at least 2 expected"},
		{"not back", true, 0.4, [][2]float64{{-4, 3}, {0.31, 2}}, report.Fail, "did not have all 3 next hops again"},
		{"back late", true, 0.4, [][2]float64{{-4, 3}, {0.31, 2}, {40, 3}}, report.Fail, "had all 3 next hops again 4.0 s after the fault was over, allowed 3.0 s"},
		{"back and gone again", true, 0.4, [][2]float64{{-4, 3}, {0.31, 2}, {37, 3}, {38, 2}, {38.5, 3}}, report.Pass, ""},
		{"one was missing before", true, 0.4, [][2]float64{{-4, 2}, {0.31, 1}, {37, 2}}, report.Inconclusive, "the router had 2 next hops before the fault"},
		{"nobody looked", true, 0.4, nil, report.Inconclusive, "not watched"},
		{"hold time", false, 27, [][2]float64{{-4, 3}, {27, 2}, {40, 3}}, report.Pass, ""},
		{"without, as fast as with", false, 0.4, [][2]float64{{-4, 3}, {0.31, 2}, {40, 3}}, report.Inconclusive, "sooner than the timers allow (20.0 s)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := lostPower(t, tt.agents, tt.felt, tt.turns...)
			if tt.turns == nil {
				rec.Samples = slices.DeleteFunc(rec.Samples, func(s probe.Sample) bool { return s.Hops != nil || len(s.Path) > 5 && s.Path == "router-a/route/new" })
			}
			got := Run(rec)
			if got.Verdict != tt.want || !strings.Contains(strings.Join(got.Reasons, "; "), tt.reason) {
				t.Errorf("%s: %q, want %s: %q", got.Verdict, got.Reasons, tt.want, tt.reason)
			}
		})
	}
}

func TestHopNumbers(t *testing.T) {
	rec := lostPower(t, true, 0.4, [2]float64{-4, 3}, [2]float64{0.31, 2}, [2]float64{37.5, 3})
	got := hopNumbers(rec)
	for name, want := range map[string]float64{"next_hops": 3, "next_hops_min": 2, "withdrawn_ms": 310.1, "back_ms": 1500.1} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	// Samples that are missing for long say nothing of what was between.
	rec.Samples = slices.DeleteFunc(rec.Samples, func(s probe.Sample) bool { return s.Hops != nil && s.Done.After(at(5)) && s.Done.Before(at(7)) })
	if got := Doubts(rec); len(got) != 1 || !strings.Contains(got[0], "not looked at") {
		t.Errorf("doubts are %q", got)
	}
}

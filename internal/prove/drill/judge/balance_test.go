package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// balanced adds something that a balancer or the observer saw.
func balanced(kind string, seconds float64, keys map[string]string) func(*record.Record) {
	return func(r *record.Record) {
		r.Events = append(r.Events, record.Event{At: at(seconds), Source: "balance/b", Kind: kind, Message: kind, Keys: keys})
		r.Sort()
	}
}

// late is a failure that takes a while.
var late = answer{1200 * time.Millisecond, refused.class}

func TestBalanceDrills(t *testing.T) {
	for _, tc := range []struct {
		name, scenario string
		without        bool
		world          world
		spoil          []func(*record.Record)
		verdict        report.Verdict
		reason         string
	}{
		{name: "nothing is noticed", scenario: "balance-killed", world: always, verdict: report.Pass},
		{name: "kept connections die with the backend", scenario: "balance-killed", verdict: report.Pass,
			world: world(always).broken(refused, 0, 0.3, "b/balance/api-get/reused", "b/balance/api-watch")},
		{name: "one new connection fails", scenario: "balance-killed", verdict: report.Fail, reason: "b/balance/api-get/new: answered for good after",
			world: world(always).broken(refused, 2, 2.2, "b/balance/api-get/new")},
		{name: "a kept one takes too long", scenario: "balance-killed", verdict: report.Fail, reason: "b/balance/api-put/reused: answered for good after",
			world: world(always).broken(refused, 0, 1.4, "b/balance/api-put/reused")},
		{name: "another site notices", scenario: "balance-killed", verdict: report.Fail, reason: "a/balance/api-put/new: 1 request failed, at most 0 allowed",
			world: world(always).broken(refused, 3, 3.2, "a/balance/api-put/new")},
		{name: "without them anything goes", scenario: "balance-killed", without: true, verdict: report.Pass,
			world: world(always).broken(refused, 0, 9, "b/balance", "a/balance")},

		{name: "moved in time", scenario: "balance-frozen", world: world(always).broken(timeout, 0, 1.4, "b/balance"), verdict: report.Pass},
		{name: "moved too late", scenario: "balance-frozen", verdict: report.Fail, reason: "b/balance/api-get/new: answered for good after 2.5 s, allowed 2.2 s",
			world: world(always).broken(timeout, 0, 2.4, "b/balance/api-get/new")},
		{name: "without them it stays down", scenario: "balance-frozen", without: true, world: world(always).broken(timeout, 0, 20, "b/balance"), verdict: report.Pass},
		{name: "without them it recovers", scenario: "balance-frozen", without: true, verdict: report.Inconclusive, reason: "it was not felt as described",
			world: world(always).broken(timeout, 0, 5, "b/balance")},

		{name: "calm", scenario: "balance-calm", world: always, verdict: report.Pass},
		{name: "a change of mind", scenario: "balance-calm", world: always, verdict: report.Fail,
			reason: "balancers made 1 change, at most 0 allowed; the first: balance/b: backend-graded",
			spoil:  []func(*record.Record){balanced(record.KindGraded, 5, nil), balanced(record.KindGraded, -1, nil)}},
		{name: "resets", scenario: "balance-calm", world: always, verdict: report.Fail, reason: "balancers made 9 resets, at most 0 allowed",
			spoil: []func(*record.Record){balanced(record.KindReset, 5, map[string]string{"count": "9"})}},
		{name: "without them minds may change", scenario: "balance-calm", without: true, world: always, verdict: report.Pass,
			spoil: []func(*record.Record){balanced(record.KindGraded, 5, nil)}},

		{name: "served in time", scenario: "balance-all-down", world: world(always).broken(refused, 0, 9.5, ""), verdict: report.Pass,
			spoil: []func(*record.Record){balanced(record.KindReady, 9, nil)}},
		{name: "served too late", scenario: "balance-all-down", world: world(always).broken(refused, 0, 12.5, ""), verdict: report.Fail,
			reason: "answered for good after 12.7 s, allowed 10.7 s", spoil: []func(*record.Record){balanced(record.KindReady, 9, nil)}},
		{name: "never ready", scenario: "balance-all-down", world: world(always).broken(refused, 0, 9.5, ""), verdict: report.Inconclusive,
			reason: "no apiserver was ready again"},
		{name: "not refused at once", scenario: "balance-all-down", world: world(always).broken(late, 0, 6, ""), verdict: report.Fail,
			reason: "failed after 1.2 s, allowed 1.0 s", spoil: []func(*record.Record){balanced(record.KindReady, 9, nil)}},

		{name: "one gap per restart", scenario: "balance-rolling", verdict: report.Pass,
			world: world(always).broken(refused, 0, 0.3, "a/balance/api-watch").broken(refused, 20, 20.3, "a/balance/api-watch")},
		{name: "too many gaps", scenario: "balance-rolling", verdict: report.Fail, reason: "a/balance/api-watch/stream: 4 gaps, at most 3 allowed",
			world: world(always).broken(refused, 0, 0.3, "a/balance/api-watch").broken(refused, 5, 5.3, "a/balance/api-watch").
				broken(refused, 20, 20.3, "a/balance/api-watch").broken(refused, 30, 30.3, "a/balance/api-watch")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := func(path string, at float64) answer {
				if strings.HasSuffix(path, "/control") {
					return good
				}
				return tc.world(path, at)
			}
			rec := film(load(t, tc.scenario, "main"), !tc.without, w)
			for _, f := range tc.spoil {
				f(rec)
			}
			got := Run(rec)
			if got.Verdict != tc.verdict || !strings.Contains(strings.Join(got.Reasons, "\n"), tc.reason) {
				t.Errorf("verdict %s, reasons %q; want %s, %q", got.Verdict, got.Reasons, tc.verdict, tc.reason)
			}
		})
	}
}

func TestBalanceNumbers(t *testing.T) {
	c := load(t, "balance-frozen", "main")
	with := film(c, true, world(always).broken(timeout, 0, 1, "b/balance/api-get/new").broken(timeout, 0, 2.2, "b/balance/api-put/reused"))
	for _, f := range []func(*record.Record){
		balanced(record.KindGraded, -2, nil), balanced(record.KindGraded, 1.2, nil), balanced(record.KindGraded, 1.3, nil),
		balanced(record.KindReset, 1.4, map[string]string{"count": "3"}), balanced(record.KindUnready, 0.8, nil),
	} {
		f(with)
	}
	without := film(load(t, "balance-frozen", "main"), false, world(always).broken(timeout, 0, 20, "b/balance/api-get/new"))
	got := Assemble([]*record.Record{without, with}).Numbers
	for name, want := range map[string]float64{
		"with_failed_new": 5, "with_failed_kept": 11, "with_failed_late": 0, "with_noticed_ms": 1200, "with_unready_ms": 800,
		"with_transitions": 2, "with_resets": 3, "without_failed_new": 100, "without_failed_late": 92,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if m, r := got["with_moved_ms"], got["with_reset_ms"]; m < 1000 || m > 1300 || r < 2200 || r > 2500 {
		t.Errorf("moved after %v ms, reset after %v ms", m, r)
	}
	if _, ok := got["with_ready_ms"]; ok {
		t.Error("an apiserver was ready again that never was")
	}
	if got := Assemble([]*record.Record{film(load(t, "flap", "main"), true, always)}).Numbers; got["with_failed_new"] != 0 || len(got) > 8 {
		t.Errorf("numbers of a drill without balancers: %v", got)
	}
}

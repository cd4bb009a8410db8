package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// cutStore is a drill of stores: with shards a query waits as long as given and
// fails.
func cutStore(t *testing.T, remedy bool, fails time.Duration, edit ...func(*record.Record)) report.Run {
	t.Helper()
	w := world(always)
	if !remedy {
		w = w.broken(answer{fails, probe.ClassServer}, 0, 30, "a/store", "b/store")
		w = w.waits(30, 45.5, "a/store", "b/store")
	}
	rec := film(load(t, "sharded-store", "main"), remedy, w)
	for _, origin := range []string{"a", "b"} {
		for _, site := range []string{"a", "b"} {
			inStore(rec, site, origin, 40)
		}
	}
	for _, e := range edit {
		e(rec)
	}
	return Run(rec)
}

// inStore notes how many of 40 lines of an origin a store has.
func inStore(rec *record.Record, site, origin string, lines int) {
	rec.Events = append(rec.Events, record.Event{
		At: at(48), Source: "store/" + site, Kind: record.KindStored,
		Keys: map[string]string{"site": site, "origin": origin, "lines": fmt.Sprint(lines), "last": "40"},
	})
}

func TestStoresAreHeldToWhatTheyMust(t *testing.T) {
	lose := func(rec *record.Record) { inStore(rec, "b", "a", 39) }
	forget := func(rec *record.Record) { rec.Events = nil }
	for _, tc := range []struct {
		name   string
		remedy bool
		fails  time.Duration
		edit   []func(*record.Record)
		want   report.Verdict
		reason string
	}{
		{"one per zone", true, 0, nil, report.Pass, ""},
		{"shards that are waited for", false, 30 * time.Second, nil, report.Pass, ""},
		{"shards that refuse at once", false, time.Second, nil, report.Inconclusive, "sooner than the store's patience of 30s"},
		{"a line is missing", true, 0, []func(*record.Record){lose}, report.Fail, "the store of b finds 39 of 40 lines of a"},
		{"nobody asked", true, 0, []func(*record.Record){forget}, report.Inconclusive, "what the store of a has of a in the end is not known"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := cutStore(t, tc.remedy, tc.fails, tc.edit...)
			if r.Verdict != tc.want || tc.reason != "" && !strings.Contains(strings.Join(r.Reasons, "\n"), tc.reason) {
				t.Errorf("%s: %q, want %s with %q", r.Verdict, r.Reasons, tc.want, tc.reason)
			}
		})
	}
}

// A store in shards whose queries are answered was not cut.
func TestShardsThatAnswerWereNotCut(t *testing.T) {
	rec := film(load(t, "sharded-store", "main"), false, always)
	for _, site := range []string{"a", "b"} {
		inStore(rec, site, "a", 40)
		inStore(rec, site, "b", 40)
	}
	if r := Run(rec); r.Verdict != report.Inconclusive {
		t.Errorf("%s: %q, want inconclusive", r.Verdict, r.Reasons)
	}
}

func TestStoreNumbers(t *testing.T) {
	w := world(always).broken(answer{30 * time.Second, probe.ClassServer}, 0, 45, "a/store", "b/store")
	got := storeNumbers(film(load(t, "sharded-store", "main"), false, w))
	if got["queries_answered"] != 0 || got["query_failed_after_ms"] != 30000 || got["queries"] < 400 {
		t.Errorf("%v, want no answer and failures after 30 s", got)
	}
}

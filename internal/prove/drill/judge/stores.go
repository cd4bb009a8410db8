package judge

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// patienceSlack is how much sooner than a store's patience a query may fail: its
// client and the store read two clocks, and the request travels.
const patienceSlack = 100 * time.Millisecond

// stored is what a store has of the lines of one origin in the end.
type stored struct {
	site, origin string
	lines, last  uint64
}

// stores lists what the stores had in the end; an event that cannot be read is
// left out and missed.
func (j *run) stores() []stored {
	var out []stored
	for _, e := range j.rec.Events {
		if e.Kind != record.KindStored {
			continue
		}
		lines, err := strconv.ParseUint(e.Keys["lines"], 10, 64)
		last, err2 := strconv.ParseUint(e.Keys["last"], 10, 64)
		if err == nil && err2 == nil {
			out = append(out, stored{e.Keys["site"], e.Keys["origin"], lines, last})
		}
	}
	return out
}

// storesOutOfBounds wants no line to be missing once the cut is healed.
func (j *run) storesOutOfBounds() []string {
	var out []string
	for _, s := range j.stores() {
		if s.lines != s.last {
			out = append(out, fmt.Sprintf("the store of %s finds %d of %d lines of %s after the heal", s.site, s.lines, s.last, s.origin))
		}
	}
	return out
}

// unstored doubts a run in which the stores were not asked in the end, or whose
// queries failed for another reason than a shard that does not answer.
func (j *run) unstored() []string {
	if !j.rec.Case.HasStores() || j.rec.Run.Injected.IsZero() {
		return nil
	}
	var out []string
	seen := j.stores()
	for _, site := range j.rec.Case.Stores.Sites {
		for _, origin := range j.rec.Case.Stores.Sites {
			if !slices.ContainsFunc(seen, func(s stored) bool { return s.site == site && s.origin == origin }) {
				out = append(out, fmt.Sprintf("what the store of %s has of %s in the end is not known; see logs/store-%s.log", site, origin, site))
			}
		}
	}
	if j.rec.Run.Agents {
		return out
	}
	if took := j.failures(); len(took) > 0 && took[0] < j.rec.Case.Stores.Patience-patienceSlack {
		out = append(out, fmt.Sprintf("a query failed after %s, sooner than the store's patience of %s; the fault was not felt as described", secs(millis(took[0])), j.rec.Case.Stores.Patience))
	}
	return out
}

// failures lists how long queries took that failed while the faults were in force,
// in order of length.
func (j *run) failures() []time.Duration {
	var out []time.Duration
	for _, s := range j.queries() {
		if !s.OK && s.Done.Before(j.healed()) {
			out = append(out, s.Done.Sub(s.Sent))
		}
	}
	slices.Sort(out)
	return out
}

// queries lists those that were sent while the faults were in force.
func (j *run) queries() []probe.Sample {
	var out []probe.Sample
	for _, p := range j.rec.Case.Paths {
		if p.Kind == scenario.KindQuery {
			out = append(out, during(j.paths[p.Name], j.origin(), j.healed())...)
		}
	}
	return out
}

// storeNumbers are the figures of queries: how many were sent and answered while
// the faults were in force, how long an answer took at most, and a failure in the
// middle.
func storeNumbers(rec *record.Record) map[string]float64 {
	if rec.Run.Injected.IsZero() || !rec.Case.HasStores() {
		return nil
	}
	j := &run{rec: rec, paths: probe.ByPath(rec.Samples)}
	out := map[string]float64{"queries": 0, "queries_answered": 0}
	for _, s := range j.queries() {
		out["queries"]++
		if s.OK && s.Done.Before(j.healed()) {
			out["queries_answered"]++
			out["query_answered_after_ms"] = max(out["query_answered_after_ms"], millis(s.Done.Sub(s.Sent)))
		}
	}
	if took := j.failures(); len(took) > 0 {
		out["query_failed_after_ms"] = millis(took[len(took)/2])
	}
	return out
}

package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// write is one write that was acknowledged.
type write struct {
	key      string
	revision int64
	site     string // whose member acknowledged it
	done     time.Time
}

// acknowledged lists the writes that were, from the start of the run on.
func (j *run) acknowledged() []write {
	var out []write
	for _, p := range j.rec.Case.Paths {
		if p.Kind != scenario.KindWrite {
			continue
		}
		for _, s := range j.paths[p.Name] {
			if s.OK && s.Key != "" {
				out = append(out, write{s.Key, s.Revision, p.Target, s.Done})
			}
		}
	}
	slices.SortFunc(out, func(a, b write) int {
		return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.key, b.key))
	})
	return out
}

// lostWrites lists acknowledged writes that a member did not have in the end, or at
// another revision than was acknowledged.
func (j *run) lostWrites() []write {
	var out []write
	for _, w := range j.acknowledged() {
		for _, has := range j.rec.Keys {
			if has.Error == "" && has.Keys[w.key] != w.revision {
				out = append(out, w)
				break
			}
		}
	}
	return out
}

// twice lists revisions at which two writes were acknowledged: two members took writes
// without each other. A person who gives writes up has their revisions used again.
func (j *run) twice() []int64 {
	var out []int64
	all := j.acknowledged()
	if j.rec.Case.Pair.Loses {
		lost := j.lostWrites()
		all = slices.DeleteFunc(all, func(w write) bool { return slices.Contains(lost, w) })
	}
	for i := 1; i < len(all); i++ {
		if all[i].revision == all[i-1].revision && all[i].key != all[i-1].key {
			out = append(out, all[i].revision)
		}
	}
	return out
}

// differing counts keys of writes that the members do not have alike in the end.
func (j *run) differing() int {
	n := 0
	sites := slices.Sorted(maps.Keys(j.rec.Keys))
	for i, s := range sites {
		for _, other := range sites[i+1:] {
			a, b := j.rec.Keys[s], j.rec.Keys[other]
			if a.Error == "" && b.Error == "" {
				n += unlikeKeys(a.Keys, b.Keys)
			}
		}
	}
	return n
}

// unlikeKeys counts the keys that only one of two members has, or has at another
// revision.
func unlikeKeys(a, b map[string]int64) int {
	n := 0
	for key, revision := range a {
		if b[key] != revision {
			n++
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			n++
		}
	}
	return n
}

// stood is the record from a moment on.
type stood struct {
	at         time.Time
	paired     bool
	survivor   string
	generation int
}

// stands lists what the record said, in order.
func (j *run) stands() []stood {
	var out []stood
	for _, e := range j.rec.Events {
		if e.Kind != record.KindPairRecord {
			continue
		}
		generation, _ := strconv.Atoi(e.Keys["generation"])
		out = append(out, stood{e.At, e.Keys["state"] == "paired", e.Keys["survivor"], generation})
	}
	return out
}

// restored is when the last fault ended, from which on the pair may be expected back.
func (j *run) restored() time.Time {
	var last time.Time
	for _, f := range j.rec.Run.Faults {
		if f.To.After(last) {
			last = f.To
		}
	}
	return last
}

// pairedAgain is how long after that the record said paired for good; ok is false when it
// does not at the end.
func (j *run) pairedAgain() (took time.Duration, ok bool) {
	all := j.stands()
	if len(all) == 0 || !all[len(all)-1].paired {
		return 0, false
	}
	return max(0, all[len(all)-1].at.Sub(j.restored())), true
}

// survivors lists who served alone after the first fault, in order, and when the first
// of them was allowed to.
func (j *run) survivors() (sites []string, first time.Time) {
	for _, s := range j.stands() {
		if s.paired || s.at.Before(j.origin()) {
			continue
		}
		if first.IsZero() {
			first = s.at
		}
		if !slices.Contains(sites, s.survivor) {
			sites = append(sites, s.survivor)
		}
	}
	return sites, first
}

// pairOutOfBounds compares what became of a pair in a run with the agents with what
// the scenario allows.
func (j *run) pairOutOfBounds() []string {
	c := j.rec.Case
	if !j.rec.Run.Agents || !c.HasPair() || j.rec.Run.Injected.IsZero() {
		return nil
	}
	out := j.lossOutOfBounds()
	for _, site := range c.PairSites() {
		switch has, ok := j.rec.Keys[site]; {
		case !ok:
			out = append(out, fmt.Sprintf("what the member of %s has in the end is not known", site))
		case has.Error != "":
			out = append(out, "the end: "+has.Error)
		}
	}
	for _, p := range c.Paths {
		if c.ExpectationOf(p).Role == scenario.RoleInfo && !j.whole(j.paths[p.Name]) {
			out = append(out, p.Name+": not whole at the end of the settle phase")
		}
	}
	if n := j.differing(); n > 0 {
		out = append(out, fmt.Sprintf("the members differ in %s in the end", count(n, "key")))
	}
	switch took, ok := j.pairedAgain(); {
	case !ok:
		out = append(out, "the record does not say paired in the end")
	case took > c.Pair.Paired:
		out = append(out, fmt.Sprintf("paired again %s after the last fault ended, allowed %s", secs(millis(took)), secs(millis(c.Pair.Paired))))
	}
	return append(out, j.survivorOutOfBounds()...)
}

// lossOutOfBounds is the promise: nothing acknowledged is lost, unless a person has given
// it up, and then only what a member acknowledged alone.
func (j *run) lossOutOfBounds() []string {
	lost := j.lostWrites()
	if j.rec.Case.Pair.Loses {
		for _, w := range lost {
			if s, alone := j.standAt(w.done); !alone || s != w.site {
				return []string{fmt.Sprintf("%s, acknowledged at %s by %s, is lost, and that member did not serve alone then", w.key, secs(j.ms(w.done)), w.site)}
			}
		}
		return nil
	}
	var out []string
	if len(lost) > 0 {
		w := lost[0]
		out = append(out, fmt.Sprintf("%s of %d lost; the first, %s at revision %d, by %s at %s", count(len(lost), "acknowledged write"), len(j.acknowledged()), w.key, w.revision, w.site, secs(j.ms(w.done))))
	}
	if twice := j.twice(); len(twice) > 0 {
		out = append(out, fmt.Sprintf("two writes each were acknowledged at %s, the first at %d: two members took writes at once", count(len(twice), "revision"), twice[0]))
	}
	return out
}

// standAt is who served alone at a time, as the record had it; a change of the record
// is seen a little after it was made.
func (j *run) standAt(at time.Time) (site string, alone bool) {
	for _, s := range j.stands() {
		if s.at.After(at.Add(seenWithin)) {
			break
		}
		site, alone = s.survivor, !s.paired
	}
	return site, alone
}

func (j *run) survivorOutOfBounds() []string {
	p := j.rec.Case.Pair
	sites, first := j.survivors()
	switch want := p.Survivor; {
	case want == scenario.SurvivorNone && len(sites) > 0:
		return []string{fmt.Sprintf("%s was to serve alone from %s on, and nobody should have been", sites[0], secs(j.ms(first)))}
	case want != scenario.SurvivorNone && want != scenario.SurvivorAny && !slices.Equal(sites, []string{want}):
		return []string{fmt.Sprintf("%v served alone, and %s should have", sites, want)}
	case p.AloneAfter > 0 && !first.IsZero() && first.Sub(j.origin()) < p.AloneAfter:
		return []string{fmt.Sprintf("%s was to serve alone from %s on, allowed from %s on", sites[0], secs(j.ms(first)), secs(millis(p.AloneAfter)))}
	}
	return nil
}

// pairNumbers are the figures of a run with a pair: how long after the fault the last of
// the judged clients could write again, how many writes were acknowledged and lost,
// at how many revisions two were, in how many keys the members differ in the end, and
// how long after the last fault ended the record said paired.
func pairNumbers(rec *record.Record, paths []report.Path) map[string]float64 {
	if !rec.Case.HasPair() || rec.Run.Injected.IsZero() {
		return nil
	}
	j := &run{rec: rec, paths: probe.ByPath(rec.Samples)}
	out := map[string]float64{
		"acked": float64(len(j.acknowledged())), "acked_lost": float64(len(j.lostWrites())),
		"two_writable": float64(len(j.twice())), "divergent": float64(j.differing()),
	}
	// Of a side that must not write, or may or may not, no time is promised.
	unpromised := map[string]bool{}
	for _, p := range rec.Case.Paths {
		w := rec.Case.ExpectationOf(p).Window
		unpromised[p.Name] = w == scenario.Never || w == scenario.Any
	}
	for _, p := range paths {
		if p.Kind == scenario.KindWrite && p.Role == scenario.RoleAffected && !unpromised[p.Name] {
			out["writable_ms"] = max(out["writable_ms"], j.writable(p))
		}
	}
	if !rec.Run.Agents {
		return out
	}
	if took, ok := j.pairedAgain(); ok {
		out["paired_again_ms"] = millis(took)
	}
	if all := j.stands(); len(all) > 0 {
		out["generation"] = float64(all[len(all)-1].generation)
	}
	return out
}

// promised are the figures that the promise of a pair names, without the side: they are
// those of the run with the agents.
func promised(v report.Variant, figures map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for _, name := range []string{"writable_ms", "acked_lost", "paired_again_ms"} {
		if value, ok := figures[name]; ok {
			out[prefixOf(v)+name] = value
		}
	}
	return out
}

// writable is when a path could be written to for good, also where that was only
// after the fault.
func (j *run) writable(p report.Path) float64 {
	if p.RecoveredMS != nil {
		return *p.RecoveredMS
	}
	last := 0.0
	for _, o := range p.Outages {
		last = max(last, o.ToMS)
	}
	return last
}

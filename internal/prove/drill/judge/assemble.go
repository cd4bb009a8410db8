package judge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// Assemble judges all records of one drill and puts them into one report. The
// records may come in any order; their variants stand in the order of first
// appearance, main first.
func Assemble(records []*record.Record) *report.Report {
	out := &report.Report{Version: report.Version, Verdict: report.Inconclusive, Numbers: map[string]float64{}, Paths: []report.Path{}}
	if len(records) == 0 {
		out.Reasons = []string{"nothing was run"}
		return out
	}
	first := records[0]
	out.Scenario, out.Title = first.Case.Scenario, first.Case.Title
	out.Sites = sites(first)
	out.Environment = maps.Clone(first.Run.Environment)
	var variants []report.Variant
	for _, group := range groups(records) {
		v := variant(group)
		variants = append(variants, v)
		maps.Copy(out.Numbers, numbers(v))
		maps.Copy(out.Numbers, group.figures(v))
	}
	for _, r := range records {
		if out.Started.IsZero() || r.Run.Started.Before(out.Started) {
			out.Started = r.Run.Started
		}
	}
	conclude(out, variants)
	return out
}

// conclude spreads the variants over the report: the main one on top.
func conclude(out *report.Report, variants []report.Variant) {
	out.Verdict = report.Pass
	for _, v := range variants {
		out.Verdict = worse(out.Verdict, v.Verdict)
	}
	for i, v := range variants {
		if i == 0 && v.Verdict == report.Pass && out.Verdict != report.Pass {
			// The report has no verdict of its own for the main variant and takes
			// a remark on it for a failed comparison. Its runs keep theirs.
			continue
		}
		for _, r := range v.Reasons {
			if len(variants) > 1 {
				r = v.Name + ": " + r
			}
			out.Reasons = append(out.Reasons, r)
		}
	}
	main := variants[0]
	out.With, out.Without = main.With, main.Without
	out.Variants = variants[1:]
	if shown := cmp.Or(out.With, out.Without); shown != nil {
		out.Paths = shown.Paths
	}
}

// group is one variant's records.
type group struct {
	c             *scenario.Case
	with, without *record.Record
}

func groups(records []*record.Record) []group {
	var out []group
	for _, r := range records {
		i := slices.IndexFunc(out, func(g group) bool { return g.c.Variant == r.Case.Variant })
		if i < 0 {
			out = append(out, group{c: r.Case})
			i = len(out) - 1
		}
		if r.Run.Agents {
			out[i].with = r
		} else {
			out[i].without = r
		}
	}
	slices.SortStableFunc(out, func(a, b group) int { return rank(a) - rank(b) })
	return out
}

func rank(g group) int {
	if g.c.Variant == "main" {
		return 0
	}
	return 1
}

func variant(g group) report.Variant {
	v := report.Variant{Name: g.c.Variant, Verdict: report.Pass}
	if g.without != nil {
		r := Run(g.without)
		unlike(&r)
		v.Without = &r
		take(&v, r, g.c.SideWords(false)+": ")
	}
	if g.with != nil {
		r := Run(g.with)
		v.With = &r
		take(&v, r, "")
	}
	if g.c.Compare != nil && told(v.With) && told(v.Without) {
		for _, reason := range compare(g.c, v.With, v.Without) {
			v.Verdict = worse(v.Verdict, report.Fail)
			v.Reasons = append(v.Reasons, reason)
		}
	}
	if g.c.Compare != nil && (g.with == nil || g.without == nil) {
		v.Reasons = append(v.Reasons, "not compared: run without --with/--without")
	}
	return v
}

// told says that a run can be compared: one that is inconclusive proves nothing,
// also not that the other was worse.
func told(r *report.Run) bool { return r != nil && r.Verdict != report.Inconclusive }

func take(v *report.Variant, r report.Run, prefix string) {
	v.Verdict = worse(v.Verdict, r.Verdict)
	for _, reason := range r.Reasons {
		v.Reasons = append(v.Reasons, prefix+reason)
	}
}

// unlike turns a failed run without agents into an inconclusive one. The
// agents are what is judged; a world that is unlike the scenario without them
// says nothing about them.
func unlike(r *report.Run) {
	if r.Verdict == report.Fail {
		r.Verdict = report.Inconclusive
	}
}

// worse is the verdict of two things together. A failure stays a failure
// beside something that could not be told.
func worse(a, b report.Verdict) report.Verdict {
	order := []report.Verdict{report.NotApplicable, report.Pass, report.Inconclusive, report.Fail}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

func sites(r *record.Record) []report.Site {
	var out []report.Site
	for _, s := range r.Case.Lab.Sites {
		site := report.Site{Name: s.Name, Witness: s.Witness}
		for _, member := range slices.Sorted(maps.Keys(r.Run.Members)) {
			if r.Run.Members[member] == s.Name {
				site.Members = append(site.Members, member)
			}
		}
		out = append(out, site)
	}
	return out
}

// defaultTolerance is for a Compare that names none.
const defaultTolerance = time.Second

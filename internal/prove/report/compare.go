package report

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Comparison is two drills side by side: what became longer, and what shorter.
type Comparison struct {
	Version int  `json:"version"`
	Before  Side `json:"before"`
	After   Side `json:"after"`
	// Doubts are reasons why the two may not be alike beyond what was to be compared.
	Doubts []string `json:"doubts,omitempty"`
	// Changes has every path of every variant, with and without the agents, that one
	// of the two drills has; controls are left out.
	Changes []Change `json:"changes"`
	// Numbers are the figures that differ, by name.
	Numbers map[string]Pair `json:"numbers,omitempty"`
}

// Side is one of two drills.
type Side struct {
	Scenario string    `json:"scenario"`
	Started  time.Time `json:"started"`
	Verdict  Verdict   `json:"verdict"`
}

// Pair is a figure of both drills; nil where one lacks it.
type Pair struct {
	Before *float64 `json:"before"`
	After  *float64 `json:"after"`
}

// Direction says where a path went from one drill to the other.
type Direction string

const (
	Longer  Direction = "longer"
	Shorter Direction = "shorter"
	// Same: the bounds overlap, so that no difference is shown.
	Same       Direction = "same"
	OnlyBefore Direction = "only-before"
	OnlyAfter  Direction = "only-after"
)

// Change is one path in both drills.
type Change struct {
	Variant string `json:"variant"`
	Agents  bool   `json:"agents"`
	Path    string `json:"path"`
	Role    string `json:"role"`
	// Before and After are the longest outage; nil where the drill lacks the path.
	Before    *Gap      `json:"before"`
	After     *Gap      `json:"after"`
	Direction Direction `json:"direction"`
	// LowerMS and UpperMS bracket After minus Before: the true difference lies
	// between them. Both are 0 where a drill lacks the path; a bound is none on the side
	// that an open outage leaves open.
	LowerMS float64 `json:"lower_ms"`
	UpperMS float64 `json:"upper_ms"`
}

// Gap is the longest outage of a path; all zero where it had none.
type Gap struct {
	LowerMS float64 `json:"lower_ms"`
	UpperMS float64 `json:"upper_ms"`
	// Open: it had not ended when the run did, so that UpperMS is no bound.
	Open    bool    `json:"open,omitempty"`
	Verdict Verdict `json:"verdict"`
}

// Compare sets two drills side by side. Of paths with both bounds known the difference
// is bracketed as well: a change within what sampling can tell is no change.
func Compare(before, after *Report) *Comparison {
	c := &Comparison{
		Version: Version, Before: sideOf(before), After: sideOf(after),
		Doubts: doubts(before, after), Changes: []Change{}, Numbers: figures(before.Numbers, after.Numbers),
	}
	was, is := before.sections(), after.sections()
	for _, name := range union(sectionNames(was), sectionNames(is)) {
		a, b := sectionOf(was, name), sectionOf(is, name)
		c.Changes = append(c.Changes, changes(name, false, a.Without, b.Without)...)
		c.Changes = append(c.Changes, changes(name, true, a.With, b.With)...)
	}
	return c
}

func sideOf(r *Report) Side { return Side{r.Scenario, r.Started, r.Verdict} }

// doubts names what differs between the surroundings of two drills.
func doubts(before, after *Report) (all []string) {
	if before.Scenario != after.Scenario {
		all = append(all, "the scenarios differ: "+before.Scenario+" and "+after.Scenario)
	}
	for _, r := range []struct {
		when string
		of   *Report
	}{{"earlier", before}, {"later", after}} {
		if r.of.Verdict == Inconclusive {
			all = append(all, "the "+r.when+" drill is inconclusive")
		}
	}
	for _, key := range union(sortedKeys(before.Environment), sortedKeys(after.Environment)) {
		if was, is := before.Environment[key], after.Environment[key]; was != is {
			all = append(all, key+": "+cmp.Or(was, "not known")+", then "+cmp.Or(is, "not known"))
		}
	}
	return all
}

func figures(before, after map[string]float64) map[string]Pair {
	all := map[string]Pair{}
	for name, v := range before {
		all[name] = Pair{Before: &v}
	}
	for name, v := range after {
		pair := all[name]
		pair.After = &v
		all[name] = pair
	}
	maps.DeleteFunc(all, func(_ string, p Pair) bool { return p.Before != nil && p.After != nil && *p.Before == *p.After })
	return all
}

func sectionNames(list []section) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

func sectionOf(list []section, name string) section {
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	return section{}
}

// union has the elements of a and then those of b that a lacks.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// changes compares two runs; either may be nil.
func changes(variant string, agents bool, before, after *Run) (all []Change) {
	for _, name := range union(pathNames(before), pathNames(after)) {
		was, is := before.path(name), after.path(name)
		c := Change{Variant: variant, Agents: agents, Path: name}
		for _, p := range []*Path{was, is} {
			if p != nil {
				c.Role = p.Role
			}
		}
		if c.Role == "control" {
			continue
		}
		c.Before, c.After = gapOf(was), gapOf(is)
		c.judge()
		all = append(all, c)
	}
	return all
}

func pathNames(run *Run) (names []string) {
	if run == nil {
		return nil
	}
	for _, p := range run.Paths {
		names = append(names, p.Name)
	}
	return names
}

func gapOf(p *Path) *Gap {
	if p == nil {
		return nil
	}
	g := &Gap{Verdict: p.Verdict}
	if o := p.longest(); o != nil {
		g.LowerMS, g.UpperMS, g.Open = o.LowerMS, o.UpperMS, o.Open
	}
	return g
}

// judge brackets the difference. The true outage x lies in [a.Lower, a.Upper] and y in
// [b.Lower, b.Upper], so y-x lies in [b.Lower-a.Upper, b.Upper-a.Lower].
func (c *Change) judge() {
	switch {
	case c.After == nil:
		c.Direction = OnlyBefore
		return
	case c.Before == nil:
		c.Direction = OnlyAfter
		return
	}
	c.LowerMS = c.After.LowerMS - c.Before.UpperMS
	c.UpperMS = c.After.UpperMS - c.Before.LowerMS
	c.Direction = Same
	switch {
	case c.LowerMS > 0 && !c.Before.Open:
		c.Direction = Longer
	case c.UpperMS < 0 && !c.After.Open:
		c.Direction = Shorter
	}
}

package report

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// section is one starting position of a scenario as all renderings see it: the
// main variant, whose name is "main", or one of the others.
type section struct {
	Name    string
	Verdict Verdict
	Reasons []string
	With    *Run
	Without *Run
}

const mainVariant = "main"

// sections lists the main variant and the others in report order.
func (r *Report) sections() []section {
	main := section{Name: mainVariant, With: r.With, Without: r.Without}
	main.Verdict, main.Reasons = r.mainVerdict()
	// Paths repeats those of the judged run, so a writer may leave them out there.
	if run := main.judged(); run != nil && len(run.Paths) == 0 && len(r.Paths) > 0 {
		filled := *run
		filled.Paths = r.Paths
		if main.With != nil {
			main.With = &filled
		} else {
			main.Without = &filled
		}
	}
	list := []section{main}
	for _, v := range r.Variants {
		list = append(list, section(v))
	}
	return list
}

// mainVerdict is the part of the verdict that concerns the main variant. With
// other variants beside it, the report's own verdict is the worst of all, and its
// reasons start with the name of their variant.
func (r *Report) mainVerdict() (Verdict, []string) {
	if len(r.Variants) == 0 {
		return r.Verdict, r.Reasons
	}
	var verdict Verdict
	for _, run := range []*Run{r.Without, r.With} {
		if run != nil {
			verdict = worse(verdict, run.Verdict)
		}
	}
	var reasons []string
	for _, reason := range r.Reasons {
		if own, ok := strings.CutPrefix(reason, mainVariant+": "); ok {
			reasons = append(reasons, own)
		}
	}
	switch {
	case verdict == "":
		verdict = r.Verdict
	case verdict == Pass && len(reasons) > 0 && r.Verdict != Pass:
		verdict = Fail // the runs passed, their comparison did not
	}
	return verdict, reasons
}

// worse is the verdict of two things together.
func worse(a, b Verdict) Verdict {
	order := []Verdict{"", NotApplicable, Pass, Inconclusive, Fail}
	return order[max(slices.Index(order, a), slices.Index(order, b), 0)]
}

// judged is the run that the verdict is about; nil when nothing ran.
func (s section) judged() *Run {
	if s.With != nil {
		return s.With
	}
	return s.Without
}

// runs lists what ran, without the agents first.
func (s section) runs() []*Run {
	var list []*Run
	for _, run := range []*Run{s.Without, s.With} {
		if run != nil {
			list = append(list, run)
		}
	}
	return list
}

// path finds a path by name; nil when the run, or the path, does not exist.
func (run *Run) path(name string) *Path {
	if run == nil {
		return nil
	}
	for i := range run.Paths {
		if run.Paths[i].Name == name {
			return &run.Paths[i]
		}
	}
	return nil
}

// siteNames lists the sites of r in drawing order: the declared ones, then those
// that only paths name.
func (r *Report) siteNames(s section) []string {
	var names []string
	for _, site := range r.Sites {
		names = append(names, site.Name)
	}
	for _, run := range s.runs() {
		for _, p := range run.Paths {
			if !slices.Contains(names, p.Site) {
				names = append(names, p.Site)
			}
		}
	}
	return names
}

// siteOf finds the site of an etcd member: where Sites lists it, else the site
// that the name is made of ("b", "b1", "etcd-b"); "" when neither tells.
func (r *Report) siteOf(member string, known []string) string {
	for _, site := range r.Sites {
		if slices.Contains(site.Members, member) {
			return site.Name
		}
	}
	bare := strings.TrimRight(member, "0123456789")
	tail := bare[strings.LastIndexAny(bare, "-/.")+1:]
	for _, guess := range []string{member, bare, tail} {
		if guess != "" && slices.Contains(known, guess) {
			return guess
		}
	}
	return ""
}

// longest is the outage of p with the greatest upper bound; nil without one.
func (p *Path) longest() *Outage {
	if p == nil || len(p.Outages) == 0 {
		return nil
	}
	longest := slices.MaxFunc(p.Outages, func(a, b Outage) int { return cmp.Compare(a.UpperMS, b.UpperMS) })
	return &longest
}

// required says whether the verdict depends on p answering.
func (p *Path) required() bool { return p.Role != "info" && p.Role != "control" }

func (run *Run) requiredPaths() int {
	n := 0
	for i := range run.Paths {
		if run.Paths[i].required() {
			n++
		}
	}
	return n
}

// lost lists the required paths that did not answer again while the fault was in
// force.
func (run *Run) lost() []*Path {
	var list []*Path
	for i := range run.Paths {
		p := &run.Paths[i]
		if p.required() && p.RecoveredMS == nil && len(p.Outages) > 0 {
			list = append(list, p)
		}
	}
	return list
}

// worst is the longest outage of any required path; nil without one.
func (run *Run) worst() *Outage {
	var worst *Outage
	for i := range run.Paths {
		if !run.Paths[i].required() {
			continue
		}
		if o := run.Paths[i].longest(); o != nil && (worst == nil || o.UpperMS > worst.UpperMS) {
			worst = o
		}
	}
	return worst
}

// tone is the colour of the big figure of a run: bad when the cluster broke its
// promise, plain when the run proved nothing, else good.
func (run *Run) tone() string {
	switch {
	case !run.Recovered, run.Verdict == Fail:
		return "bad"
	case run.Verdict == Inconclusive:
		return "plain"
	}
	return "good"
}

// downMS is the one number of a run: until the last required path answered for
// good or, when that never happened under the fault, how long the worst was out.
func (run *Run) downMS() float64 {
	if run.Recovered && run.RecoveryMS != nil && *run.RecoveryMS > 0 {
		return *run.RecoveryMS
	}
	if worst := run.worst(); worst != nil {
		return worst.UpperMS
	}
	return 0
}

// spanMS is the time that the run's drawing covers. The time before the injection
// is cut to a quarter of the time after it: nothing happens there.
func spanMS(runs []*Run) (from, to float64) {
	for _, run := range runs {
		for _, p := range run.Paths {
			for _, s := range p.Strip {
				from, to = min(from, s.FromMS), max(to, s.ToMS)
			}
		}
		for _, f := range run.Faults {
			to = max(to, f.FromMS, f.ToMS)
		}
		for _, e := range run.Events {
			to = max(to, e.AtMS)
		}
	}
	const day = 24 * 3600 * 1000 // nothing longer can be drawn usefully
	to = math.Min(math.Max(to, 1000), day)
	return max(from, -to/4), to
}

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// sectionView is one variant as the page shows it.
type sectionView struct {
	ID       string
	Name     string
	Main     bool
	Verdict  Verdict
	Why      string
	Reasons  []string
	Runs     []runView
	Variants []variantRow  // in the main section: all of them
	Sides    sides         // the headings of their columns
	Sites    template.HTML // the diagram
	Wide     template.HTML
	Narrow   template.HTML
	Columns  int
	Groups   []groupView
	Windows  []fact
	Matrix   matrix
}

type runView struct {
	Heading, Headline, Caption, Story string
	// First is whom the fault was noticed by first; "" where by nobody.
	First   string
	Tone    string // good, bad or plain
	Bar     string // of 1000
	Facts   []fact
	Noticed []notice
	More    int
	Faults  []faultView
	Phases  []fact
}

type variantRow struct {
	ID, Name, Without, With, Moves string
	Verdict                        Verdict
}

type groupView struct {
	Site  string
	Paths []pathView
}

type pathView struct {
	Name, Label, Role, Allowed, Latency, Reason string
	Error, Classes                              string // of the longest outage: first error, failures by class
	Verdict                                     Verdict
	Gaps                                        []*gapView // one per run, nil when the run lacks the path
}

type gapView struct {
	Text   string
	Down   bool
	Failed string
}

type faultView struct {
	Text, From, To string
	Verified       bool
}

func sectionViews(r *Report) []sectionView {
	list := r.sections()
	var views []sectionView
	for i, s := range list {
		v := sectionView{
			ID: "variant-" + strconv.Itoa(i), Name: clean(s.Name), Main: i == 0, Verdict: s.Verdict,
			Why: why(s.Verdict), Matrix: matrixOf(r, s), Groups: groupViews(r, s), Windows: windowFacts(s),
			Columns: 6 + len(s.runs()),
		}
		if i > 0 { // the page's head has those of the whole
			v.Reasons = reasonTexts(s.Reasons)
		}
		for _, run := range s.runs() {
			v.Runs = append(v.Runs, viewRun(s, run))
		}
		v.Sites = template.HTML(bytes.TrimSpace(drawSites(r, s, "d"+strconv.Itoa(i))))
		v.Wide = inline(r, s, Picture{id: "w" + strconv.Itoa(i)})
		v.Narrow = inline(r, s, Picture{id: "n" + strconv.Itoa(i), Width: 400})
		if i == 0 && len(list) > 1 {
			v.Variants, v.Sides = variantRows(list), sidesOf(list)
		}
		views = append(views, v)
	}
	return views
}

// inline draws a timeline for the page. The drawing escapes its own texts, so the
// template may take it as it is.
func inline(r *Report, s section, p Picture) template.HTML {
	p.inline = true
	return template.HTML(bytes.TrimSpace(draw(r, s, p)))
}

func reasonTexts(reasons []string) []string {
	var list []string
	for _, reason := range reasons {
		list = append(list, brief(reason, 500))
	}
	return list
}

func why(v Verdict) string {
	switch v {
	case Pass:
		return "Passed, with these remarks:"
	case Fail:
		return "Failed, because:"
	case Inconclusive:
		return "Could not tell, because:"
	}
	return "Not applicable, because:"
}

func viewRun(s section, run *Run) runView {
	var most float64
	for _, other := range s.runs() {
		most = max(most, other.downMS())
	}
	v := runView{
		Heading: run.heading(), Headline: run.headline(), Caption: run.caption(), Story: run.story(), First: first(run),
		Tone: run.tone(), Bar: "0",
	}
	if most > 0 {
		v.Bar = strconv.Itoa(int(math.Round(run.downMS() / most * 1000)))
	}
	if run.Agents {
		v.Facts = moveFacts(run)
	}
	v.Noticed, v.More = noticed(run)
	for _, f := range run.Faults {
		v.Faults = append(v.Faults, faultView{brief(cmp.Or(f.Detail, f.Kind+" "+f.Name), 120), moment(f.FromMS), moment(f.ToMS), f.Verified})
	}
	for _, p := range run.Phases {
		v.Phases = append(v.Phases, fact{clean(p.Name), moment(p.FromMS) + " to " + moment(p.ToMS)})
	}
	return v
}

func moveFacts(run *Run) []fact {
	var list []fact
	if run.Moves > 0 || run.aboutLeaders() {
		list = append(list, fact{"Moves", strconv.Itoa(run.Moves)})
	}
	if run.FirstMoveMS != nil {
		list = append(list, fact{"First move done after", span(*run.FirstMoveMS)})
	}
	if run.TransferMS != nil {
		list = append(list, fact{"Transfer", span(*run.TransferMS)})
	}
	if run.Moves > 0 || run.Inflight > 0 {
		list = append(list, fact{"Requests in flight hit", strconv.Itoa(run.Inflight)})
	}
	return list
}

// sides are the headings of the two sides of a report.
type sides struct{ Without, With string }

func sidesOf(list []section) sides {
	var runs []*Run
	for _, s := range list {
		runs = append(runs, s.Without, s.With)
	}
	return sides{brief(sideHeading(false, runs...), 60), brief(sideHeading(true, runs...), 60)}
}

func variantRows(list []section) []variantRow {
	var rows []variantRow
	for i, s := range list {
		row := variantRow{ID: "variant-" + strconv.Itoa(i), Name: brief(s.Name, 60), Without: "—", With: "—", Moves: "—", Verdict: s.Verdict}
		if s.Without != nil {
			row.Without = s.Without.headline()
		}
		if s.With != nil {
			row.With, row.Moves = s.With.headline(), strconv.Itoa(s.With.Moves)
		}
		rows = append(rows, row)
	}
	return rows
}

func groupViews(r *Report, s section) []groupView {
	run := s.judged()
	if run == nil {
		return nil
	}
	var list []groupView
	for _, site := range r.siteNames(s) {
		g := groupView{Site: clean(site)}
		for i := range run.Paths {
			if run.Paths[i].Site == site {
				g.Paths = append(g.Paths, viewPath(s, &run.Paths[i], run.manyTargets()))
			}
		}
		if len(g.Paths) > 0 {
			list = append(list, g)
		}
	}
	return list
}

func viewPath(s section, p *Path, withTarget bool) pathView {
	v := pathView{
		Name: clean(p.Name), Label: brief(p.label(withTarget), 60), Role: clean(p.Role), Verdict: p.Verdict,
		Reason: brief(p.Reason, 200), Allowed: strings.TrimPrefix(allowed(p.Expected), "allowed "),
		Latency: fmt.Sprintf("%s / %s ms", number(round(p.P50MS)), number(round(p.P99MS))),
	}
	for _, run := range s.runs() {
		twin := run.path(p.Name)
		if twin == nil {
			v.Gaps = append(v.Gaps, nil)
			continue
		}
		g := &gapView{Text: gap(twin), Down: len(twin.Outages) > 0}
		if twin.Failed > 0 {
			g.Failed = fmt.Sprintf("%d of %d failed", twin.Failed, twin.Samples)
		}
		v.Gaps = append(v.Gaps, g)
		if o := twin.longest(); o != nil && o.First != "" {
			v.Error, v.Classes = brief(o.First, 160), classCounts(o)
		}
	}
	return v
}

// classCounts prints how often each class of failure came: "timeout × 303".
func classCounts(o *Outage) string {
	var parts []string
	for _, name := range sortedKeys(o.Errors) {
		parts = append(parts, brief(cmp.Or(name, "other"), 20)+" × "+strconv.Itoa(o.Errors[name]))
	}
	return strings.Join(parts, ", ")
}

// windowFacts explains each distinct window once.
func windowFacts(s section) []fact {
	run := s.judged()
	if run == nil {
		return nil
	}
	var list []fact
	for _, p := range run.Paths {
		if p.Expected == nil || len(p.Expected.Why) == 0 {
			continue
		}
		f := fact{clean(p.Role) + " paths, " + allowed(p.Expected), brief(strings.Join(p.Expected.Why, "; "), 400)}
		if !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list
}

// matrix is the longest gap by client site and target.
type matrix struct {
	Both    bool
	Sides   sides
	Targets []string
	Rows    []matrixRow
}

type matrixRow struct {
	Site  string
	Cells []matrixCell
}

// matrixCell has Level none (no gap), hit (answered again), or lost.
type matrixCell struct{ Text, Level string }

func matrixOf(r *Report, s section) matrix {
	m := matrix{Both: len(s.runs()) == 2, Sides: sidesOf([]section{s})}
	run := s.judged()
	if run == nil {
		return m
	}
	for i := range run.Paths {
		if name := columnOf(&run.Paths[i]); run.Paths[i].Role != "control" && !slices.Contains(m.Targets, name) {
			m.Targets = append(m.Targets, name)
		}
	}
	for _, site := range r.siteNames(s) {
		row := matrixRow{Site: clean(site)}
		for _, target := range m.Targets {
			row.Cells = append(row.Cells, cellOf(s, site, target))
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

func columnOf(p *Path) string { return strings.TrimSpace(clean(p.Target) + " " + clean(p.Kind)) }

func cellOf(s section, site, column string) matrixCell {
	cell := matrixCell{Level: "none"}
	var texts []string
	for _, run := range s.runs() {
		var worst *Path
		for i := range run.Paths {
			p := &run.Paths[i]
			if p.Site != site || columnOf(p) != column || p.Role == "control" {
				continue
			}
			if worst == nil || p.longest() != nil && (worst.longest() == nil || p.longest().UpperMS > worst.longest().UpperMS) {
				worst = p
			}
		}
		text := "—"
		if worst != nil {
			text = short(worst)
			if worst.longest() != nil {
				cell.Level = "hit"
			}
			if worst.longest() != nil && worst.RecoveredMS == nil && run == s.judged() {
				cell.Level = "lost"
			}
		}
		texts = append(texts, text)
	}
	cell.Text = strings.Join(texts, " → ")
	return cell
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// round keeps three figures below 100 and none after the point above.
func round(v float64) float64 {
	if math.Abs(v) < 100 {
		return math.Round(v*10) / 10
	}
	return math.Round(v)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

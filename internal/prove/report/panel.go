package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/holdfast-ha/holdfast/internal/prove/report/svg"
)

const (
	headHeight = 20.0 // strip that names the faults
	laneHeight = 17.0 // one line of event texts
	groupGap   = 7.0  // between client sites
)

// panel draws one run: heading, fault bands, events, one row per path, axis.
func (s *sheet) panel(run *Run) {
	s.panelHeading(run)
	list := tags(run.Events, s.x, s.size, s.tagWidth)
	if s.summary {
		list = slices.DeleteFunc(list, func(t tag) bool { return !t.through })
	}
	lanes, lost := place(list, s.lanes, s.plotL, s.width-s.pad)

	top := s.y
	laneBase := top + headHeight + float64(lanes)*laneHeight + 8
	if len(list) == 0 {
		laneBase = top + headHeight
	}
	groups := s.groups(run)
	bottom := laneBase + 10 + s.rowsHeight(groups)

	s.bands(run, top, bottom)
	s.grid(laneBase, bottom)
	s.through(list, laneBase, bottom)
	s.y = laneBase + 10
	s.rows(run, groups)
	s.tags(list, laneBase, lost)
	s.axis(bottom)
	s.y = bottom + 26
}

// panelHeading names the run and puts its one number in large type.
func (s *sheet) panelHeading(run *Run) {
	if s.y > s.pad { // under something
		s.Line(s.pad, s.y, s.width-s.pad, s.y, "hf-rule")
	}
	class := "hf-strong hf-" + run.tone()
	s.y += 30
	s.Text(s.pad, s.y, "hf-strong", run.heading(), svg.N("font-size", 15))
	if s.narrow {
		s.Text(s.width-s.pad, s.y, class, run.headline(), svg.N("font-size", 21), svg.A("text-anchor", "end"))
		s.paragraph(run.caption(), s.size, s.size+5, "hf-mute", s.width-s.pad)
	} else {
		s.Text(s.numX, s.y, class, run.headline(), svg.N("font-size", 23))
		s.Text(s.plotL, s.y, "hf-mute", run.caption(), svg.N("font-size", 13))
	}
	s.y += 14
}

// group is the rows of one client site.
type group struct {
	site  string
	paths []*Path
}

// groups sorts the paths of a run by client site; in a summary, each site keeps
// the path that was down longest in either run.
func (s *sheet) groups(run *Run) []group {
	var list []group
	for _, site := range s.report.siteNames(s.section) {
		g := group{site: site}
		for i := range run.Paths {
			if run.Paths[i].Site == site && (!s.summary || run.Paths[i].Role != "control") {
				g.paths = append(g.paths, &run.Paths[i])
			}
		}
		if s.summary && len(g.paths) > 1 {
			g.paths = []*Path{slices.MaxFunc(g.paths, func(a, b *Path) int {
				return cmp.Compare(s.severity(a), s.severity(b))
			})}
		}
		if len(g.paths) > 0 {
			list = append(list, g)
		}
	}
	return list
}

// severity orders paths for the summary: time down in both runs together, and
// among equals those a verdict depends on.
func (s *sheet) severity(p *Path) float64 {
	var total float64
	for _, run := range s.section.runs() {
		if o := run.path(p.Name).longest(); o != nil {
			total += o.UpperMS
		}
	}
	if p.required() {
		total += .5
	}
	return total
}

func (s *sheet) rowsHeight(groups []group) float64 {
	var h float64
	for _, g := range groups {
		h += float64(len(g.paths))*s.row + groupGap
		if s.narrow && !s.summary {
			h += s.row
		}
	}
	return h
}

// bands draws the faults as vertical bands over all rows, named at the top.
func (s *sheet) bands(run *Run, top, bottom float64) {
	for _, f := range run.Faults {
		l, r := s.x(f.FromMS), s.x(f.ToMS)
		s.Titled("rect", faultTitle(f), append(svg.Box(l, top, math.Max(r-l, 2), bottom-top), svg.Class("hf-fault"))...)
		s.Rect(l, top, math.Max(r-l, 2), headHeight-3, "hf-faulthead")
		s.Line(l, top, l, bottom, "hf-faultedge")
		s.Line(r, top, r, bottom, "hf-faultedge")
	}
	s.bandLabels(run.Faults, top+13)
}

// bandLabels names the faults in their heads. Where a fault comes again and again
// and its band is too narrow, the first one's name stands for all.
func (s *sheet) bandLabels(faults []Fault, y float64) {
	edge := s.plotL
	for i := 0; i < len(faults); {
		text, n := faultLabel(faults[i]), 1
		for i+n < len(faults) && faultLabel(faults[i+n]) == text {
			n++
		}
		l, r := math.Max(s.x(faults[i].FromMS), edge), s.x(faults[i].ToMS)
		if n > 1 && svg.Width(text, s.size) > r-l-8 {
			text += " × " + strconv.Itoa(n)
			r = s.x(faults[i+n-1].ToMS)
		} else {
			n = 1
		}
		text = svg.Fit(text, s.size, math.Max(r-l-8, 0))
		if len([]rune(text)) >= 4 { // less than "cut…" tells nothing
			s.Text(l+5, y, "", text, svg.N("font-size", s.size))
			edge = l + 5 + svg.Width(text, s.size) + 6
		} else if !faults[i].Verified {
			s.Text((l+r)/2, y, "hf-strong", "?", svg.N("font-size", s.size), svg.A("text-anchor", "middle"))
		}
		i += n
	}
}

func faultLabel(f Fault) string {
	text := clean(f.Detail)
	if text == "" {
		text = clean(f.Kind + " " + f.Name)
	}
	if !f.Verified {
		text = "not in force? " + text
	}
	return text
}

func faultTitle(f Fault) string {
	return faultLabel(f) + ", from " + moment(f.FromMS) + " to " + moment(f.ToMS)
}

// through draws what changed who leads down through the rows, so that the eye
// finds the recovery below it.
func (s *sheet) through(list []tag, top, bottom float64) {
	for _, t := range list {
		if t.through {
			s.Line(t.x, top, t.x, bottom, "hf-through")
		}
	}
}

// tags draws the event lane: markers on base, texts above them.
func (s *sheet) tags(list []tag, base float64, lost int) {
	for _, t := range list {
		y := base - 9 - float64(t.lane)*laneHeight
		stem, text := "hf-stem", "hf-mute"
		if t.bad {
			stem = "hf-stembad"
		}
		if t.through {
			text = "hf-arrowtext"
		}
		if t.lane >= 0 {
			s.Line(t.x, y-9, t.x, base, stem)
			x, anchor := t.x+5, "start"
			if t.left {
				x, anchor = t.x-5, "end"
			}
			s.Text(x, y, text, t.text, svg.N("font-size", s.size), svg.A("text-anchor", anchor))
		}
	}
	// Markers last and important ones on top: many events share one instant.
	for rank := lastRank; rank >= 0; rank-- {
		for _, t := range list {
			if t.rank == rank {
				s.seen[t.kind] = true
				t.draw(s.Canvas, t.x, base)
			}
		}
	}
	if lost > 0 {
		s.Text(s.labelX, base+4, "hf-mute", "+"+count(lost, "event"), svg.N("font-size", s.size))
	}
}

// steps are the distances of ticks to choose from, ms.
var steps = []float64{100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 1800e3, 3600e3, 7200e3, 21600e3}

// ticks are the labelled times, at least 52 pixels apart; 0 is one of them.
func (s *sheet) ticks() []float64 {
	step := steps[len(steps)-1]
	for _, v := range steps {
		if v/(s.to-s.from)*(s.plotR-s.plotL) >= 52 {
			step = v
			break
		}
	}
	var list []float64
	for k := math.Ceil(s.from / step); k*step <= s.to; k++ {
		list = append(list, k*step)
	}
	return list
}

func (s *sheet) grid(top, bottom float64) {
	for _, t := range s.ticks() {
		class := "hf-rule"
		if t == 0 {
			class = "hf-zero"
		}
		s.Line(s.x(t), top, s.x(t), bottom, class)
	}
}

func (s *sheet) axis(y float64) {
	s.Line(s.plotL, y, s.plotR, y, "hf-rule")
	list := s.ticks()
	for i, t := range list {
		text := strconv.FormatFloat(math.Abs(t)/1000, 'f', -1, 64)
		if t < 0 {
			text = minus + text
		}
		if i == len(list)-1 {
			text += " s"
		}
		s.Line(s.x(t), y, s.x(t), y+4, "hf-rule")
		s.Text(s.x(t), y+16, "hf-mute", text, svg.N("font-size", s.size), svg.A("text-anchor", "middle"))
	}
}

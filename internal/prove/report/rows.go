package report

import (
	"math"

	"github.com/holdfast-ha/holdfast/internal/prove/report/svg"
)

// rows draws the paths of a run, client site after client site.
func (s *sheet) rows(run *Run, groups []group) {
	withTarget := run.manyTargets()
	for i, g := range groups {
		if i > 0 {
			s.Line(s.pad, s.y-groupGap/2, s.width-s.pad, s.y-groupGap/2, "hf-rule")
		}
		s.site(g)
		for _, p := range g.paths {
			s.pathRow(run, p, withTarget)
			s.y += s.row
		}
		s.y += groupGap
	}
}

// site labels a group: beside its rows or, where that is too narrow, above them.
// A summary has one row per site, which carries the label itself.
func (s *sheet) site(g group) {
	if s.summary {
		return
	}
	text := "site " + clean(g.site)
	if s.narrow {
		s.Text(s.pad, s.y+13, "hf-strong", "client in "+text, svg.N("font-size", s.size))
		s.y += s.row
		return
	}
	s.Text(s.pad, s.y+14, "hf-strong", svg.Fit(text, 13, s.labelX-s.pad-10), svg.N("font-size", 13))
	if len(g.paths) > 1 {
		s.Text(s.pad, s.y+30, "hf-mute", "client", svg.N("font-size", s.size))
	}
}

func (s *sheet) pathRow(run *Run, p *Path, withTarget bool) {
	mid := s.y + s.row/2
	s.rowLabel(p, mid, withTarget)
	windows := s.windows(run, p)
	for _, w := range windows {
		s.window = true
		s.Rect(s.x(w[0]), s.y+1, s.x(w[1])-s.x(w[0]), s.row-2, "hf-window")
		s.Line(s.x(w[1]), s.y+1, s.x(w[1]), s.y+s.row-1, "hf-windowedge")
	}
	s.overshoot(p)
	s.strip(p, mid)
	s.figure(run, p, mid)
}

func (s *sheet) rowLabel(p *Path, mid float64, withTarget bool) {
	room := s.plotL - s.labelX - 10
	if s.summary {
		s.Text(s.labelX, mid-2, "hf-strong", svg.Fit("client in site "+clean(p.Site), s.size+1, room), svg.N("font-size", s.size+1))
		s.Text(s.labelX, mid+13, "hf-mute", svg.Fit(p.label(withTarget), s.size, room), svg.N("font-size", s.size))
		return
	}
	class := ""
	if !p.required() {
		class = "hf-mute"
	}
	s.Text(s.labelX, mid+4, class, svg.Fit(p.label(withTarget), s.size, room), svg.N("font-size", s.size))
}

// expected is the window a path is held to; a run without the agents that states
// none shows the one the agents promise.
func (s *sheet) expected(p *Path) *Window {
	if p.Expected == nil && s.section.With != nil {
		if twin := s.section.With.path(p.Name); twin != nil {
			return twin.Expected
		}
	}
	return p.Expected
}

// windows lists where an outage of p is allowed: from each fault on for as long
// as the window permits. Overlapping ones are joined.
func (s *sheet) windows(run *Run, p *Path) [][2]float64 {
	w := s.expected(p)
	if w == nil || w.MaxMS <= 0 || !p.required() {
		return nil
	}
	var list [][2]float64
	for _, f := range run.Faults {
		from, to := f.FromMS, math.Min(f.FromMS+w.MaxMS, s.to)
		if n := len(list); n > 0 && from <= list[n-1][1] {
			list[n-1][1] = math.Max(list[n-1][1], to)
			continue
		}
		list = append(list, [2]float64{from, to})
	}
	return list
}

// overshoot hatches the part of each outage that exceeds the window.
func (s *sheet) overshoot(p *Path) {
	w := s.expected(p)
	if w == nil || !p.required() {
		return
	}
	for _, o := range p.Outages {
		from, to := math.Max(o.FromMS, s.from)+w.MaxMS, o.ToMS
		if to-from < 1 {
			continue
		}
		s.over = true
		s.Empty("rect", append(svg.Box(s.x(from), s.y+1, s.x(to)-s.x(from), s.row-2),
			svg.A("fill", "url(#"+s.id+"over)"))...)
	}
}

// strip draws the samples: a thin line while the path answers, a full block while
// it does not, so that the two differ in shape before they differ in shade. A
// stretch reaches to the next one; a failed one is at least 2 pixels wide.
func (s *sheet) strip(p *Path, mid float64) {
	for i, st := range p.Strip {
		k := classOf(st.Class)
		s.used[k.Name] = true
		end := math.Max(st.ToMS, st.FromMS)
		if i+1 < len(p.Strip) {
			end = math.Max(end, p.Strip[i+1].FromMS)
		}
		if end < s.from {
			continue
		}
		l, r := s.x(st.FromMS), s.x(end)
		h := 3.0
		switch {
		case k.down():
			h = s.block
			r = math.Max(r, l+2)
		case k.Name == "slow":
			h = math.Round(s.block * .6)
			r = math.Max(r, l+2)
		}
		attrs := append(svg.Box(l, mid-h/2, r-l, h), k.fill(s.id)...)
		s.Titled("rect", stretchTitle(p, st, end), append(attrs, svg.A("data-stretch", k.Name))...)
	}
}

// stretchTitle says a stretch in words; the page shows it on hover and click.
func stretchTitle(p *Path, st Stretch, end float64) string {
	words := classOf(st.Class).Words
	if st.Class != "" && classOf(st.Class).Name != st.Class {
		words = clean(st.Class)
	}
	text := clean(p.Name) + "\n" + words + " from " + moment(st.FromMS) + " to " + moment(end) + " (" + span(end-st.FromMS) + ")"
	if !classOf(st.Class).down() {
		return text
	}
	for _, o := range p.Outages {
		if st.FromMS <= o.ToMS && end >= o.FromMS && o.First != "" {
			return text + "\nfirst error: " + brief(o.First, 200)
		}
	}
	return text
}

// shown is the verdict that the sign beside a row tells. The run without the
// agents may pass by staying down, as its scenario says; a reader must not see a
// check beside that.
func (s *sheet) shown(run *Run, p *Path) Verdict {
	if run != s.section.judged() && p.RecoveredMS == nil && len(p.Outages) > 0 {
		return Fail
	}
	return p.Verdict
}

// figure writes the measured gap beside the row, with the sign of its verdict.
func (s *sheet) figure(run *Run, p *Path, mid float64) {
	class, verdict := "hf-mute", s.shown(run, p)
	if verdict == Fail {
		class = "hf-bad"
	} else if len(p.Outages) > 0 {
		class = ""
	}
	text, x := gap(p), s.numX
	room := s.width - s.pad - x - 10
	if s.narrow {
		text = short(p)
	} else if w := allowed(s.expected(p)); w != "" && p.required() && len(p.Outages) > 0 {
		if full := text + ", " + w; svg.Width(full, s.size) <= room { // else the band must tell it
			text = full
		}
	}
	if p.required() && verdict != "" {
		s.sign(x+5, mid, verdict)
	}
	s.Text(x+16, mid+4, class, svg.Fit(text, s.size, room), svg.N("font-size", s.size))
}

package report

import (
	"fmt"
	"io"
	"math"

	"github.com/holdfast-ha/holdfast/internal/prove/report/svg"
)

// Picture says how a timeline is drawn. The zero value is timeline.svg.
type Picture struct {
	// Variant is the starting position to draw; "" is the main one.
	Variant string
	// Width in pixels, default 1040. Under 640 the layout is the one for phones.
	Width float64
	// Summary draws one row per client site, its worst path, in place of all
	// paths: the before/after picture of a README.
	Summary bool

	id     string // prefix of ids, for several drawings in one page
	inline bool   // leave style sheet and header to the page
}

// Timeline draws the runs of one variant, without the agents above with the
// agents, on one time scale.
func Timeline(dst io.Writer, r *Report, p Picture) error {
	for _, s := range r.sections() {
		if s.Name == p.Variant || p.Variant == "" {
			_, err := dst.Write(draw(r, s, p))
			return err
		}
	}
	return fmt.Errorf("draw timeline: variant %q is not in the report", p.Variant)
}

// sheet is a drawing in progress: y is where the next part begins.
type sheet struct {
	*svg.Canvas
	frame
	report  *Report
	section section
	id      string
	from    float64 // time at plotL, ms
	to      float64 // time at plotR, ms
	y       float64
	used    map[string]bool // classes seen
	seen    map[string]bool // kinds of markers seen
	over    bool            // some path was down beyond its window
	window  bool            // some path has a window
}

// frame holds the measures of a layout, in pixels.
type frame struct {
	width, pad   float64
	narrow       bool
	summary      bool
	labelX       float64 // path labels
	plotL, plotR float64
	numX         float64 // figures right of the plot
	row, block   float64 // row pitch, height of a failed stretch
	size         float64 // font size of labels
	lanes        int     // of event texts
	tagWidth     float64 // longest event text
}

func frameOf(p Picture) frame {
	f := frame{width: 1040, pad: 28, labelX: 94, plotL: 222, numX: 826, row: 20, block: 12, size: 12, lanes: 6, tagWidth: 330}
	if p.Width > 0 {
		f.width = math.Max(p.Width, 320)
	}
	f.summary = p.Summary
	f.narrow = f.width < 640
	if f.narrow {
		f.pad, f.size, f.row, f.block = 14, 11, 19, 11
		f.labelX, f.plotL, f.numX = f.pad, f.pad+96, f.width-f.pad-62
		f.tagWidth = 190
	} else {
		f.numX = f.width - f.pad - 186
	}
	f.plotR = f.numX - 12
	if f.summary {
		f.row, f.block, f.lanes = 34, 18, 3
		f.labelX = f.pad
	}
	return f
}

// x maps a time to the drawing; times outside it stick to its edges.
func (s *sheet) x(ms float64) float64 {
	share := (ms - s.from) / (s.to - s.from)
	return s.plotL + math.Min(math.Max(share, 0), 1)*(s.plotR-s.plotL)
}

func newSheet(r *Report, sec section, p Picture) *sheet {
	s := &sheet{
		Canvas: new(svg.Canvas), frame: frameOf(p), report: r, section: sec, id: p.id + "hf-",
		used: map[string]bool{}, seen: map[string]bool{},
	}
	s.from, s.to = spanMS(sec.runs())
	return s
}

func draw(r *Report, sec section, p Picture) []byte {
	s := newSheet(r, sec, p)
	s.labelColumn()
	s.y = s.pad
	if p.inline {
		s.y -= 16
	} else {
		s.header()
	}
	for _, run := range sec.runs() {
		s.panel(run)
	}
	s.legend()
	return s.finish(p)
}

// drawSites draws the diagram of sites alone, for a page; nothing when there is
// none to draw.
func drawSites(r *Report, sec section, id string) []byte {
	const w, h = 230, 160
	s := newSheet(r, sec, Picture{id: id})
	s.diagram(2, 2, w-4, h-4)
	if len(s.Bytes()) == 0 {
		return nil
	}
	var c svg.Canvas
	c.Open("svg", svg.Class("hf"), svg.N("width", w), svg.N("height", h), svg.A("viewBox", "0 0 230 160"),
		svg.A("role", "img"), svg.A("aria-label", s.diagramWords()))
	c.Raw(string(s.Bytes()))
	return c.Bytes()
}

// labelColumn makes room for the longest row label, within reason.
func (s *sheet) labelColumn() {
	room := 96.0
	for _, run := range s.section.runs() {
		for i := range run.Paths {
			room = math.Max(room, svg.Width(run.Paths[i].label(run.manyTargets()), s.size))
		}
	}
	if s.narrow || s.summary {
		room = math.Min(room, 132)
	}
	s.plotL = s.labelX + math.Min(room, 190) + 12
	if !s.narrow { // the heading of a panel stands in the same column
		for _, run := range s.section.runs() {
			s.plotL = math.Max(s.plotL, s.pad+svg.Width(run.heading(), 15)*1.15+14)
		}
	}
}

// finish wraps what was drawn, now that its height is known.
func (s *sheet) finish(p Picture) []byte {
	height := math.Ceil(s.y + s.pad - 8)
	var c svg.Canvas
	c.Open("svg", svg.A("xmlns", "http://www.w3.org/2000/svg"), svg.Class("hf"),
		svg.N("width", s.width), svg.N("height", height),
		svg.A("viewBox", "0 0 "+svg.Num(s.width)+" "+svg.Num(height)),
		svg.A("role", "img"), svg.A("aria-label", s.aria()))
	if !p.inline {
		c.Leaf("title", s.aria())
		c.Leaf("style", light.css())
	}
	patterns(&c, s.id, s.used)
	c.Rect(.5, .5, s.width-1, height-1, "hf-card", svg.N("rx", 10))
	c.Raw(string(s.Bytes()))
	return c.Bytes()
}

// aria is the drawing in words, for those who cannot see it.
func (s *sheet) aria() string {
	text := "Timeline: " + s.report.heading() + ". " + s.section.Verdict.Words() + "."
	for _, run := range s.section.runs() {
		text += " " + run.story()
	}
	return text
}

// header draws title, verdict, the story in words and the diagram of sites.
func (s *sheet) header() {
	top := s.y
	right := s.width - s.pad
	size := 20.0
	if s.narrow {
		size = 17
	}
	diagramW := 210.0
	if !s.narrow {
		s.diagram(right-diagramW, top-6, diagramW, 150)
		right -= diagramW + 24
	}
	s.y += s.pill(s.pad, top) + 12
	s.paragraph(s.title(), size, size*1.3, "hf-strong", right)
	s.y += 4
	for _, run := range s.section.runs() {
		s.y += 4
		s.paragraph(run.story(), s.size+1, s.size+7, "hf-mute", right)
	}
	if s.section.Verdict != Pass {
		for i, reason := range s.section.Reasons {
			if i == 3 {
				break // the report lists them all
			}
			s.paragraph(clean(reason), s.size+1, s.size+7, "hf-bad", right)
		}
	}
	if s.narrow {
		s.y += 6
		s.diagram((s.width-diagramW)/2, s.y, diagramW, 150)
		s.y += 150
	} else {
		s.y = math.Max(s.y, top+150)
	}
	s.y += 12
}

func (s *sheet) title() string {
	text := s.report.heading()
	if s.section.Name != mainVariant {
		text += ": " + clean(s.section.Name)
	}
	return text
}

// paragraph writes text in lines between the padding and right.
func (s *sheet) paragraph(text string, size, pitch float64, class string, right float64) {
	for _, line := range svg.Wrap(text, size, right-s.pad) {
		s.y += pitch
		s.Text(s.pad, s.y, class, line, svg.N("font-size", size))
	}
}

// pill draws the verdict as a word on its shade and returns its height.
func (s *sheet) pill(x, y float64) float64 {
	class := "hf-pillmute"
	switch s.section.Verdict {
	case Pass:
		class = "hf-pillgood"
	case Fail:
		class = "hf-pillbad"
	}
	text := s.section.Verdict.Words()
	const size, height = 13.0, 24.0
	w := svg.Width(text, size) + 46
	s.Rect(x, y, w, height, class, svg.N("rx", height/2))
	s.Circle(x+14, y+height/2, 8, "hf-card", svg.A("style", "stroke:none"))
	s.sign(x+14, y+height/2, s.section.Verdict)
	s.Text(x+30, y+height/2+4.6, "hf-pilltext", text, svg.N("font-size", size))
	s.Text(x+w+12, y+height/2+4.6, "hf-mute", "drill "+brief(s.report.Scenario, 40), svg.N("font-size", size))
	return height
}

// sign draws a verdict as a mark of some 9 pixels around x, y: check, cross,
// question or dash. Drawn, since fonts may lack them.
func (s *sheet) sign(x, y float64, v Verdict) {
	n := svg.Num
	switch v {
	case Pass:
		s.Path("M"+n(x-4)+" "+n(y)+"L"+n(x-1)+" "+n(y+3)+"L"+n(x+4)+" "+n(y-3.5), "hf-sign")
	case Fail:
		s.Path("M"+n(x-3.2)+" "+n(y-3.2)+"L"+n(x+3.2)+" "+n(y+3.2)+"M"+n(x+3.2)+" "+n(y-3.2)+"L"+n(x-3.2)+" "+n(y+3.2), "hf-signbad")
	case Inconclusive:
		s.Path("M"+n(x-2.6)+" "+n(y-2)+"A2.6 2.6 0 1 1 "+n(x)+" "+n(y+1)+"M"+n(x)+" "+n(y+4.4)+"V"+n(y+4.5), "hf-signmute")
	default:
		s.Path("M"+n(x-3.5)+" "+n(y)+"H"+n(x+3.5), "hf-signmute")
	}
}

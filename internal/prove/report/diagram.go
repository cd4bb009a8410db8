package report

import (
	"math"

	"github.com/holdfast-ha/holdfast/internal/prove/report/svg"
)

// spot is a site in the diagram.
type spot struct {
	name    string
	witness bool
	x, y    float64
}

const siteRadius = 15.0

// diagram draws the sites and their links: struck links crossed out, struck sites
// shaded, and the way the leadership went.
func (s *sheet) diagram(x, y, w, h float64) {
	run := s.section.judged()
	names := s.report.siteNames(s.section)
	if run == nil || len(names) == 0 || len(names) > 9 { // more would be a hairball
		return
	}
	ways := s.report.ways(run, names)
	spots := s.spots(names, x+14, y, w-28, h-20*float64(min(len(ways), 2)))
	for i := range spots {
		for j := i + 1; j < len(spots); j++ {
			s.edge(run, spots[i], spots[j])
		}
	}
	for _, way := range ways {
		s.way(spots, way)
	}
	for _, at := range spots {
		s.siteMark(run, at)
	}
	for i, way := range ways {
		if i < 2 {
			text := svg.Fit(way.words(len(ways) > 1), s.size, w)
			s.Text(x+w/2, y+h-18*float64(min(len(ways), 2)-1-i)-4, "hf-arrowtext", text,
				svg.N("font-size", s.size), svg.A("text-anchor", "middle"))
		}
	}
}

// diagramWords is the diagram for those who cannot see it.
func (s *sheet) diagramWords() string {
	run := s.section.judged()
	names := s.report.siteNames(s.section)
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = brief(name, 24)
	}
	text := "Sites " + list(words) + "."
	for i, f := range run.Faults {
		if i < 5 {
			text += " " + faultLabel(f) + "."
		}
	}
	for _, w := range s.report.ways(run, names) {
		text += " " + w.words(w.cluster != "") + "."
	}
	return text
}

// spots places the sites: three as a triangle with the witness (or the third) on
// top, others on a ring.
func (s *sheet) spots(names []string, x, y, w, h float64) []spot {
	var list, witnesses []spot
	for _, name := range names {
		at := spot{name: name}
		for _, site := range s.report.Sites {
			at.witness = at.witness || site.Name == name && site.Witness
		}
		if at.witness {
			witnesses = append(witnesses, at)
		} else {
			list = append(list, at)
		}
	}
	list = append(list, witnesses...)
	fitRing(list, x+siteRadius+14, y+siteRadius+5, w-2*siteRadius-28, h-2*siteRadius-10)
	return list
}

// fitRing spreads the spots over a ring that fills the box. The last one stands on
// top, the others follow against the clock; two stand side by side.
func fitRing(list []spot, x, y, w, h float64) {
	minX, maxX, minY, maxY := 1.0, -1.0, 1.0, -1.0
	for i := range list {
		angle := -math.Pi/2 - 2*math.Pi*float64(i+1)/float64(len(list))
		if len(list) == 2 {
			angle -= math.Pi / 2
		}
		list[i].x, list[i].y = math.Cos(angle), math.Sin(angle)
		minX, maxX = math.Min(minX, list[i].x), math.Max(maxX, list[i].x)
		minY, maxY = math.Min(minY, list[i].y), math.Max(maxY, list[i].y)
	}
	spread := func(v, low, high, start, size float64) float64 {
		if high-low < .1 {
			return start + size/2
		}
		return start + (v-low)/(high-low)*size
	}
	for i := range list {
		list[i].x = spread(list[i].x, minX, maxX, x, w)
		list[i].y = spread(list[i].y, minY, maxY, y, h)
	}
}

// edge draws a link in its worst state of the run.
func (s *sheet) edge(run *Run, a, b spot) {
	var cut, degraded *Fault
	var link Link
	for i, f := range run.Faults {
		for _, l := range f.Links {
			if l != (Link{a.name, b.name, l.OneWay}) && l != (Link{b.name, a.name, l.OneWay}) {
				continue
			}
			switch f.Kind {
			case "delay", "loss", "rate":
				degraded = &run.Faults[i]
			default:
				cut, link = &run.Faults[i], l
			}
		}
	}
	switch {
	case cut != nil && link.OneWay:
		if link.From == b.name {
			a, b = b, a
		}
		s.Line(a.x, a.y, b.x, b.y, "hf-link")
		s.barredArrow(a, b)
	case cut != nil:
		s.Line(a.x, a.y, b.x, b.y, "hf-cut")
		s.cross((a.x+b.x)/2, (a.y+b.y)/2)
	case degraded != nil:
		s.Line(a.x, a.y, b.x, b.y, "hf-link", svg.A("stroke-dasharray", "1 4"))
	default:
		s.Line(a.x, a.y, b.x, b.y, "hf-link")
	}
}

func (s *sheet) cross(x, y float64) {
	n := svg.Num
	s.Circle(x, y, 10, "hf-card", svg.A("style", "stroke:none"))
	s.Path("M"+n(x-5.5)+" "+n(y-5.5)+"L"+n(x+5.5)+" "+n(y+5.5)+"M"+n(x+5.5)+" "+n(y-5.5)+"L"+n(x-5.5)+" "+n(y+5.5), "hf-cross")
}

// barredArrow marks the direction from a to b as lost: an arrow that ends at a
// cross.
func (s *sheet) barredArrow(a, b spot) {
	d := math.Hypot(b.x-a.x, b.y-a.y)
	if d == 0 {
		return
	}
	ux, uy := (b.x-a.x)/d, (b.y-a.y)/d
	const off = 9 // beside the link, which still carries the other direction
	x1, y1 := a.x+ux*24-uy*off, a.y+uy*24+ux*off
	x2, y2 := a.x+ux*d*.62-uy*off, a.y+uy*d*.62+ux*off
	s.Line(x1, y1, x2, y2, "hf-cut", svg.A("style", "stroke-dasharray:none"))
	s.cross(x2+ux*4, y2+uy*4)
}

func (s *sheet) siteMark(run *Run, at spot) {
	class := "hf-site"
	if at.witness {
		class = "hf-witness"
	}
	struck := false
	for _, f := range run.Faults {
		for _, name := range f.Sites {
			struck = struck || name == at.name
		}
	}
	if struck {
		class = "hf-struck"
	}
	s.Circle(at.x, at.y, siteRadius, class)
	size := 14.0
	text := brief(at.name, 12)
	if w := svg.Width(text, size); w > 2*siteRadius-6 {
		size = math.Max(8, size*(2*siteRadius-6)/w)
	}
	s.Text(at.x, at.y+size*.36, "hf-strong", text, svg.N("font-size", size), svg.A("text-anchor", "middle"))
	if at.witness {
		s.Text(at.x+siteRadius+8, at.y+4, "hf-mute", "witness", svg.N("font-size", s.size-1))
	}
}

// way is where the leadership of one cluster went during a run, by site; from
// equals to when it stayed.
type way struct{ cluster, from, to string }

func (w way) words(many bool) string {
	lead := "leader "
	if many {
		lead = brief(w.cluster, 16) + " leader "
	}
	if w.from == w.to {
		return lead + "stays in " + brief(w.from, 12)
	}
	return lead + brief(w.from, 12) + " → " + brief(w.to, 12)
}

// ways follows the leader events of a run, cluster by cluster, up to the moment
// the last fault is undone.
func (r *Report) ways(run *Run, sites []string) []way {
	var list []way
	end := 0.0
	for _, f := range run.Faults {
		end = max(end, f.ToMS)
	}
	for _, e := range run.Events {
		if e.Kind != "leader-changed" && e.Kind != "move" || e.AtMS > end {
			continue
		}
		from, to := r.siteOf(e.Keys["from"], sites), r.siteOf(e.Keys["to"], sites)
		i := 0
		for i < len(list) && list[i].cluster != e.Cluster {
			i++
		}
		switch {
		case to == "":
		case i == len(list) && (from == "" || e.AtMS < 0):
			list = append(list, way{e.Cluster, to, to})
		case i == len(list):
			list = append(list, way{e.Cluster, from, to})
		case e.AtMS < 0: // forced into its starting position
			list[i] = way{e.Cluster, to, to}
		default:
			list[i].to = to
		}
	}
	return list
}

// way draws an arrow along a link, bent outwards so that both stay visible.
func (s *sheet) way(spots []spot, w way) {
	var from, to *spot
	for i := range spots {
		if spots[i].name == w.from {
			from = &spots[i]
		}
		if spots[i].name == w.to {
			to = &spots[i]
		}
	}
	if from == nil || to == nil {
		return
	}
	s.Circle(to.x, to.y, siteRadius+3.5, "hf-ring")
	if from == to {
		return
	}
	d := math.Hypot(to.x-from.x, to.y-from.y)
	ux, uy := (to.x-from.x)/d, (to.y-from.y)/d
	var cx, cy float64
	for _, at := range spots {
		cx, cy = cx+at.x/float64(len(spots)), cy+at.y/float64(len(spots))
	}
	mx, my := (from.x+to.x)/2, (from.y+to.y)/2
	side := 1.0
	if (mx-cx)*-uy+(my-cy)*ux < 0 {
		side = -1
	}
	nx, ny := -uy*side, ux*side
	const out = 9
	x1, y1 := from.x+ux*20+nx*out, from.y+uy*20+ny*out
	x2, y2 := to.x-ux*22+nx*out, to.y-uy*22+ny*out
	n := svg.Num
	s.Path("M"+n(x1)+" "+n(y1)+"Q"+n(mx+nx*22)+" "+n(my+ny*22)+" "+n(x2)+" "+n(y2), "hf-arrow")
	// The head points along the end of the curve.
	hx, hy := x2-(mx+nx*22), y2-(my+ny*22)
	l := math.Hypot(hx, hy)
	hx, hy = hx/l, hy/l
	s.Path("M"+n(x2+hx*5)+" "+n(y2+hy*5)+"L"+n(x2-hx*5-hy*4.5)+" "+n(y2-hy*5+hx*4.5)+
		"L"+n(x2-hx*5+hy*4.5)+" "+n(y2-hy*5-hx*4.5)+"Z", "hf-mark")
}

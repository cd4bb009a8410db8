package report

import "github.com/holdfast-ha/holdfast/internal/prove/report/svg"

// legend explains the signs that were used, and only those.
func (s *sheet) legend() {
	s.Line(s.pad, s.y, s.width-s.pad, s.y, "hf-rule")
	s.y += 12
	x := s.pad
	item := func(words string, draw func(x, y float64)) {
		w := 26 + svg.Width(words, s.size) + 18
		if x+w-18 > s.width-s.pad && x > s.pad {
			x = s.pad
			s.y += 20
		}
		draw(x, s.y+8)
		s.Text(x+26, s.y+12, "hf-mute", words, svg.N("font-size", s.size))
		x += w
	}
	for _, k := range classes {
		if s.used[k.Name] {
			item(k.Words, func(x, y float64) { s.swatch(k, x, y) })
		}
	}
	if s.window {
		item("allowed outage", func(x, y float64) {
			s.Rect(x, y-8, 19, 16, "hf-window")
			s.Line(x+19, y-8, x+19, y+8, "hf-windowedge")
		})
	}
	if s.over {
		item("beyond what is allowed", func(x, y float64) {
			s.Empty("rect", append(svg.Box(x, y-8, 20, 16), svg.A("fill", "url(#"+s.id+"over)"))...)
		})
	}
	if run := s.section.judged(); run != nil && len(run.Faults) > 0 {
		item("fault in force", func(x, y float64) {
			s.Rect(x, y-8, 20, 16, "hf-fault")
			s.Rect(x, y-8, 20, 5, "hf-faulthead")
		})
	}
	for _, m := range markers {
		if s.seen[m.kind] {
			item(m.words, func(x, y float64) { m.draw(s.Canvas, x+10, y) })
		}
	}
	s.y += 26
}

func (s *sheet) swatch(k class, x, y float64) {
	h := 3.0
	switch {
	case k.down():
		h = 12
	case k.Name == "slow":
		h = 7
	}
	s.Empty("rect", append(svg.Box(x, y-h/2, 20, h), k.fill(s.id)...)...)
}

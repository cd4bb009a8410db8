package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/report/svg"
)

// marker is how one kind of event is drawn. Lower ranks get their label first.
type marker struct {
	kind    string
	words   string
	rank    int
	through bool // a faint line runs down through the rows
	bad     bool
	draw    func(c *svg.Canvas, x, y float64)
}

var markers = []marker{
	{"move", "leadership moved by an agent", 0, true, false, drawDiamond("hf-mark")},
	{"leader-changed", "leader changed", 1, true, false, drawDisc("hf-mark")},
	{"answering", "a machine answers for the address", 1, true, false, drawDisc("hf-mark")},
	{"ceased", "it does not any more", 3, false, true, drawSquare("hf-hollowbad")},
	{"move-failed", "move failed", 2, false, true, drawDiamond("hf-hollowbad")},
	{"exit", "process ended", 2, false, true, drawSquare("hf-hollowbad")},
	{"no-leader", "member without leader", 3, false, true, drawSquare("hf-hollowbad")},
	{"member-silent", "member does not answer", 4, false, true, drawSquare("hf-hollowbad")},
	{"node-not-ready", "node not Ready", 3, false, true, drawSquare("hf-hollowbad")},
	{"endpoints", "endpoints of default/kubernetes changed", 4, false, false, drawDiamond("hf-hollow")},
	{"move-refused", "move refused", 5, false, false, drawDiamond("hf-hollow")},
	{"leader-back", "leader known again", 6, false, false, drawDisc("hf-hollow")},
	{"member-answers", "member answers again", 6, false, false, drawDisc("hf-hollow")},
	{"node-ready", "node Ready again", 6, false, false, drawDisc("hf-hollow")},
	{"", "other event", 7, false, false, drawTick},
}

func markerOf(kind string) marker {
	for _, m := range markers {
		if m.kind == kind {
			return m
		}
	}
	return markers[len(markers)-1]
}

func drawDisc(class string) func(*svg.Canvas, float64, float64) {
	return func(c *svg.Canvas, x, y float64) { c.Circle(x, y, 4, class) }
}

func drawSquare(class string) func(*svg.Canvas, float64, float64) {
	return func(c *svg.Canvas, x, y float64) { c.Rect(x-3.5, y-3.5, 7, 7, class) }
}

func drawDiamond(class string) func(*svg.Canvas, float64, float64) {
	return func(c *svg.Canvas, x, y float64) {
		n := svg.Num
		c.Path("M"+n(x-5.2)+" "+n(y)+"L"+n(x)+" "+n(y-5.2)+"L"+n(x+5.2)+" "+n(y)+"L"+n(x)+" "+n(y+5.2)+"Z", class)
	}
}

func drawTick(c *svg.Canvas, x, y float64) { c.Line(x, y-4.5, x, y+4.5, "hf-stem") }

// tag is an event with its place in the lane.
type tag struct {
	marker
	id   int // unique in its list
	text string
	at   float64 // ms
	x    float64
	w    float64 // of the text
	lane int     // 0 is lowest; -1 when there was no room for the text
	left bool    // the text stands left of x
}

// box is the room a tag's text takes in its lane, with air around it.
func (t tag) box() (from, to float64) {
	if t.left {
		return t.x - t.w - 8, t.x + 2
	}
	return t.x - 2, t.x + t.w + 8
}

// tags merges events of one kind and text that would print on one spot, and
// measures them. x maps milliseconds to the drawing.
func tags(events []Event, x func(float64) float64, size, maxWidth float64) []tag {
	var list []tag
	for _, e := range events {
		if echoed(e, events) {
			continue
		}
		m := markerOf(e.Kind)
		text := svg.Fit(tagText(e), size, maxWidth)
		if e.AtMS < 0 { // how the scene was set
			m.rank, m.through = lastRank, false
		}
		t := tag{marker: m, id: len(list), text: text, at: e.AtMS, x: x(e.AtMS), w: svg.Width(text, size), lane: -1}
		if !slices.ContainsFunc(list, func(o tag) bool {
			return o.kind == t.kind && o.text == t.text && o.x > t.x-4 && o.x < t.x+4
		}) {
			list = append(list, t)
		}
	}
	slices.SortStableFunc(list, func(a, b tag) int { return cmp.Compare(a.at, b.at) })
	return list
}

// echoed says whether e only repeats another event within half a second: the
// announcement of a move that then happened, or the change of leader it made.
func echoed(e Event, events []Event) bool {
	const within = 500
	if e.Kind != "leader-changed" && e.Kind != "moving" {
		return false
	}
	return slices.ContainsFunc(events, func(m Event) bool {
		return m.Kind == "move" && m.Cluster == e.Cluster && m.Keys["to"] == e.Keys["to"] &&
			e.AtMS > m.AtMS-within && e.AtMS < m.AtMS+within
	})
}

// tagText is what a tag says: for what changes who leads a short form, else the
// message.
func tagText(e Event) string {
	from, to := clean(e.Keys["from"]), clean(e.Keys["to"])
	var text string
	switch {
	case e.Kind == "move" && from != "" && to != "":
		text = "agent moves leader " + from + " → " + to
		if ms, err := strconv.ParseFloat(e.Keys["took_ms"], 64); err == nil && ms >= 0 {
			text += " in " + span(ms)
		}
	case e.Kind == "leader-changed" && from != "" && to != "":
		text = "leader " + from + " → " + to
	default:
		return eventText(e)
	}
	if cluster := clean(e.Cluster); cluster != "" && cluster != mainVariant {
		text = cluster + ": " + text
	}
	return text
}

// eventText is an event in full, with its cluster where that is not the main one.
func eventText(e Event) string {
	text := clean(e.Message)
	if text == "" {
		text = strings.TrimSpace(clean(e.Kind) + " " + clean(e.Source))
	}
	if e.Cluster != "" && e.Cluster != mainVariant && !strings.Contains(text, clean(e.Cluster)) {
		text = clean(e.Cluster) + ": " + text
	}
	return text
}

// maxTexts bounds the search of place, which is cubic in it; a lane of six lines
// holds some thirty texts at most.
const maxTexts = 60

// lastRank is below all markers.
const lastRank = 9

// place gives each tag a lane such that no text touches another text, nor the
// stem that runs from a text above down to its marker. Important kinds choose
// first; what finds no room in the lanes keeps its marker and loses its text. It
// returns the number of lanes used and of texts lost.
func place(list []tag, lanes int, left, right float64) (used, lost int) {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[a].rank, list[b].rank) })
	var kept []tag
	for n, i := range order {
		trial := append(slices.Clone(kept), list[i])
		if n < maxTexts && arrange(trial, lanes, left, right) {
			kept = trial
		} else {
			lost++
		}
	}
	for _, t := range kept {
		used = max(used, t.lane+1)
		i := slices.IndexFunc(list, func(o tag) bool { return o.id == t.id })
		list[i] = t
	}
	return used, lost
}

// arrange lays out all tags of list, or reports that they do not fit. It goes from
// right to left: a text extends to the right of its stem, so of two that would
// overlap, the left one goes above and its stem passes clear of the right one.
func arrange(list []tag, lanes int, left, right float64) bool {
	slices.SortStableFunc(list, func(a, b tag) int { return cmp.Compare(b.x, a.x) })
	for i := range list {
		list[i].lane = -1
	}
	for i := range list {
		if !settle(list, i, lanes, left, right) {
			return false
		}
	}
	return true
}

// settle finds the lowest lane for list[i], preferring the text on the right.
func settle(list []tag, i, lanes int, left, right float64) bool {
	t := &list[i]
	for _, flip := range []bool{false, true} {
		for lane := range lanes {
			t.lane, t.left = lane, flip
			from, to := t.box()
			if from >= left-3 && to <= right+8 && free(list, i) {
				return true
			}
		}
	}
	t.lane, t.left = -1, false
	return false
}

// free says whether list[i], as placed, keeps clear of all other placed tags.
func free(list []tag, i int) bool {
	t := list[i]
	from, to := t.box()
	for j, o := range list {
		if j == i || o.lane < 0 {
			continue
		}
		oFrom, oTo := o.box()
		switch {
		case o.lane == t.lane && from < oTo && oFrom < to:
			return false
		case o.lane > t.lane && o.x > from+1 && o.x < to-1: // its stem would cross this text
			return false
		case o.lane < t.lane && t.x > oFrom+1 && t.x < oTo-1: // this stem would cross its text
			return false
		}
	}
	return true
}

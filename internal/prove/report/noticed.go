package report

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// notice is one line of what was noticed, by whom and when.
type notice struct {
	at                     float64
	At, Source, Text, Kind string
}

// maxNotices bounds the list of a page; a minute of flapping gives some 120.
const maxNotices = 200

// noticed tells a run in the order of things: faults, what clients met first, what
// members and agents saw, recovery. It returns how many it left out.
func noticed(run *Run) ([]notice, int) {
	var list []notice
	add := func(at float64, source, text, kind string) {
		list = append(list, notice{at, moment(at), brief(source, 40), brief(text, 300), kind})
	}
	for _, f := range run.Faults {
		add(f.FromMS, "fault", "in force: "+cmp.Or(f.Detail, f.Kind+" "+f.Name), "fault")
		add(f.ToMS, "fault", "undone: "+cmp.Or(f.Detail, f.Kind+" "+f.Name), "fault")
	}
	for _, c := range clients(run) {
		add(c.at, "client in "+c.site, c.text, "client")
	}
	for _, e := range run.Events {
		add(e.AtMS, cmp.Or(e.Source, "cluster"), eventText(e), markerOf(e.Kind).kind)
	}
	if run.Recovered && run.RecoveryMS != nil && *run.RecoveryMS > 0 {
		add(*run.RecoveryMS, "clients", "every required path answers again", "recovered")
	}
	slices.SortStableFunc(list, func(a, b notice) int { return cmp.Compare(a.at, b.at) })
	if over := len(list) - maxNotices; over > 0 {
		return list[:maxNotices], over
	}
	return list, 0
}

// first tells in one sentence when clients met the fault and who else noticed it first;
// "" where nobody did.
func first(run *Run) string {
	if len(run.Faults) == 0 {
		return ""
	}
	began := run.Faults[0].FromMS
	list, _ := noticed(run)
	var parts []string
	after := func(n notice) string { return span(max(0, n.at-began)) }
	for _, n := range list {
		if n.at >= began && n.Kind == "client" {
			parts = append(parts, "Clients met it after "+after(n))
			break
		}
	}
	for _, n := range list {
		if n.at >= began && n.Kind != "client" && n.Kind != "fault" && n.Kind != "recovered" {
			parts = append(parts, "first noticed by "+n.Source+" after "+after(n)+": "+n.Text)
			break
		}
	}
	text := strings.Join(parts, "; ")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// client is the first failure that the clients of a site met on one kind of path.
type client struct {
	site, text string
	at         float64
}

func clients(run *Run) []client {
	first := map[[2]string]client{}
	var order [][2]string
	for i := range run.Paths {
		p := &run.Paths[i]
		at, class := firstFailure(p)
		if math.IsInf(at, 1) {
			continue
		}
		key := [2]string{p.Site, columnOf(p)}
		seen, ok := first[key]
		if !ok {
			order = append(order, key)
		}
		if ok && seen.at <= at {
			continue
		}
		text := columnOf(p) + " fails: " + classOf(class).Words
		if o := p.longest(); o != nil && o.First != "" {
			text += " (" + brief(o.First, 80) + ")"
		}
		first[key] = client{brief(p.Site, 24), text, at}
	}
	var list []client
	for _, key := range order {
		list = append(list, first[key])
	}
	return list
}

// firstFailure is when the strip of p first shows a failure, +Inf if it never does.
func firstFailure(p *Path) (at float64, class string) {
	for _, s := range p.Strip {
		if classOf(s.Class).down() {
			return s.FromMS, s.Class
		}
	}
	return math.Inf(1), ""
}

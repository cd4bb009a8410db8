package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// minus is the typographic minus sign, as wide as a digit.
const minus = "−"

// span prints a duration for people: "103 ms", "3.2 s", "120 s".
func span(ms float64) string {
	value, unit := figure(ms, ms)
	return value + " " + unit
}

// bounds prints a bracketed duration: "3.1–3.3 s", or one figure when both round
// to the same.
func bounds(lower, upper float64) string {
	lo, _ := figure(lower, upper)
	hi, unit := figure(upper, upper)
	if lo == hi {
		return hi + " " + unit
	}
	return lo + "–" + hi + " " + unit
}

// figure prints ms in the unit that suits scale.
func figure(ms, scale float64) (value, unit string) {
	switch {
	case math.Abs(scale) < 999.5:
		return strconv.FormatFloat(math.Round(ms)+0, 'f', 0, 64), "ms"
	case math.Abs(scale) < 99_950:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64), "s"
	}
	return strconv.FormatFloat(ms/1000, 'f', 0, 64), "s"
}

// limit prints a bound that somebody chose: "6 s", "1.5 s", "250 ms".
func limit(ms float64) string {
	if math.Abs(ms) < 1000 {
		return strconv.FormatFloat(ms, 'f', -1, 64) + " ms"
	}
	return strconv.FormatFloat(math.Round(ms)/1000, 'f', -1, 64) + " s"
}

// moment prints a point of the run's time: "3.21 s", "−0.40 s".
func moment(ms float64) string {
	s := strconv.FormatFloat(math.Abs(ms)/1000, 'f', 2, 64) + " s"
	if ms <= -5 {
		return minus + s
	}
	return s
}

// allowed prints a window; "" when there is none.
func allowed(w *Window) string {
	switch {
	case w == nil:
		return ""
	case w.MaxMS <= 0:
		return "no gap allowed"
	case w.MinMS > 0:
		return "allowed " + limit(w.MinMS) + " to " + limit(w.MaxMS)
	}
	return "allowed ≤ " + limit(w.MaxMS)
}

// gap prints the outages of a path: "no gap", "3.1–3.3 s",
// "8 gaps, longest 3.1–3.3 s", "over 30.0 s, still down at the end".
func gap(p *Path) string {
	worst := p.longest()
	if worst == nil {
		return "no gap"
	}
	text := bounds(worst.LowerMS, worst.UpperMS)
	if worst.Open {
		text = "over " + span(worst.LowerMS)
	}
	if n := len(p.Outages); n > 1 {
		text = fmt.Sprintf("%d gaps, longest %s", n, text)
	}
	return text
}

// short prints the longest gap in one figure, for narrow places.
func short(p *Path) string {
	worst := p.longest()
	switch {
	case worst == nil:
		return "0"
	case worst.Open:
		return "> " + span(worst.LowerMS)
	}
	return span(worst.UpperMS)
}

// count prints "1 request", "2 requests".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// list prints "a", "a and b", "a, b and c".
func list(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " and " + items[last]
}

// heading names a run.
func (run *Run) heading() string {
	return sideHeading(run.Agents, run)
}

// sideHeading names the runs of one side, by the first of them that says how.
func sideHeading(agents bool, runs ...*Run) string {
	for _, run := range runs {
		if run != nil && run.Agents == agents && run.Side != "" {
			return strings.ToUpper(run.Side[:1]) + run.Side[1:]
		}
	}
	if agents {
		return "With the agents"
	}
	return "Without the agents"
}

// headline is the big figure of a run.
func (run *Run) headline() string {
	if run.downMS() <= 0 {
		return "no gap"
	}
	return span(run.downMS())
}

// caption says what the headline counts.
func (run *Run) caption() string {
	switch {
	case !run.Recovered && len(run.lost()) > 0:
		return sitesOf(run.lost()) + " did not answer until the fault was undone"
	case !run.Recovered:
		return "not every path answered again under the fault"
	case run.downMS() <= 0:
		return "every path kept answering"
	case run.RecoveryMS != nil && *run.RecoveryMS > 0:
		return "until every path answered again under the fault"
	}
	return "longest gap of a path; none stayed down"
}

// story tells a run in one sentence.
func (run *Run) story() string {
	lead := run.heading() + ", "
	lost := run.lost()
	var tail string
	switch {
	case !run.Recovered && len(lost) > 0:
		tail = fmt.Sprintf("%d of %s, all of %s, did not answer again until the fault was undone: the longest gap is %s",
			len(lost), count(run.requiredPaths(), "path"), sitesOf(lost), lostGap(lost))
	case !run.Recovered:
		tail = "not every path answered again while the fault was in force"
	case run.downMS() <= 0:
		tail = "every path kept answering"
	case run.RecoveryMS != nil && *run.RecoveryMS > 0:
		tail = "every path answered again " + span(*run.RecoveryMS) + " after the " + plural(max(1, len(run.Faults)), "", "first ") + "fault"
	default:
		tail = "no path stayed down: the longest gap is " + run.headline()
	}
	return lead + tail + run.movesClause() + "."
}

func (run *Run) movesClause() string {
	if !run.Agents || run.Moves == 0 && !run.aboutLeaders() {
		return ""
	}
	var b strings.Builder
	switch run.Moves {
	case 0:
		b.WriteString("; leadership was not moved")
	case 1:
		b.WriteString("; leadership moved once")
	default:
		fmt.Fprintf(&b, "; leadership moved %d times", run.Moves)
	}
	if run.Moves > 0 && run.TransferMS != nil {
		b.WriteString(" (transfer " + span(*run.TransferMS) + ")")
	}
	if run.Inflight > 0 {
		b.WriteString(", and " + count(run.Inflight, "request") + " in flight " + plural(run.Inflight, "was", "were") + " hit")
	}
	return b.String()
}

// aboutLeaders says whether a run has anything to do with leadership: a path to etcd, or
// an event of its leaders.
func (run *Run) aboutLeaders() bool {
	return slices.ContainsFunc(run.Paths, func(p Path) bool { return p.Target == "etcd" }) ||
		slices.ContainsFunc(run.Events, func(e Event) bool {
			return slices.Contains([]string{"move", "move-failed", "move-refused", "leader-changed", "no-leader", "leader-back"}, e.Kind)
		})
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func lostGap(lost []*Path) string {
	run := Run{}
	for _, p := range lost {
		run.Paths = append(run.Paths, *p)
	}
	worst := run.worst()
	if worst.Open {
		return "over " + span(worst.LowerMS)
	}
	return bounds(worst.LowerMS, worst.UpperMS)
}

// sitesOf prints the sites of some paths: "site b", "sites a and b".
func sitesOf(paths []*Path) string {
	var names []string
	for _, p := range paths {
		if name := brief(p.Site, 24); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return plural(len(names), "site ", "sites ") + list(names)
}

// label names the path inside its site's group: "put · new". The target is added
// where the site has several.
func (p *Path) label(withTarget bool) string {
	parts := []string{}
	for _, part := range []string{p.Kind, p.Mode} {
		if part = clean(part); part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return clean(p.Name)
	}
	text := strings.Join(parts, " · ")
	if withTarget {
		text = clean(p.Target) + " " + text
	}
	return text
}

// manyTargets says whether some site has paths to more than one target.
func (run *Run) manyTargets() bool {
	seen := map[string]string{}
	for _, p := range run.Paths {
		if first, ok := seen[p.Site]; ok && first != p.Target && p.Role != "control" {
			return true
		} else if !ok && p.Role != "control" {
			seen[p.Site] = p.Target
		}
	}
	return false
}

// Words prints a verdict for people.
func (v Verdict) Words() string {
	switch v {
	case Pass:
		return "Pass"
	case Fail:
		return "Fail"
	case Inconclusive:
		return "Inconclusive"
	case NotApplicable:
		return "Not applicable"
	}
	return "Not judged"
}

// heading is what the report is about, for people.
func (r *Report) heading() string {
	if title := clean(r.Title); title != "" {
		return title
	}
	return clean(r.Scenario)
}

package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
)

// Encode writes the comparison as JSON.
func (c *Comparison) Encode(dst io.Writer) error {
	encoder := json.NewEncoder(dst)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(c); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// text prints an outage: "no gap", "3.1–3.3 s", "over 30.0 s"; a dash without one.
func (g *Gap) text() string {
	switch {
	case g == nil:
		return "–"
	case g.Open:
		return "over " + span(g.LowerMS)
	case g.UpperMS <= 0:
		return "no gap"
	}
	return bounds(g.LowerMS, g.UpperMS)
}

// difference prints what changed: "longer by 0.9–1.3 s", "no difference shown".
func (c *Change) difference() string {
	switch c.Direction {
	case OnlyBefore:
		return "not measured later"
	case OnlyAfter:
		return "not measured earlier"
	case Longer:
		if c.After.Open {
			return "longer by over " + span(c.LowerMS)
		}
		return "longer by " + bounds(c.LowerMS, c.UpperMS)
	case Shorter:
		if c.Before.Open {
			return "shorter by over " + span(-c.UpperMS)
		}
		return "shorter by " + bounds(-c.UpperMS, -c.LowerMS)
	}
	if c.Before.UpperMS <= 0 && c.After.UpperMS <= 0 {
		return ""
	}
	return "no difference shown"
}

// summary tells the comparison in one line.
func (c *Comparison) summary() string {
	n := map[Direction]int{}
	for i := range c.Changes {
		n[c.Changes[i].Direction]++
	}
	parts := []string{fmt.Sprintf("%d longer", n[Longer]), fmt.Sprintf("%d shorter", n[Shorter]), fmt.Sprintf("%d without a difference", n[Same])}
	if lone := n[OnlyBefore] + n[OnlyAfter]; lone > 0 {
		parts = append(parts, fmt.Sprintf("%d in one of them only", lone))
	}
	return "Of " + count(len(c.Changes), "path") + ": " + list(parts)
}

// Text writes the comparison for people: what changed, path by path. Paths without an
// outage in either are left out.
func (c *Comparison) Text(dst io.Writer) error {
	var b bytes.Buffer
	for _, s := range []struct {
		when string
		of   Side
	}{{"earlier", c.Before}, {"later  ", c.After}} {
		fmt.Fprintf(&b, "%s  %s, %s: %s\n", s.when, clean(s.of.Scenario), s.of.Started.UTC().Format(time.DateTime), s.of.Verdict)
	}
	fmt.Fprintf(&b, "%s.\n", c.summary())
	for _, d := range c.Doubts {
		fmt.Fprintf(&b, "  but: %s\n", brief(d, 200))
	}
	part := ""
	for i := range c.Changes {
		x := &c.Changes[i]
		if x.difference() == "" {
			continue
		}
		if p := x.part(); p != part {
			part = p
			fmt.Fprintf(&b, "\n%s\n", part)
		}
		fmt.Fprintf(&b, "  %-32s %14s  %14s  %s\n", brief(x.Path, 32), x.Before.text(), x.After.text(), x.difference())
	}
	_, err := dst.Write(b.Bytes())
	return err
}

// part names the run that a change stands in: "main, with the agents".
func (c *Change) part() string {
	run := Run{Agents: c.Agents}
	heading := run.heading()
	return brief(c.Variant, 60) + ", " + strings.ToLower(heading[:1]) + heading[1:]
}

//go:embed assets/compare.html
var compareHTML string

var compareTemplate = template.Must(template.New("compare").Parse(compareHTML))

// comparePage is what assets/compare.html shows; all texts in it have passed clean.
type comparePage struct {
	Title, Summary string
	Sides          []compareSide
	Doubts         []string
	// Changed has the paths that differ, of all parts.
	Changed []comparePart
	Parts   []comparePart
	Numbers []compareRow
	Style   template.CSS
}

type compareSide struct {
	Heading, Scenario, Started string
	Verdict                    Verdict
}

type comparePart struct {
	Heading string
	Rows    []compareRow
}

// compareRow has bars on one scale, in thousandths of the longest outage of the part.
type compareRow struct {
	Name, Before, After, Difference string
	BeforeBar, AfterBar             int
	Direction                       Direction
}

// HTML writes the comparison as one self-contained page.
func (c *Comparison) HTML(dst io.Writer) error {
	page := comparePage{Title: "Two drills: " + clean(c.After.Scenario), Summary: c.summary(), Style: template.CSS(pageCSS)}
	for _, s := range []struct {
		heading string
		of      Side
	}{{"Earlier", c.Before}, {"Later", c.After}} {
		page.Sides = append(page.Sides, compareSide{s.heading, clean(s.of.Scenario), s.of.Started.UTC().Format("2 January 2006, 15:04 UTC"), s.of.Verdict})
	}
	for _, d := range c.Doubts {
		page.Doubts = append(page.Doubts, brief(d, 300))
	}
	page.Parts = c.parts()
	page.Changed = changed(page.Parts)
	for _, name := range sortedKeys(c.Numbers) {
		pair := c.Numbers[name]
		page.Numbers = append(page.Numbers, compareRow{Name: clean(name), Before: figureOf(pair.Before), After: figureOf(pair.After)})
	}
	var buf bytes.Buffer
	if err := compareTemplate.Execute(&buf, page); err != nil {
		return fmt.Errorf("render comparison: %w", err)
	}
	_, err := dst.Write(buf.Bytes())
	return err
}

func figureOf(v *float64) string {
	if v == nil {
		return "–"
	}
	return number(*v)
}

// parts groups the changes by variant and agents, in their order.
func (c *Comparison) parts() (all []comparePart) {
	longest := 0.0
	for i := range c.Changes {
		longest = max(longest, c.Changes[i].Before.length(), c.Changes[i].After.length())
	}
	for i := range c.Changes {
		x := &c.Changes[i]
		if n := len(all); n == 0 || all[n-1].Heading != x.part() {
			all = append(all, comparePart{Heading: x.part()})
		}
		p := &all[len(all)-1]
		p.Rows = append(p.Rows, compareRow{
			Name: brief(x.Path, 80), Before: x.Before.text(), After: x.After.text(), Difference: x.difference(),
			BeforeBar: share(x.Before.length(), longest), AfterBar: share(x.After.length(), longest), Direction: x.Direction,
		})
	}
	return all
}

// changed are the rows that differ, by their parts: what a reader looks for stands
// before what is the same.
func changed(parts []comparePart) (all []comparePart) {
	for _, p := range parts {
		rows := slices.DeleteFunc(slices.Clone(p.Rows), func(r compareRow) bool { return r.Direction == Same })
		if len(rows) > 0 {
			all = append(all, comparePart{p.Heading, rows})
		}
	}
	return all
}

// length is what a bar shows.
func (g *Gap) length() float64 {
	if g == nil {
		return 0
	}
	return max(g.LowerMS, g.UpperMS)
}

// share is part of whole in thousandths.
func share(part, whole float64) int {
	if whole <= 0 {
		return 0
	}
	return int(1000 * part / whole)
}

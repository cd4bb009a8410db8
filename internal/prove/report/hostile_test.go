package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// poison is what a system under test could put into a name or an error text:
// markup, quotes, a terminal escape, a line break, a direction override, a
// character that XML cannot hold, broken UTF-8, and a link.
const poison = "x</text><script>alert(1)</script>\"'`|{{.}}&amp;]]>\x1b[31m\n\x00\u202eevil\xff@admin#1 http://evil.example/"

// hostile is a report with poison in every text and every class of failure.
func hostile() *Report {
	r := demo()
	r.Scenario, r.Title = poison, poison
	r.Verdict, r.Reasons = Fail, []string{poison}
	r.Environment = map[string]string{poison: poison}
	r.Numbers = map[string]float64{poison: 1.5}
	r.Sites = []Site{{Name: poison, Witness: true, Members: []string{poison}}, {Name: "b"}}
	for _, run := range []*Run{r.With, r.Without} {
		run.Reasons = []string{poison}
		run.Phases = append(run.Phases, Phase{poison, 0, 1})
		run.Faults = append(run.Faults, Fault{Name: poison, Kind: poison, Detail: poison, FromMS: 5000, ToMS: 9000,
			Links: []Link{{From: poison, To: "b", OneWay: true}}, Sites: []string{poison}})
		run.Events = append(run.Events, Event{AtMS: 10, Source: poison, Kind: poison, Cluster: poison, Message: poison},
			Event{AtMS: 20, Source: poison, Kind: "move", Cluster: poison, Message: poison, Keys: map[string]string{"from": poison, "to": "b"}})
		for i := range run.Paths {
			p := &run.Paths[i]
			p.Name, p.Site, p.Target, p.Kind, p.Mode, p.Role, p.Reason = poison+fmt.Sprint(i), poison, poison, poison, poison, poison, poison
			p.Verdict, p.Expected = Fail, &Window{MaxMS: 100, Why: []string{poison}}
			p.Outages = []Outage{{FromMS: 0, ToMS: 900, LowerMS: 800, UpperMS: 900, Open: i%2 == 0, First: poison, Errors: map[string]int{poison: 3}}}
			p.Strip = append(p.Strip, Stretch{FromMS: 9000, ToMS: 9100, Class: poison})
			for k, c := range classes {
				p.Strip = append(p.Strip, Stretch{FromMS: 10_000 + 1000*float64(k), ToMS: 11_000 + 1000*float64(k), Class: c.Name})
			}
		}
	}
	r.Paths = r.With.Paths
	r.Variants[0].Name, r.Variants[0].Reasons, r.Variants[0].Verdict = poison, []string{poison}, NotApplicable
	return r
}

func render(t testing.TB, r *Report, f Format) string {
	t.Helper()
	var buf bytes.Buffer
	if err := Render(&buf, r, f); err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	return buf.String()
}

// wellFormed reads s as XML to its end.
func wellFormed(s string) error {
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestXMLIsWellFormed(t *testing.T) {
	for name, r := range map[string]*Report{"demo": demo(), "hostile": hostile(), "empty": {Version: 1, Verdict: Pass}} {
		for _, f := range []Format{FormatSVG, FormatSummary, FormatJUnit} {
			if err := wellFormed(render(t, r, f)); err != nil {
				t.Errorf("%s, %s: %v", name, f, err)
			}
		}
	}
}

// scripts are the elements that could run code or load something, as markup.
var scripts = regexp.MustCompile(`(?i)<(script|img|iframe|object|embed|link|base|form|foreignObject|use|image|a)\b`)

func TestHostileTextsStayTexts(t *testing.T) {
	r := hostile()
	for _, f := range []Format{FormatSVG, FormatSummary} {
		if found := scripts.FindString(render(t, r, f)); found != "" {
			t.Errorf("%s contains %s", f, found)
		}
	}
	page := render(t, r, FormatHTML)
	if n := strings.Count(strings.ToLower(page), "<script"); n != 1 {
		t.Errorf("page has %d scripts, want its own one", n)
	}
	for _, f := range Formats {
		got := render(t, r, f)
		if f == FormatJSON { // data, not a rendering: it keeps what it was given, encoded
			continue
		}
		for _, bad := range []string{"\x1b", "\x00", "\u202e", "\xff"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s lets %q through", f, bad)
			}
		}
	}
}

func TestMarkdownHasNoLiveMarkup(t *testing.T) {
	got := render(t, hostile(), FormatMarkdown)
	for _, bad := range []string{"<script", "@admin", "#1", "http://", "\n|x"} {
		if strings.Contains(got, bad) {
			t.Errorf("report.md contains %q:\n%s", bad, got)
		}
	}
	for line := range strings.Lines(got) {
		if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); strings.HasPrefix(line, "|") && n != 5 && n != 6 {
			t.Errorf("a cell breaks out of its row: %s", line)
		}
	}
}

// TestPageRefersToNothing: no address but the namespace of SVG, no attribute that
// loads, no import. The report says http:// only where a text of the run did.
func TestPageRefersToNothing(t *testing.T) {
	for _, f := range []Format{FormatHTML, FormatSVG, FormatSummary} {
		got := strings.ReplaceAll(render(t, demo(), f), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{"http://", "https://", "src=", "@import", "//cdn", "url(http", "url(//", "xlink"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s contains %q", f, bad)
			}
		}
		for _, ref := range regexp.MustCompile(`(?:href="|url\()([^")]*)`).FindAllStringSubmatch(got, -1) {
			if !strings.HasPrefix(ref[1], "#") && ref[1] != "data:," {
				t.Errorf("%s refers to %q", f, ref[1])
			}
		}
	}
}

// TestReferencesResolve: every #id that is pointed at exists once.
func TestReferencesResolve(t *testing.T) {
	for _, r := range []*Report{demo(), hostile()} {
		for _, f := range []Format{FormatHTML, FormatSVG} {
			got := render(t, r, f)
			ids := map[string]int{}
			for _, m := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(got, -1) {
				if ids[m[1]]++; ids[m[1]] > 1 {
					t.Errorf("%s: id %q twice", f, m[1])
				}
			}
			for _, m := range regexp.MustCompile(`(?:href="#|url\(#|aria-labelledby=")([^")]*)`).FindAllStringSubmatch(got, -1) {
				if ids[m[1]] == 0 {
					t.Errorf("%s: nothing has the id %q", f, m[1])
				}
			}
		}
	}
}

func TestMetricsParse(t *testing.T) {
	for name, r := range map[string]*Report{"demo": demo(), "hostile": hostile()} {
		problems, err := promlint.New(strings.NewReader(render(t, r, FormatMetrics))).Lint()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
		}
	}
}

func TestTextKeepsItsWidth(t *testing.T) {
	for _, r := range []*Report{demo(), hostile()} {
		for _, width := range []int{40, 60, 80, 132} {
			for _, color := range []bool{false, true} {
				var buf bytes.Buffer
				if err := Text(&buf, r, Terminal{Width: width, Color: color}); err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(buf.String()) {
					if n := visible(strings.TrimSuffix(line, "\n")); n > width {
						t.Errorf("line of %d columns in %d: %q", n, width, line)
					}
					if strings.Count(line, "\x1b[")%2 != 0 {
						t.Errorf("colour does not end: %q", line)
					}
					if !color && strings.Contains(line, "\x1b") {
						t.Errorf("colour where none was asked for: %q", line)
					}
				}
			}
		}
	}
}

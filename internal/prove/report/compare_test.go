package report

import (
	"bytes"
	"strings"
	"testing"
)

func path(name string, outages ...Outage) Path {
	return Path{Name: name, Role: "affected", Verdict: Pass, Outages: outages}
}

func TestCompareBracketsTheDifference(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after *Outage
		want          Direction
		lower, upper  float64
		text          string
	}{
		"none":           {nil, nil, Same, 0, 0, ""},
		"longer":         {&Outage{LowerMS: 3100, UpperMS: 3300}, &Outage{LowerMS: 4200, UpperMS: 4400}, Longer, 900, 1300, "longer by 0.9–1.3 s"},
		"shorter":        {&Outage{LowerMS: 4200, UpperMS: 4400}, &Outage{LowerMS: 3100, UpperMS: 3300}, Shorter, -1300, -900, "shorter by 0.9–1.3 s"},
		"overlap":        {&Outage{LowerMS: 3100, UpperMS: 3300}, &Outage{LowerMS: 3200, UpperMS: 3400}, Same, -100, 300, "no difference shown"},
		"touch":          {&Outage{LowerMS: 3100, UpperMS: 3300}, &Outage{LowerMS: 3300, UpperMS: 3500}, Same, 0, 400, "no difference shown"},
		"new":            {nil, &Outage{LowerMS: 200, UpperMS: 400}, Longer, 200, 400, "longer by 200–400 ms"},
		"one sample":     {nil, &Outage{LowerMS: 0, UpperMS: 200}, Same, 0, 200, "no difference shown"},
		"open later":     {&Outage{LowerMS: 3100, UpperMS: 3300}, &Outage{LowerMS: 9000, UpperMS: 9100, Open: true}, Longer, 5700, 6000, "longer by over 5.7 s"},
		"open earlier":   {&Outage{LowerMS: 9000, UpperMS: 9100, Open: true}, &Outage{LowerMS: 3100, UpperMS: 3300}, Shorter, -6000, -5700, "shorter by over 5.7 s"},
		"open, and more": {&Outage{LowerMS: 3100, UpperMS: 3300, Open: true}, &Outage{LowerMS: 9000, UpperMS: 9100}, Same, 5700, 6000, "no difference shown"},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(o *Outage) *Run {
				p := path("b/put")
				if o != nil {
					p.Outages = []Outage{*o}
				}
				return &Run{Paths: []Path{p, {Name: "b/control", Role: "control"}}}
			}
			got := Compare(&Report{With: run(tc.before)}, &Report{With: run(tc.after)}).Changes
			if len(got) != 1 {
				t.Fatalf("%d changes, want that of b/put alone", len(got))
			}
			if c := got[0]; c.Direction != tc.want || c.LowerMS != tc.lower || c.UpperMS != tc.upper || c.difference() != tc.text {
				t.Errorf("%s [%g, %g] %q", c.Direction, c.LowerMS, c.UpperMS, c.difference())
			}
		})
	}
}

func TestCompareNamesWhatIsInOneOnly(t *testing.T) {
	before := &Report{Scenario: "flap", Without: &Run{Paths: []Path{path("a")}}, Environment: map[string]string{"etcd": "3.6"}}
	after := &Report{Scenario: "one-way", Without: &Run{Paths: []Path{path("b")}}, Verdict: Inconclusive,
		Variants: []Variant{{Name: "c", With: &Run{Paths: []Path{path("a")}}}}}
	c := Compare(before, after)
	var got []string
	for _, x := range c.Changes {
		got = append(got, x.Variant+" "+x.Path+" "+string(x.Direction))
	}
	if s := strings.Join(got, ", "); s != "main a only-before, main b only-after, c a only-after" {
		t.Error(s)
	}
	if s := strings.Join(c.Doubts, "; "); s != "the scenarios differ: flap and one-way; the later drill is inconclusive; etcd: 3.6, then not known" {
		t.Error(s)
	}
}

// later is the demo, run again after something was changed.
func later() *Report {
	r := demo()
	r.Started = r.Started.AddDate(0, 0, 1)
	r.Environment["etcd"] = "3.7.3"
	r.Numbers["with.recovery_ms"], r.Numbers["new"] = 4240, 1
	for i := range r.With.Paths {
		if p := &r.With.Paths[i]; p.longest() != nil && p.Site == "b" {
			*p = p.down(0, p.Outages[0].LowerMS+1000, "timeout", "context deadline exceeded")
		}
	}
	r.Paths = r.With.Paths
	return r
}

func TestCompareGolden(t *testing.T) {
	c := Compare(demo(), later())
	for name, write := range map[string]func(*bytes.Buffer) error{
		"compare.txt":  func(b *bytes.Buffer) error { return c.Text(b) },
		"compare.json": func(b *bytes.Buffer) error { return c.Encode(b) },
		"compare.html": func(b *bytes.Buffer) error { return c.HTML(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
}

func TestCompareOfHostileReports(t *testing.T) {
	c := Compare(demo(), hostile())
	var text, html bytes.Buffer
	if err := c.Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := c.HTML(&html); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x1b\x00\u202e") {
		t.Error("a terminal escape or an override came through")
	}
	if strings.Contains(html.String(), "<script>alert") {
		t.Error("markup came through")
	}
}

package report

import (
	"strings"
	"testing"
)

func TestDurations(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{span(0), "0 ms"}, {span(103.4), "103 ms"}, {span(999.6), "1.0 s"}, {span(3240), "3.2 s"}, {span(120_000), "120 s"},
		{bounds(3140, 3340), "3.1–3.3 s"}, {bounds(3200, 3210), "3.2 s"}, {bounds(210, 390), "210–390 ms"}, {bounds(800, 1200), "0.8–1.2 s"},
		{limit(6000), "6 s"}, {limit(1500), "1.5 s"}, {limit(250), "250 ms"},
		{moment(-4600), minus + "4.60 s"}, {moment(0), "0.00 s"}, {moment(-.2), "0.00 s"},
		{allowed(&Window{MaxMS: 6000}), "allowed ≤ 6 s"}, {allowed(&Window{MinMS: 2000, MaxMS: 6000}), "allowed 2 s to 6 s"},
		{allowed(&Window{}), "no gap allowed"}, {allowed(nil), ""},
		{list([]string{"a"}), "a"}, {list([]string{"a", "b", "c"}), "a, b and c"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestGaps(t *testing.T) {
	one := Outage{LowerMS: 3140, UpperMS: 3340}
	open := Outage{LowerMS: 30_000, UpperMS: 30_400, Open: true}
	for _, c := range []struct {
		outages []Outage
		want    string
	}{
		{nil, "no gap"},
		{[]Outage{one}, "3.1–3.3 s"},
		{[]Outage{one, {LowerMS: 10, UpperMS: 20}}, "2 gaps, longest 3.1–3.3 s"},
		{[]Outage{open}, "over 30.0 s"},
	} {
		if got := gap(&Path{Outages: c.outages}); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestStories(t *testing.T) {
	r := demo()
	for _, c := range []struct {
		run  *Run
		want []string
	}{
		{r.Without, []string{"5 of 21 paths, all of site b, did not answer again until the fault was undone", "30.3–30.5 s"}},
		{r.With, []string{"every path answered again 3.2 s after the fault", "leadership moved once (transfer 103 ms)", "2 requests in flight were hit"}},
		{r.Variants[1].With, []string{"every path kept answering; leadership was not moved."}},
	} {
		for _, want := range c.want {
			if got := c.run.story(); !strings.Contains(got, want) {
				t.Errorf("%q lacks %q", got, want)
			}
		}
	}
}

func TestMainVerdictIsItsOwn(t *testing.T) {
	r := demo() // inconclusive as a whole, for a variant's sake
	if got, reasons := r.mainVerdict(); got != Pass || len(reasons) > 0 {
		t.Errorf("main verdict %s, %v", got, reasons)
	}
	r.Verdict, r.Reasons = Fail, []string{"main: the agents made it worse", "leader in b: something else"}
	if got, reasons := r.mainVerdict(); got != Fail || len(reasons) != 1 || reasons[0] != "the agents made it worse" {
		t.Errorf("main verdict %s, %v", got, reasons)
	}
}

func TestSiteOfMember(t *testing.T) {
	r := demo()
	sites := []string{"a", "b", "c"}
	for member, want := range map[string]string{"a1": "a", "b": "b", "etcd-c": "c", "main-b2": "b", "x9": "", "": ""} {
		if got := r.siteOf(member, sites); got != want {
			t.Errorf("site of %q is %q, want %q", member, got, want)
		}
	}
}

func TestMissedSaysWhatAStalledPathDid(t *testing.T) {
	p := Path{Verdict: Fail, Reason: "1.9 s without an answer", Expected: &Window{MaxMS: 1000}}
	if got := missed(&p); got != "1.9 s without an answer" {
		t.Errorf("a stalled path: %q", got)
	}
	p.Outages = []Outage{{LowerMS: 3000, UpperMS: 3200}}
	if got := missed(&p); !strings.Contains(got, "allowed") {
		t.Errorf("a path with a gap: %q", got)
	}
}

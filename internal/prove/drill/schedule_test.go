package drill

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

func TestTimetable(t *testing.T) {
	cut := func(s scenario.Step) scenario.Step {
		s.Cuts = []scenario.Cut{{From: "a", To: "b"}}
		return s
	}
	for _, tc := range []struct {
		name  string
		steps []scenario.Step
		hold  time.Duration
		want  string
	}{
		{"one fault until the heal", []scenario.Step{cut(scenario.Step{Name: "f"})}, 20 * time.Second,
			"0s break f"},
		{"a flap", []scenario.Step{cut(scenario.Step{Name: "f", For: 4 * time.Second, Every: 8 * time.Second})}, 20 * time.Second,
			"0s break f-1, 4s heal f-1, 8s break f-2, 12s heal f-2, 16s break f-3"},
		{"heal comes before the next at one moment", []scenario.Step{
			cut(scenario.Step{Name: "f"}),
			cut(scenario.Step{Name: "g", At: 5 * time.Second}),
			cut(scenario.Step{Name: "h", At: 2 * time.Second, For: 3 * time.Second}),
		}, 20 * time.Second, "0s break f, 2s break h, 5s heal h, 5s break g"},
		{"no fault begins at the end", []scenario.Step{cut(scenario.Step{Name: "f", For: time.Second, Every: 10 * time.Second})}, 20 * time.Second,
			"0s break f-1, 1s heal f-1, 10s break f-2, 11s heal f-2"},
	} {
		var got []string
		for _, a := range timetable(tc.steps, tc.hold) {
			verb := "break"
			if a.undo {
				verb = "heal"
			}
			got = append(got, fmt.Sprintf("%s %s %s", a.at, verb, a.name()))
		}
		if text := strings.Join(got, ", "); text != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, text, tc.want)
		}
	}
}

func TestDetailAndStruck(t *testing.T) {
	for _, tc := range []struct {
		scenario, detail string
		links            []report.Link
		sites            []string
	}{
		{"partial-split", "cut a-b", []report.Link{{From: "a", To: "b"}}, nil},
		{"one-way", "cut a>b", []report.Link{{From: "a", To: "b", OneWay: true}}, nil},
		{"slow-disk", "make every sync take 700ms on main/a", nil, []string{"a"}},
		{"site-loss", "cut b; kill b", []report.Link{{From: "b", To: "a"}, {From: "b", To: "c"}}, []string{"b"}},
	} {
		c := mustCase(t, tc.scenario, "main")
		a := timetable(c.Faults, c.Phases.Hold)[0]
		links, sites := a.struck(c)
		if a.detail() != tc.detail || !reflect.DeepEqual(links, tc.links) || !reflect.DeepEqual(sites, tc.sites) {
			t.Errorf("%s: %q %v %v, want %q %v %v", tc.scenario, a.detail(), links, sites, tc.detail, tc.links, tc.sites)
		}
	}
}

func mustCase(t *testing.T, name, variant string) *scenario.Case {
	t.Helper()
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Case(variant)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

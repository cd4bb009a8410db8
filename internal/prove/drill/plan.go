package drill

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Plan says in words what a case breaks, which paths it touches and what they
// are allowed, with the derivation of every window.
func Plan(c *scenario.Case) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s, variant %s: %s", c.Scenario, c.Variant, c.Title)
	if c.About != "" {
		line("  %s", strings.ReplaceAll(c.About, "\n", "\n  "))
	}
	line("  network %s, leader %s", c.Lab.Preset, leaders(c))
	line("  phases: baseline %s, hold %s, settle %s; about %s per run, two runs", c.Phases.Baseline, c.Phases.Hold, c.Phases.Settle, c.Phases.Baseline+c.Phases.Hold+c.Phases.Settle+15*time.Second)
	line("  faults:")
	for _, a := range timetable(c.Faults, c.Phases.Hold) {
		if a.undo {
			line("    %6s  heal %s", a.at, a.name())
		} else {
			line("    %6s  break %s: %s", a.at, a.name(), a.detail())
		}
	}
	line("  paths: %d", len(c.Paths))
	for _, e := range c.Expect {
		planExpectation(line, c, e)
	}
	line("  moves by agents: %d to %d", c.Moves.Min, c.Moves.Max)
	if c.Compare != nil {
		line("  with the agents no path may be out longer than without them by more than %s", c.Compare.Tolerance)
	}
	return b.String()
}

func planExpectation(line func(string, ...any), c *scenario.Case, e scenario.Expectation) {
	var names []string
	for _, p := range c.Paths {
		if is := c.ExpectationOf(p); fmt.Sprint(is) == fmt.Sprint(e) {
			names = append(names, p.Name)
		}
	}
	line("    %s (%d): %s", e.Role, len(names), strings.Join(names, " "))
	switch e.Role {
	case scenario.RoleClean:
		line("      no gap over %s", cmp.Or(e.Gap, time.Second))
	case scenario.RoleAffected:
		planWindow(line, c, e, "with the agents", e.Window)
		planWindow(line, c, e, "without them", cmp.Or(e.Without, e.Window))
	}
}

func planWindow(line func(string, ...any), c *scenario.Case, e scenario.Expectation, side, name string) {
	switch name {
	case scenario.Never:
		line("      %s: down as long as the fault lasts", side)
		return
	case scenario.Any:
		line("      %s: shown, not judged", side)
		return
	}
	for _, k := range c.Clusters {
		if len(e.Clusters) > 0 && e.Clusters[0] != k.Name {
			continue
		}
		w, err := c.TimersOf(k.Name).Window(name)
		if err != nil {
			continue // validated with the scenario
		}
		least := w.Min
		if e.Unfelt {
			least = 0
		}
		line("      %s: whole again within %s to %s = %s", side, least, w.Max, strings.Join(w.Why, " + "))
	}
}

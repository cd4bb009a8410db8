package drill

import (
	"cmp"
	"fmt"
	"reflect"
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
	planServers(line, c)
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
	planBounds(line, "changes of grade by balancers", c.Balance.Transitions)
	planBounds(line, "connections reset by balancers", c.Balance.Resets)
	if c.Compare != nil {
		line("  with the agents no path may be out longer than without them by more than %s", c.Compare.Tolerance)
	}
	return b.String()
}

func planServers(line func(string, ...any), c *scenario.Case) {
	if !c.APIServers {
		return
	}
	line("  a kube-apiserver in every site, which stores in that site's etcd member alone")
	if c.EtcdCheck > 0 {
		line("  whose /readyz waits %s for etcd, not 2s", c.EtcdCheck)
	}
	if !c.Agents.Has(scenario.AgentBalance) {
		return
	}
	use := "prefers the apiserver of its own site"
	if c.Balance.Spread {
		use = "uses the apiservers of all sites alike"
	}
	line("  a balancer on every node, which %s", use)
	line("  without the agents: %s", balanceWords(c.Balance.Without))
}

func planBounds(line func(string, ...any), what string, b *scenario.Bounds) {
	if b != nil {
		line("  %s: %d to %d", what, b.Min, b.Max)
	}
}

func planExpectation(line func(string, ...any), c *scenario.Case, e scenario.Expectation) {
	var names []string
	for _, p := range c.Paths {
		if is := c.ExpectationOf(p); reflect.DeepEqual(is, e) {
			names = append(names, p.Name)
		}
	}
	line("    %s (%d): %s", e.Role, len(names), strings.Join(names, " "))
	switch e.Role {
	case scenario.RoleClean:
		line("      no gap over %s%s", cmp.Or(e.Gap, time.Second), planCounts(e))
		if e.Without == scenario.Any {
			line("      without the agents: shown, not judged")
		}
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
	told := map[string]bool{}
	for _, p := range c.Paths {
		if !reflect.DeepEqual(c.ExpectationOf(p), e) {
			continue
		}
		w, err := c.WindowOf(p, name)
		if err != nil {
			continue // validated with the scenario
		}
		if e.Unfelt {
			w.Min = 0
		}
		text := fmt.Sprintf("whole again within %s to %s = %s", w.Min, w.Max, strings.Join(w.Why, " + "))
		if !told[text] {
			told[text] = true
			line("      %s: %s", side, text)
		}
	}
	if e.FailWithin > 0 {
		line("      what fails at first has failed within %s", e.FailWithin)
	}
}

// planCounts are the bounds of a clean path beside its gap.
func planCounts(e scenario.Expectation) string {
	text := ""
	if e.Failed != nil {
		text += fmt.Sprintf(", at most %d requests fail", *e.Failed)
	}
	if e.Gaps != nil {
		text += fmt.Sprintf(", at most %d gaps", *e.Gaps)
	}
	return text
}

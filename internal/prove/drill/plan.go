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
	planAddress(line, c)
	planPair(line, c)
	planStores(line, c)
	planService(line, c)
	runs := "two runs, " + c.SideWords(false) + " and " + c.SideWords(true)
	if c.Alone {
		runs = "one run, " + c.SideWords(true)
	}
	line("  phases: baseline %s, hold %s, settle %s; about %s per run, %s", c.Phases.Baseline, c.Phases.Hold, c.Phases.Settle, lasts(c), runs)
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
	planEndpoints(line, c)
	planAddressBounds(line, c)
	planPairBounds(line, c)
	if c.Compare != nil {
		line("  %s no path may be out longer than %s by more than %s", c.SideWords(true), c.SideWords(false), c.Compare.Tolerance)
	}
	return b.String()
}

func planServers(line func(string, ...any), c *scenario.Case) {
	if !c.APIServers {
		return
	}
	line("  a kube-apiserver in every site, which stores %s", storageWords(c.StorageIn(true)))
	if with, without := c.StorageIn(true), c.StorageIn(false); with != without {
		line("  without the agents: it stores %s", storageWords(without))
	}
	if c.EtcdCheck > 0 {
		line("  whose /readyz waits %s for etcd, not 2s", c.EtcdCheck)
	}
	planKubernetes(line, c)
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

// startTime is about how long all takes to start and end.
func startTime(c *scenario.Case) time.Duration {
	if c.Kubernetes {
		return 45 * time.Second
	}
	return 15 * time.Second
}

// storageWords say where apiservers store.
func storageWords(storage string) string {
	switch storage {
	case scenario.StorageList:
		return "in the etcd members of all sites, as its own etcd client chooses"
	case scenario.AgentEtcdBalance:
		return "through a balancer of kind etcd on its node"
	}
	return "in that site's etcd member alone"
}

func planKubernetes(line func(string, ...any), c *scenario.Case) {
	if !c.Kubernetes {
		return
	}
	line("  kubelet and kube-proxy on every node, controller managers and schedulers, a pod in every site for its clients")
	if len(c.Gateway) > 0 {
		line("  in %s a pod of the Service echo, and a gateway with the endpoints of all zones as upstreams", strings.Join(c.Gateway, ", "))
		if c.Agents.Has(scenario.AgentZonal) {
			line("  with the agents the gateways read the mirror echo-zonal instead")
		}
	}
	if c.Agents.Has(scenario.AgentSlices) {
		line("  with the agents: an agent per site publishes the endpoints of default/kubernetes")
		line("  without the agents: %s", reconcilerWords(c.Slices.Without))
	}
}

// reconcilerWords say who publishes the endpoints in a run without the agents.
func reconcilerWords(without string) string {
	if without == scenario.ReconcilerSeed {
		return "one zoned slice per node whose readiness follows a check every 5 s publishes them, and nobody adopts a zone"
	}
	return "the apiservers' own reconciler publishes them, with leases of 15 s and without zones"
}

// planEndpoints are the bounds of the endpoints in the run with the agents.
func planEndpoints(line func(string, ...any), c *scenario.Case) {
	if c.NodesReady {
		line("  every Node stays Ready")
	}
	if !c.Agents.Has(scenario.AgentSlices) {
		return
	}
	line("  endpoints: never none that is ready, never one without zone and hint, no zone without one for over %s", c.Slices.AdoptedWithin())
	if c.Slices.Out > 0 {
		line("  endpoints: that of a struck apiserver is out of its zone within %s", c.Slices.Out)
	}
	planBounds(line, "changes of endpoints while the faults are in force", c.Slices.Changes)
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
		if e.Without != "" {
			planWindow(line, c, e, c.SideWords(false), e.Without)
		}
		planAfter(line, e)
	case scenario.RoleAffected:
		planWindow(line, c, e, c.SideWords(true), e.Window)
		planWindow(line, c, e, c.SideWords(false), cmp.Or(e.Without, e.Window))
		planAfter(line, e)
	}
}

func planWindow(line func(string, ...any), c *scenario.Case, e scenario.Expectation, side, name string) {
	switch name {
	case scenario.Never:
		line("      %s: down as long as the fault lasts", side)
		return
	case scenario.Half:
		line("      %s: loses about every second request", side)
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

func planAfter(line func(string, ...any), e scenario.Expectation) {
	if e.FailedAfter != nil {
		line("      after the heal at most %d requests fail", *e.FailedAfter)
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

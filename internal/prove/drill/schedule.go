package drill

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// action is one entry of the timetable of a hold.
type action struct {
	at   time.Duration // from the injection of the first fault
	step scenario.Step
	undo bool
	// round counts the repetitions of a step from 0.
	round int
}

// name tells the rounds of a repeated fault apart.
func (a action) name() string {
	if a.step.Every == 0 {
		return a.step.Name
	}
	return fmt.Sprintf("%s-%d", a.step.Name, a.round+1)
}

// timetable lists what is done during a hold, in order; what is undone at one
// moment comes before what is injected at it. Nothing begins at or after the
// end of the hold; what is still in force then is left to the heal.
func timetable(steps []scenario.Step, hold time.Duration) []action {
	var out []action
	for _, s := range steps {
		for round, at := 0, s.At; at < hold; round, at = round+1, at+s.Every {
			out = append(out, action{at: at, step: s, round: round})
			if end := at + s.For; s.For > 0 && end < hold {
				out = append(out, action{at: end, step: s, undo: true, round: round})
			}
			if s.Every == 0 {
				break
			}
		}
	}
	slices.SortStableFunc(out, func(a, b action) int {
		switch {
		case a.at != b.at:
			return int(a.at - b.at)
		case a.undo == b.undo:
			return 0
		case a.undo:
			return -1
		}
		return 1
	})
	return out
}

// cuts translates a step's cuts for the lab, under names of the action's own.
func (a action) cuts() []lab.Cut {
	out := make([]lab.Cut, len(a.step.Cuts))
	for i, c := range a.step.Cuts {
		out[i] = lab.Cut{
			Name: fmt.Sprintf("%s/%d", a.name(), i+1),
			From: c.From, To: c.To, OneWay: c.OneWay,
			State: lab.CutState(c.State), Proto: lab.CutProto(c.Proto), Ports: c.Ports,
			Action: lab.CutAction(c.Action), Via: c.Via,
		}
	}
	for _, node := range a.step.Off {
		out = append(out, lab.Cut{Name: a.name() + "/off-" + node, From: node})
	}
	return out
}

// kind is the kind of fault for reports.
func (a action) kind() string {
	switch {
	case len(a.step.Cuts) > 0:
		return "cut"
	case len(a.step.Slow) > 0:
		return "slow"
	case len(a.step.Kill) > 0:
		return "kill"
	case len(a.step.Pause) > 0:
		return "pause"
	case len(a.step.Unready) > 0:
		return "unready"
	case len(a.step.Off) > 0:
		return "off"
	case len(a.step.Release) > 0:
		return "release"
	case len(a.step.Drain) > 0:
		return "drain"
	case len(a.step.Freeze) > 0:
		return "freeze"
	case len(a.step.Delete) > 0:
		return "delete"
	case len(a.step.SlowDisk) > 0:
		return "slow-disk"
	case len(a.step.Claim)+len(a.step.GiveUp) > 0:
		return "claim"
	}
	return "stop"
}

// detail is the fault in one line.
func (a action) detail() string {
	var parts []string
	for _, c := range a.cuts()[:len(a.step.Cuts)] {
		parts = append(parts, "cut "+c.String())
	}
	for _, s := range a.step.Slow {
		parts = append(parts, fmt.Sprintf("slow %s–%s: %s", s.From, s.To, s))
	}
	for _, v := range []struct {
		verb    string
		targets []string
	}{{"kill", a.step.Kill}, {"pause", a.step.Pause}, {"stop", a.step.Stop}, {"take the etcd member from", a.step.Unready}, {"power off", a.step.Off}, {"release", a.step.Release}, {"drain", a.step.Drain}, {"freeze pod", a.step.Freeze}, {"delete pod", a.step.Delete}, {"make every sync take " + a.step.Sync.String() + " on", a.step.SlowDisk}, {"claim for", a.step.Claim}, {"claim, and give writes up, for", a.step.GiveUp}} {
		if len(v.targets) > 0 {
			parts = append(parts, v.verb+" "+strings.Join(v.targets, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// struck lists the links and sites that the fault touches, for the diagram.
func (a action) struck(c *scenario.Case) (links []report.Link, sites []string) {
	for _, cut := range a.step.Cuts {
		from, to := siteOf(cut.From), siteOf(cut.To)
		for _, other := range c.SiteNames() {
			if other != from && (to == "" || other == to) {
				links = append(links, report.Link{From: from, To: other, OneWay: cut.OneWay || cut.Via != ""})
			}
		}
	}
	for _, s := range a.step.Slow {
		links = append(links, report.Link{From: siteOf(s.From), To: siteOf(s.To)})
	}
	for _, node := range slices.Concat(a.step.Off, a.step.Drain, a.step.Claim, a.step.GiveUp) {
		sites = append(sites, siteOf(node))
	}
	for _, pod := range slices.Concat(a.step.Freeze, a.step.Delete) {
		sites = append(sites, c.SiteOfPod(pod))
	}
	for _, target := range slices.Concat(a.step.Kill, a.step.Pause, a.step.Stop, a.step.Unready, a.step.SlowDisk, a.step.Release) {
		procs, _ := c.Resolve(target) // validated with the scenario
		for _, p := range procs {
			if !slices.Contains(sites, p.Site) {
				sites = append(sites, p.Site)
			}
		}
	}
	return links, sites
}

// siteOf is the site of a place: "a" of "a" and of node "a1".
func siteOf(place string) string { return strings.TrimRight(place, "0123456789") }

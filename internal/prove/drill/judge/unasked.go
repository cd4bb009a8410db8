package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// unasked notes changes of leader under the fault, in a run with agents that
// may not move, which neither a move nor the loss of the leader explains. The
// verdict does not hang on them: etcd may elect for reasons of its own. A
// reader has to see them.
func (j *run) unasked() []string {
	if j.rec.Case.HasPair() {
		return nil // its agents end members and move leaders
	}
	if !j.rec.Run.Agents || j.rec.Case.Moves.Max > 0 || j.rec.Run.Injected.IsZero() {
		return nil
	}
	var out []string
	for i, e := range j.rec.Events {
		if e.Kind != record.KindLeader || j.moved[i] || e.At.Before(j.rec.Run.Injected) || e.At.After(j.healed()) || j.lostLeader(e) {
			continue
		}
		out = append(out, fmt.Sprintf("the leader of %s changed from %s to %s at %s though nobody moved it and no fault took it", e.Cluster, e.Keys["from"], e.Keys["to"], secs(j.ms(e.At))))
	}
	return atMost(2, "changes", out)
}

// lostLeader says whether a fault that was in force, or ended no longer ago
// than an election may take, hit the process or the whole site of the leader
// before the change.
func (j *run) lostLeader(change record.Event) bool {
	site := j.rec.Run.Members[change.Keys["from"]]
	w, _ := j.rec.Case.TimersOf(change.Cluster).Window("election")
	return slices.ContainsFunc(j.rec.Run.Faults, func(f record.Fault) bool {
		return !change.At.Before(f.From) && (f.To.IsZero() || !change.At.After(f.To.Add(w.Max))) &&
			(j.isolates(f, site) || j.strikes(f, scenario.Process{Cluster: change.Cluster, Site: site}))
	})
}

// isolates says whether a fault cuts a site off from all others.
func (j *run) isolates(f record.Fault, site string) bool {
	for _, other := range j.rec.Case.SiteNames() {
		if other != site && !slices.ContainsFunc(f.Links, func(l report.Link) bool {
			return l.From == site && l.To == other || l.From == other && l.To == site
		}) {
			return false
		}
	}
	return true
}

// strikes says whether a fault kills, pauses or stops a process, or takes its
// etcd from it.
func (j *run) strikes(f record.Fault, process scenario.Process) bool {
	for _, step := range j.rec.Case.Faults {
		if f.Name != step.Name && !isRound(f.Name, step.Name) {
			continue
		}
		for _, target := range slices.Concat(step.Kill, step.Pause, step.Stop, step.Unready, step.SlowDisk, step.Off) {
			procs, _ := j.rec.Case.Resolve(target) // validated with the scenario
			if slices.Contains(procs, process) {
				return true
			}
		}
	}
	return false
}

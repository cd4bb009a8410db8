package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// answers is a time in which a machine answered ARP for the held address.
type answers struct {
	node     string
	from, to time.Time
}

// answered lists the spells of all machines in the order of their begin. What has
// not ended lasts to the end of the run.
func (j *run) answered() []answers {
	var out []answers
	open := map[string]int{}
	for _, e := range j.rec.Events {
		node := e.Keys["node"]
		switch e.Kind {
		case record.KindAnswering:
			open[node] = len(out)
			out = append(out, answers{node, e.At, j.rec.Run.Ended})
		case record.KindCeased:
			if i, ok := open[node]; ok {
				out[i].to = e.At
				delete(open, node)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b answers) int { return a.from.Compare(b.from) })
	return out
}

// addressMoves counts how often another machine came to answer, from the injection
// to the end of the run, and tells the first in words.
func (j *run) addressMoves() (n int, first string) {
	holder := ""
	for _, s := range j.answered() {
		if s.node != holder && holder != "" && !s.from.Before(j.origin()) {
			if n++; n == 1 {
				first = fmt.Sprintf("from %s to %s at %s", holder, s.node, secs(j.ms(s.from)))
			}
		}
		holder = s.node
	}
	return n, first
}

// twoHolders is the longest time after the injection in which two machines
// answered, and who they were.
func (j *run) twoHolders() (longest time.Duration, who string) {
	all := j.answered()
	for i, a := range all {
		for _, b := range all[i+1:] {
			from, to := later(a.from, b.from), earlier(a.to, b.to)
			if a.node == b.node || to.Before(j.origin()) {
				continue
			}
			if both := to.Sub(later(from, j.origin())); both > longest {
				longest, who = both, a.node+" and "+b.node
			}
		}
	}
	return longest, who
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// stale lists what clients and routers believed of the address that led nowhere.
func (j *run) stale() []string {
	var out []string
	for _, e := range j.rec.Events {
		if e.Kind == record.KindNeighbour && e.Keys["stale"] == "true" {
			out = append(out, fmt.Sprintf("at %s %s", secs(j.ms(e.At)), e.Message))
		}
	}
	return out
}

// struckAgents lists the machines whose agent a fault ended or stopped, with the
// time of the first of these faults.
func (j *run) struckAgents() map[string]time.Time {
	out := map[string]time.Time{}
	for _, f := range j.rec.Run.Faults {
		if f.Kind == "off" {
			continue // it takes the machine with it
		}
		for _, node := range j.rec.Case.VIP.Nodes {
			if _, known := out[node]; !known && j.strikes(f, scenario.NodeAgent(scenario.AgentVIP, node)) {
				out[node] = f.From
			}
		}
	}
	return out
}

// goneAfter is how long the address was still on a machine whose agent was struck:
// the longest of all of them. left is false when it stayed to the end.
func (j *run) goneAfter() (longest time.Duration, node string, left, had bool) {
	left = true
	for struck, at := range j.struckAgents() {
		on := false
		off := time.Time{}
		for _, e := range j.rec.Events {
			if e.Keys["node"] != struck {
				continue
			}
			switch {
			case e.Kind == record.KindAddressOn && e.At.Before(at):
				on = true
			case e.Kind == record.KindAddressOff && e.At.Before(at):
				on = false
			case e.Kind == record.KindAddressOff && off.IsZero():
				off = e.At
			}
		}
		if !on {
			continue
		}
		had = true
		took := off.Sub(at)
		if off.IsZero() {
			left, took = false, j.rec.Run.Ended.Sub(at)
		}
		if took >= longest {
			longest, node = took, struck
		}
	}
	return longest, node, left, had
}

// addressOutOfBounds compares what became of the address in a run with the agents
// with what the scenario allows.
func (j *run) addressOutOfBounds() []string {
	v := j.rec.Case.VIP
	if !j.rec.Run.Agents || len(v.Nodes) == 0 || v.Anycast() || j.rec.Run.Injected.IsZero() {
		return nil
	}
	var out []string
	if n, first := j.addressMoves(); v.Moves != nil && n > v.Moves.Max {
		out = append(out, fmt.Sprintf("the address made %s, at most %d allowed; the first %s", count(n, "move"), v.Moves.Max, first))
	} else if v.Moves != nil && n < v.Moves.Min {
		out = append(out, fmt.Sprintf("the address made %s, at least %d expected", count(n, "move"), v.Moves.Min))
	}
	if both, who := j.twoHolders(); v.TwoHolders != nil && both > *v.TwoHolders {
		out = append(out, fmt.Sprintf("%s both answered for the address for %s, at most %s allowed", who, secs(millis(both)), secs(millis(*v.TwoHolders))))
	}
	if took, node, left, had := j.goneAfter(); v.Gone > 0 && had {
		switch {
		case !left:
			out = append(out, fmt.Sprintf("the address stayed on %s, whose agent was struck; allowed %s", node, secs(millis(v.Gone))))
		case took > v.Gone:
			out = append(out, fmt.Sprintf("the address was on %s for %s after its agent was struck, allowed %s", node, secs(millis(took)), secs(millis(v.Gone))))
		}
	}
	if stale := j.stale(); len(stale) > 0 {
		out = append(out, "stale neighbour entry: "+strings.Join(stale, "; "))
	}
	return out
}

// addressNumbers are the figures of a run with an address: how often it moved, for
// how long two machines answered at once, how many neighbour entries led nowhere,
// how long the address was away for those who ask by datagram, how many kept
// connections broke while the faults were in force, and how long a struck machine
// kept the address.
func addressNumbers(rec *record.Record, paths []report.Path) map[string]float64 {
	if len(rec.Case.VIP.Nodes) == 0 || rec.Case.VIP.Anycast() || rec.Run.Injected.IsZero() {
		return nil
	}
	j := &run{rec: rec, paths: probe.ByPath(rec.Samples)}
	moves, _ := j.addressMoves()
	both, _ := j.twoHolders()
	out := map[string]float64{
		"moves": float64(moves), "two_holders_ms": millis(both), "stale_neighbours": float64(len(j.stale())), "client_resets": 0,
	}
	for _, p := range rec.Case.Paths {
		if p.Addressed() && p.Kept() {
			out["client_resets"] += float64(j.broken(p))
		}
	}
	for _, p := range paths {
		if p.Kind == scenario.KindUDP {
			out["datagram_outage_ms"] = max(out["datagram_outage_ms"], j.longestLoss(p))
		}
	}
	if took, _, left, had := j.goneAfter(); had {
		out["gone_ms"] = millis(took)
		out["gone"] = one(left)
	}
	return out
}

// longestLoss is the longest outage of a path by lower bound while the faults were
// in force.
func (j *run) longestLoss(p report.Path) float64 {
	longest := 0.0
	for _, o := range p.Outages {
		if o.ToMS > 0 && o.FromMS < j.ms(j.healed()) {
			longest = max(longest, o.LowerMS)
		}
	}
	return longest
}

// broken counts the times that a kept connection failed its client while the
// faults were in force: gaps, however many requests were in flight.
func (j *run) broken(p scenario.Path) int {
	return len(probe.Gaps(during(j.paths[p.Name], j.origin(), j.healed())))
}

// sinceLoss moves the recovery of a path to the first request that was lost, for
// a window that counts from it.
func (j *run) sinceLoss(p *report.Path) *float64 {
	if p.RecoveredMS == nil {
		return nil
	}
	for _, o := range p.Outages {
		if o.ToMS > 0 && o.FromMS < *p.RecoveredMS {
			return ptr(max(0, *p.RecoveredMS-max(0, o.FromMS)))
		}
	}
	return ptr(0)
}

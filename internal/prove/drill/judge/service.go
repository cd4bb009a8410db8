package judge

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// leastHalf and mostHalf bound what counts as every second request: one of two
// upstreams is behind the fault, and which is chosen is partly chance.
const leastHalf, mostHalf = 0.25, 0.75

// inForce is when the endpoints that were published are surely in force: kube-proxy
// begins to write within a second, and has the slack of every window for it.
var inForce = scenario.DefaultTimers().Sync + scenario.DefaultTimers().Slack

// judgeHalf wants a path to lose about every second request while the fault is
// in force. If it does not, the fault was not what the scenario says it is.
func (j *run) judgeHalf(p *report.Path, samples []probe.Sample) {
	lost, asked := tally(during(samples, j.origin(), j.healed()))
	p.Verdict, p.Reason = report.Pass, fmt.Sprintf("lost %d of %d, as expected %s", lost, asked, j.rec.Case.SideWords(j.rec.Run.Agents))
	if share := float64(lost) / float64(max(asked, 1)); share < leastHalf || share > mostHalf {
		p.Verdict = report.Inconclusive
		p.Reason = fmt.Sprintf("lost %d of %d requests, not about half; the fault was not felt as described", lost, asked)
	}
}

func tally(samples []probe.Sample) (lost, asked int) {
	for _, s := range samples {
		if !s.OK {
			lost++
		}
	}
	return lost, len(samples)
}

// judgeAfter bounds the requests sent after the heal that may fail.
func (j *run) judgeAfter(p *report.Path, most int, samples []probe.Sample) {
	if lost, asked := tally(j.from(samples, j.mended())); lost > most {
		p.Verdict, p.Reason = report.Fail, fmt.Sprintf("%d of %d requests failed after the heal, at most %d allowed", lost, asked, most)
	}
}

// mended is when the heal was complete: until then a cut may still drop.
func (j *run) mended() time.Time {
	for _, p := range j.rec.Run.Phases {
		if p.Name == "heal" {
			return p.To
		}
	}
	return j.healed()
}

// serviceNumbers are the figures of a run whose clients go through kube-proxy or
// a gateway, or to apiservers behind balancers of etcd: how many requests were sent and lost while the faults were in
// force, by how they were sent, and the share lost by site; until when; how many
// were lost after the heal; what became of endpoints and Nodes.
func serviceNumbers(rec *record.Record) map[string]float64 {
	if rec.Run.Injected.IsZero() || !rec.Case.Kubernetes && !rec.Case.Agents.Has(scenario.AgentEtcdBalance) {
		return nil
	}
	j := &run{rec: rec, paths: probe.ByPath(rec.Samples)}
	out := map[string]float64{"failed_after": 0}
	shares := map[string][2]int{}
	for _, p := range rec.Case.Paths {
		if scenario.IsHTTP(p.Kind) && !p.Balanced() {
			j.countLost(out, shares, p)
		}
	}
	for name, s := range shares {
		out["lost_percent_"+name] = math.Round(1000*float64(s[0])/float64(max(s[1], 1))) / 10
	}
	if rec.Case.Kubernetes {
		j.countNodes(out)
		maps.Copy(out, j.endpointNumbers())
	}
	return out
}

func (j *run) countLost(out map[string]float64, shares map[string][2]int, p scenario.Path) {
	mode := "new"
	if p.Kept() {
		mode = "kept"
	}
	inForce := during(j.paths[p.Name], j.origin(), j.healed())
	lost, asked := tally(inForce)
	out["failed_"+mode] += float64(lost)
	out["asked_"+mode] += float64(asked)
	name := p.Site + "_" + mode
	shares[name] = [2]int{shares[name][0] + lost, shares[name][1] + asked}
	for _, s := range inForce {
		if !s.OK {
			out["lost_until_ms"] = max(out["lost_until_ms"], j.ms(s.Sent))
		}
	}
	after, _ := tally(j.from(j.paths[p.Name], j.mended()))
	out["failed_after"] += float64(after)
}

func (j *run) countNodes(out map[string]float64) {
	names := map[string]bool{}
	for _, e := range j.notReady() {
		if len(names) == 0 {
			out["first_not_ready_ms"] = j.ms(e.At)
		}
		names[e.Keys["node"]] = true
	}
	out["nodes_not_ready"] = float64(len(names))
}

// endpointNumbers tell when the endpoint of a struck apiserver was out, how long
// a zone was then without one, when it was adopted, what its clients lost after
// that, and when it was given back after the heal.
func (j *run) endpointNumbers() map[string]float64 {
	states, _ := j.endpoints()
	if len(states) == 0 {
		return nil
	}
	out := map[string]float64{"endpoint_changes": float64(j.changes(states))}
	for _, l := range j.leaves(states) {
		if took, left := l.took(); left {
			out["endpoint_out_ms"] = max(out["endpoint_out_ms"], millis(took))
		}
	}
	for _, site := range j.rec.Case.SiteNames() {
		j.adoptionNumbers(out, states, site)
	}
	return out
}

func (j *run) adoptionNumbers(out map[string]float64, states []record.Endpoints, site string) {
	zone := j.rec.Case.Zone(site)
	bare := stretches(states, j.origin(), j.healed(), func(l []record.Endpoint) bool { return len(serving(l, zone)) == 0 })
	if len(bare) > 0 {
		out["zone_unserved_ms"] = max(out["zone_unserved_ms"], millis(longest(bare).length()))
	}
	adopted := stretches(states, j.origin(), j.rec.Run.Ended, func(l []record.Endpoint) bool { return adopters(l, zone) > 0 })
	if len(adopted) == 0 || !adopted[0].from.After(j.origin()) || !adopted[0].from.Before(j.healed()) {
		return
	}
	at := adopted[0].from
	out["adopted_after_ms"] = max(out["adopted_after_ms"], j.ms(at))
	out["adoption_ms"] = max(out["adoption_ms"], 0)
	if len(bare) > 0 && !bare[0].from.After(at) {
		out["adoption_ms"] = max(out["adoption_ms"], millis(at.Sub(bare[0].from)))
	}
	if last := adopted[len(adopted)-1]; last.to.After(j.mended()) && last.to.Before(j.rec.Run.Ended) {
		out["given_back_ms"] = max(out["given_back_ms"], millis(last.to.Sub(j.mended())))
	}
	known := at
	for _, l := range j.leaves(states) {
		if l.site == site && l.out.After(known) {
			known = l.out
		}
	}
	known = known.Add(inForce)
	for _, p := range j.rec.Case.Paths {
		if p.InPod() && p.Site == site && !p.Kept() {
			lost, asked := tally(during(j.paths[p.Name], known, j.healed()))
			out["lost_after_adoption"] += float64(lost)
			out["probes_after_adoption"] += float64(asked)
		}
	}
}

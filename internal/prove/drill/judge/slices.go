package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// passing is how long two endpoints may adopt one zone: a Lease of 2 s changes
// hands meanwhile.
const passing = 2 * time.Second

// endpoints lists what kube-proxy was told, in order of time, and what could not
// be read of it.
func (j *run) endpoints() (states []record.Endpoints, unread []string) {
	for _, e := range j.rec.Events {
		if e.Kind != record.KindEndpoints {
			continue
		}
		list, err := record.ParseEndpoints(e.Keys)
		if err != nil {
			unread = append(unread, "endpoints seen at "+secs(j.ms(e.At))+": "+err.Error())
			continue
		}
		states = append(states, record.Endpoints{At: e.At, List: list})
	}
	return states, unread
}

// stretch is a time in which something held of the endpoints.
type stretch struct{ from, to time.Time }

func (s stretch) length() time.Duration { return s.to.Sub(s.from) }

// stretches lists the times within [from, to) in which holds was true of what
// kube-proxy was told.
func stretches(states []record.Endpoints, from, to time.Time, holds func([]record.Endpoint) bool) []stretch {
	var out []stretch
	for i, s := range states {
		begin, end := s.At, to
		if i+1 < len(states) && states[i+1].At.Before(to) {
			end = states[i+1].At
		}
		if begin.Before(from) {
			begin = from
		}
		if !begin.Before(end) || !holds(s.List) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].to.Equal(begin) {
			out[n-1].to = end
			continue
		}
		out = append(out, stretch{begin, end})
	}
	return out
}

// longest is the longest of them, the first of equals.
func longest(all []stretch) (most stretch) {
	for _, s := range all {
		if s.length() > most.length() {
			most = s
		}
	}
	return most
}

// serving lists the ready endpoints that kube-proxy sends clients of zone to. One
// without hints serves everybody.
func serving(list []record.Endpoint, zone string) []record.Endpoint {
	var out []record.Endpoint
	for _, e := range list {
		if e.Ready && (len(e.Hints) == 0 || slices.Contains(e.Hints, zone)) {
			out = append(out, e)
		}
	}
	return out
}

// adopters counts those of them that belong to another zone and hint this one.
func adopters(list []record.Endpoint, zone string) int {
	n := 0
	for _, e := range serving(list, zone) {
		if e.Zone != zone && len(e.Hints) > 0 {
			n++
		}
	}
	return n
}

func ready(e record.Endpoint) bool    { return e.Ready }
func zoneless(e record.Endpoint) bool { return e.Zone == "" || len(e.Hints) == 0 }

// watchesEndpoints says whether the run is held to what holds of endpoints.
func (j *run) watchesEndpoints() bool {
	return j.rec.Run.Agents && j.rec.Case.Agents.Has(scenario.AgentSlices)
}

// unseen doubts a run in which what must hold of endpoints was not looked at.
func (j *run) unseen() []string {
	if !j.watchesEndpoints() || j.rec.Run.Injected.IsZero() {
		return nil
	}
	states, unread := j.endpoints()
	if len(states) == 0 || states[0].At.After(j.watchFrom()) {
		unread = append(unread, "the endpoints of default/kubernetes were not seen before the baseline")
	}
	return atMost(2, "events", unread)
}

// endpointsOutOfBounds lists how the endpoints were other than they must be,
// from the baseline to the end.
func (j *run) endpointsOutOfBounds() []string {
	if !j.watchesEndpoints() {
		return nil
	}
	states, _ := j.endpoints()
	var out []string
	never := func(what string, most time.Duration, holds func([]record.Endpoint) bool) {
		if s := longest(stretches(states, j.watchFrom(), j.rec.Run.Ended, holds)); s.length() > most {
			out = append(out, fmt.Sprintf("endpoints: %s for %s from %s on, allowed %s", what, secs(millis(s.length())), secs(j.ms(s.from)), secs(millis(most))))
		}
	}
	never("none was ready", 0, func(l []record.Endpoint) bool { return !slices.ContainsFunc(l, ready) })
	never("one had no zone or no hint", 0, func(l []record.Endpoint) bool { return slices.ContainsFunc(l, zoneless) })
	for _, site := range j.rec.Case.SiteNames() {
		zone := j.rec.Case.Zone(site)
		never("zone "+zone+" had none that is ready", j.rec.Case.Slices.AdoptedWithin(), func(l []record.Endpoint) bool { return len(serving(l, zone)) == 0 })
		never("zone "+zone+" had two adopters", passing, func(l []record.Endpoint) bool { return adopters(l, zone) > 1 })
	}
	return append(append(out, j.lateOut(states)...), j.changedTooOften(states)...)
}

// lateOut lists the struck apiservers whose endpoint stayed too long.
func (j *run) lateOut(states []record.Endpoints) []string {
	most := j.rec.Case.Slices.Out
	if most == 0 {
		return nil
	}
	var out []string
	for _, l := range j.leaves(states) {
		switch took, left := l.took(); {
		case !left:
			out = append(out, fmt.Sprintf("endpoints: that of %s stayed though its apiserver could not serve", l.site))
		case took > most:
			out = append(out, fmt.Sprintf("endpoints: that of %s was out after %s, allowed %s", l.site, secs(millis(took)), secs(millis(most))))
		}
	}
	return out
}

// leave is an apiserver that a fault hit, and when its zone no longer had it.
type leave struct {
	site     string
	hit, out time.Time
}

func (l leave) took() (d time.Duration, left bool) { return l.out.Sub(l.hit), !l.out.IsZero() }

// leaves lists them in the order of the faults.
func (j *run) leaves(states []record.Endpoints) []leave {
	var out []leave
	for _, f := range j.rec.Run.Faults {
		to := f.To
		if to.IsZero() {
			to = j.healed()
		}
		for _, site := range j.struckAPIServers(f) {
			zone := j.rec.Case.Zone(site)
			gone := stretches(states, f.From, to, func(l []record.Endpoint) bool {
				return !slices.ContainsFunc(serving(l, zone), func(e record.Endpoint) bool { return e.Site == site })
			})
			l := leave{site: site, hit: f.From}
			if len(gone) > 0 {
				l.out = gone[0].from
			}
			out = append(out, l)
		}
	}
	return out
}

// struckAPIServers lists the sites whose apiserver a fault hits.
func (j *run) struckAPIServers(f record.Fault) []string {
	var out []string
	for _, site := range j.rec.Case.SiteNames() {
		if j.strikes(f, scenario.APIServer(site)) {
			out = append(out, site)
		}
	}
	return out
}

// changedTooOften holds the number of changes to its bounds.
func (j *run) changedTooOften(states []record.Endpoints) []string {
	b := j.rec.Case.Slices.Changes
	if b == nil {
		return nil
	}
	switch n := j.changes(states); {
	case n > b.Max:
		return []string{fmt.Sprintf("endpoints: %s while the faults were in force, at most %d allowed", count(n, "change"), b.Max)}
	case n < b.Min:
		return []string{fmt.Sprintf("endpoints: %s while the faults were in force, at least %d expected", count(n, "change"), b.Min)}
	}
	return nil
}

func (j *run) changes(states []record.Endpoints) int {
	n := 0
	for _, s := range states {
		if s.At.After(j.origin()) && s.At.Before(j.healed()) {
			n++
		}
	}
	return n
}

// nodesOutOfBounds lists the Nodes that ceased to be Ready though they must not.
func (j *run) nodesOutOfBounds() []string {
	if !j.rec.Run.Agents || !j.rec.Case.NodesReady {
		return nil
	}
	var out []string
	for _, e := range j.notReady() {
		out = append(out, fmt.Sprintf("node %s was not Ready at %s: %s", e.Keys["node"], secs(j.ms(e.At)), e.Keys["reason"]))
	}
	return atMost(3, "nodes", out)
}

// notReady lists the events of Nodes that ceased to be Ready from the injection
// on.
func (j *run) notReady() []record.Event {
	var out []record.Event
	for _, e := range j.rec.Events {
		if e.Kind == record.KindNodeNotReady && !e.At.Before(j.origin()) {
			out = append(out, e)
		}
	}
	return out
}

package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

const (
	// settle is how long the last change may take to be dealt with: a Lapse, seen
	// after a Gap, the reading of a fresh Observer, and GiveBack.
	settle = 75 * time.Second
	// takeover is how much longer the slice kubernetes may: Reprobe, the time of
	// the reconcilers' memory, and Survive twice.
	takeover = 2*time.Minute + 15*time.Second
	// still is for how long nothing was to be written at the end.
	still = 8 * time.Second
)

// calm lets the world come to rest: what is broken stays broken if enough is
// left to act, but nothing changes any more and requests arrive.
func (w *World) calm() {
	kept := w.queue.heap[:0]
	for _, e := range w.queue.heap {
		if e.kind != evFault {
			kept = append(kept, e)
		}
	}
	old := slices.Clone(kept)
	w.queue.heap = w.queue.heap[:0]
	for _, e := range old {
		seq := w.queue.seq
		w.queue.push(e)
		w.queue.seq = seq
	}
	if w.shape.Lost > 0 || w.shape.Late > 0 {
		w.shape.Lost, w.shape.Late = 0, 0
		w.judge.lossless = w.now + latest
	}
	for i := range w.n { // what stands still goes on by itself
		a := &w.agents[i]
		w.Run(max(a.stopped-w.now, a.frozen-w.now, a.refused-w.now, 0))
	}
	if w.rng.IntN(2) == 0 || !w.anyAnswered() {
		w.mend()
	}
	w.refresh()
	w.Run(25 * time.Second) // what is late arrives
	w.Run(settle)
	if c := w.store.kubernetes(); c == nil || c.Owner != plan.Ours {
		w.Run(takeover)
	}
	w.checkCalm()
}

func (w *World) anyAnswered() bool {
	for i := range w.n {
		if w.agents[i].up && w.answered(i) {
			return true
		}
	}
	return false
}

// mend ends every fault.
func (w *World) mend() {
	for i := range w.n {
		for _, do := range []Action{Recover, Rejoin, StartAgent, HealAPI} {
			w.apply(Fault{Do: do, A: i})
		}
		w.apply(Fault{Do: Start, A: i})
	}
}

// checkCalm wants the world at rest to be as it should.
func (w *World) checkCalm() {
	if w.judge.broken != "" {
		return
	}
	if quiet := w.now - w.judge.lastWrite; quiet < still && w.judge.Commits > 0 {
		w.breach("calm, and still written to %s ago", quiet)
	}
	var v plan.View
	w.store.view(&w.store.head, &v)
	for f, family := range []plan.Family{plan.IPv4, plan.IPv6} {
		if f == 0 || w.shape.Dual {
			w.checkEndpoints(&v, family)
			w.checkZones(&v, family)
		}
	}
	w.checkCombined(&v)
	if v.Service.Traffic == "" && w.sight().own[0] > 0 {
		w.breach("calm, and trafficDistribution is %q", v.Service.Traffic)
	}
}

// speaks says that the agent of node i lives and is heard.
func (w *World) speaks(i int) bool { return w.agents[i].up && w.answered(i) }

// gone says that node i gives no sign of life, and did before.
func (w *World) gone(i int) bool {
	if w.speaks(i) || w.ready(i) || w.store.head[firstAgent+object(i)] < 0 {
		return false
	}
	at := w.store.leasedAt[w.store.head[firstAgent+object(i)]]
	if h := w.store.head[firstIdentity+object(i)]; h >= 0 {
		at = max(at, w.store.leasedAt[h])
	}
	return w.now-at > settle
}

func (w *World) checkEndpoints(v *plan.View, family plan.Family) {
	ready, fit := 0, 0
	for i := range v.Slices {
		s := &v.Slices[i]
		if s.Family == family && s.Ready {
			ready++
		}
		if w.fit(s, family) {
			fit++
		}
	}
	for i := range w.n {
		s := w.store.slice(sliceObject(i, family))
		switch well := w.ready(i); {
		case s == nil && w.speaks(i) && well && w.machines[i].zone != "":
			w.breach("calm, and node %s has no slice", name(i))
		case s == nil, s.Zone == "" && w.machines[i].zone == "":
		case w.speaks(i) && well != s.Ready && (well || fit > 0):
			w.breach("calm, and %s is ready: %t, its apiserver %t", s.Name, s.Ready, well)
		case w.gone(i) && s.Ready && fit > 0:
			w.breach("calm, and %s is ready though its node is gone", s.Name)
		case w.speaks(i) && w.machines[i].zone != "" && s.Zone != w.machines[i].zone:
			w.breach("calm, and %s is of zone %q, its node of %s", s.Name, s.Zone, w.machines[i].zone)
		case w.speaks(i) && s.Odd:
			w.breach("calm, and %s is odd", s.Name)
		}
	}
	if len(v.Slices) > 0 && ready == 0 && w.anySlice(familyOf(family)) && len(readyOf(Visible(v, family))) == 0 {
		w.breach("calm, and no endpoint is ready")
	}
}

func readyOf(all []Endpoint) []Endpoint {
	return slices.DeleteFunc(slices.Clone(all), func(e Endpoint) bool { return !e.Ready })
}

// checkZones wants every zone's clients to be sent to its own endpoints, or to
// exactly one other, by both datapaths.
func (w *World) checkZones(v *plan.View, family plan.Family) {
	s := w.sight()
	f := familyOf(family)
	if s.zoned[f] == 0 {
		return
	}
	seen := Visible(v, family)
	for z, zone := range zoneNames {
		if w.inhabitants(zone) == 0 {
			if s.adopters[f][z] > 0 {
				w.breach("calm, and zone %s is adopted, which has no nodes", zone)
			}
			continue
		}
		natives := 0
		for i := range v.Slices {
			if e := &v.Slices[i]; e.Family == family && e.Ready && e.Zone == zone {
				natives++
			}
		}
		adopters := s.adopters[f][z]
		if natives > 0 && adopters > 0 && w.anyFit(v, family) || natives == 0 && adopters != 1 {
			w.breach("calm, and zone %s has %d endpoints and %d adopters", zone, natives, adopters)
		}
		if w.zoned(v) && (v.Combined == nil || v.Combined.Owner != plan.Reconciler) {
			w.checkDatapath("kube-proxy", KubeProxy(seen, zone), zone)
			w.checkDatapath("cilium", Cilium119(seen, zone), zone)
		}
	}
}

// anyFit says that somebody knows nothing against some ready endpoint.
func (w *World) anyFit(v *plan.View, family plan.Family) bool {
	return slices.ContainsFunc(v.Slices, func(s plan.Slice) bool { return w.fit(&s, family) })
}

// fit says that everybody knows nothing against a ready endpoint. Of a node that
// gives no sign and whose agent's Lease was deleted, some know and some do not.
func (w *World) fit(s *plan.Slice, family plan.Family) bool {
	n := index(s.Node)
	signed := w.store.head[firstAgent+object(n)] >= 0 && !w.gone(n)
	return s.Family == family && s.Ready && s.Zone != "" && (w.ready(n) || !w.speaks(n) && signed)
}

// zoned says that nobody took the zone from a slice whose owner is not there.
func (w *World) zoned(v *plan.View) bool {
	return !slices.ContainsFunc(v.Slices, func(s plan.Slice) bool { return s.Zone == "" || len(s.Hints) == 0 })
}

func (w *World) checkDatapath(who string, to []Endpoint, zone string) {
	if len(to) == 0 {
		w.breach("calm, and %s sends zone %s nowhere", who, zone)
	}
	for _, e := range to {
		if !slices.Contains(e.Hints, zone) {
			w.breach("calm, and %s sends zone %s to %s of zone %s", who, zone, e.Address, e.Zone)
		}
	}
}

// checkCombined wants the slice kubernetes to be ours and complete, unless an
// apiserver writes it or an address in it has no agent.
func (w *World) checkCombined(v *plan.View) {
	writes := false
	for i := range w.n {
		writes = writes || w.machines[i].reconciles && w.ready(i)
	}
	c := v.Combined
	switch {
	case w.sight().own[0] == 0:
	case writes && (c == nil || c.Owner != plan.Reconciler):
		w.breach("calm, and kubernetes is not its apiserver's")
	case writes, c != nil && c.Owner == plan.Reconciler && len(plan.Uncovered(v)) > 0:
	case c == nil || c.Owner != plan.Ours:
		w.breach("calm, and kubernetes is not ours")
	default:
		w.checkMembers(v)
		w.checkObject(v)
	}
}

// checkObject wants the object Endpoints to list all that is ready, by port.
func (w *World) checkObject(v *plan.View) {
	var want, have []plan.Target
	for i := range v.Slices {
		if e := &v.Slices[i]; e.Family == v.Combined.Family && e.Ready && e.Zone != "" && e.Address != "" {
			want = append(want, plan.Target{Address: e.Address, Port: e.Port})
		}
	}
	slices.SortStableFunc(want, func(a, b plan.Target) int { return cmp.Compare(a.Port, b.Port) })
	if v.Endpoints != nil && !v.Endpoints.Odd {
		have = v.Endpoints.Targets
	}
	if len(want) > 0 && !slices.Equal(want, have) {
		w.breach("calm, and Endpoints say %v, not %v", have, want)
	}
}

func (w *World) checkMembers(v *plan.View) {
	var want []plan.Member
	for i := range v.Slices {
		s := &v.Slices[i]
		if s.Family == v.Combined.Family && s.Zone != "" && s.Address != "" && len(v.Combined.Members) > 0 && s.Port == v.Combined.Members[0].Port {
			want = append(want, plan.Member{Address: s.Address, Node: s.Node, Zone: s.Zone, Port: s.Port, Ready: s.Ready})
		}
	}
	if !slices.Equal(want, v.Combined.Members) {
		w.breach("calm, and kubernetes says %v, not %v", v.Combined.Members, want)
	}
}

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

const (
	// tick is how often the judge looks at what lasts.
	tick = 250 * time.Millisecond
	// memory is how long after a hand in our objects, or a change of Nodes,
	// writes that were planned before may still arrive: 20 s late, from a reading
	// that waited for a watch frozen for as long.
	memory = time.Minute
	// serveWithin is how long a zone may be without an endpoint, and two adopters
	// may last, while an agent can act and the Lease is not in dead hands.
	serveWithin = 3 * time.Second
	// passOn is how much longer if it is: the rest of a turn, and two looks.
	passOn = turn + turn/4 + 2*lookAgain
	// restoreWithin is the same for a list that somebody emptied by hand, after
	// which owners and holder may undo one another's first attempts.
	restoreWithin = 2*serveWithin + passOn
)

const allZones = 7

// sight is what datapaths see.
type sight struct {
	// union counts what is ready, own what of it is ours, zoned what of that has
	// a zone and hints it.
	union, own, zoned [families]int
	served            [families][allZones]bool
	adopters          [families][allZones]int
}

// judge knows the truth of one schedule, and what was broken first.
type judge struct {
	broken string
	// tampered and moved are when somebody last put a hand in our objects, and
	// Nodes last changed zones.
	tampered, moved time.Duration
	// readySince is since when each apiserver has been ready; never is not.
	readySince [most]time.Duration
	ableSince  [most]time.Duration
	// revived is when each slice last turned ready.
	revived [firstAgent]time.Duration
	// deaf is since when each agent has had no news, heard when it last had some
	// again after it could not but notice.
	deaf, heard [most]time.Duration
	// overtaken is when somebody last wrote who did not hold the Lease.
	overtaken time.Duration
	// handed is when the Lease was last not in the hands of who can act.
	handed time.Duration
	// lossless is since when no request is lost, nor done late; made is until when
	// a Lease that had to be made anew is nobody's.
	lossless, made time.Duration
	// refusals is, by agent, the row of its writes that were refused.
	refusals [most]row
	// unserved, doubled and empty are since when; never is not.
	unserved, doubled, misled [families][allZones]time.Duration
	empty                     [families]time.Duration

	Commits, Marks, Adoptions, Withdrawals, Takeovers, Objects, Late int
	lastWrite                                                        time.Duration
}

func (j *judge) reset() {
	*j = judge{tampered: never, moved: never, handed: never, overtaken: never, lossless: never, made: never}
	for i := range most {
		j.readySince[i], j.ableSince[i], j.deaf[i], j.heard[i] = never, never, never, never
	}
	for o := range j.revived {
		j.revived[o] = never
	}
	for f := range families {
		j.empty[f] = never
		for z := range allZones {
			j.unserved[f][z], j.doubled[f][z], j.misled[f][z] = never, never, never
		}
	}
}

func (w *World) breach(format string, args ...any) {
	if w.judge.broken == "" {
		w.judge.broken = fmt.Sprintf("at %s: ", w.now) + fmt.Sprintf(format, args...)
		w.trace("BROKEN: %s", w.judge.broken)
		w.dump()
	}
}

// sight looks at the store as kube-proxy does.
func (w *World) sight() sight {
	var s sight
	for o := firstSlice; o < firstAgent; o++ {
		e := w.store.slice(o)
		if e == nil || !e.Ready {
			continue
		}
		f := familyOf(e.Family)
		s.own[f]++
		if e.Zone != "" && e.Hinted(e.Zone) {
			s.zoned[f]++
		}
		for _, h := range e.Hints {
			z := h[0] - 'a'
			s.served[f][z] = true
			if h != e.Zone {
				s.adopters[f][z]++
			}
		}
	}
	s.union = s.own
	if c := w.store.kubernetes(); c != nil && c.Owner == plan.Reconciler {
		for _, m := range c.Members {
			if m.Ready {
				s.union[familyOf(c.Family)]++
			}
		}
	}
	return s
}

func familyOf(f plan.Family) int {
	if f == plan.IPv6 {
		return 1
	}
	return 0
}

// judgeCommit compares what datapaths saw before and after a write; r is nil
// for one that no agent made.
func (w *World) judgeCommit(before sight, r *request, wr *plan.Write) {
	after := w.sight()
	if r == nil {
		return
	}
	w.judge.Commits++
	if wr.Op != plan.ProbeCombined {
		w.judge.lastWrite = w.now
	}
	if r.based != nil && !w.inTurn(r) {
		w.judge.overtaken = w.now
		if !r.alone {
			w.judge.Late++
		}
	}
	w.judgeContent(r, wr)
	calm := w.now-w.judge.tampered > memory
	for f := range families {
		if calm && before.own[f] > 0 && after.own[f] == 0 {
			w.breach("%s left no endpoint ready with %s", name(r.agent), wr.Op)
		}
		if calm && before.union[f] > 0 && after.union[f] == 0 {
			w.breach("%s left nothing for kube-proxy with %s", name(r.agent), wr.Op)
		}
		if !calm || w.now-w.judge.moved <= memory {
			continue
		}
		for z, zone := range zoneNames {
			if before.served[f][z] && !after.served[f][z] && w.inhabitants(zone) > 0 {
				w.breach("%s left zone %s without an endpoint", name(r.agent), zone)
			}
			w.judgeAdopters(before.adopters[f][z], after.adopters[f][z], zone, r)
		}
	}
}

func (w *World) judgeAdopters(before, after int, zone string, r *request) {
	switch {
	case after <= before:
	case r.based == nil: // an owner who is well again, or has moved
	case after > 1 && w.inTurn(r) && w.judge.overtaken < r.based.at && !w.replaces(r, zone):
		w.breach("%s gave zone %s %d adopters, in its turn", name(r.agent), zone, after)
	default:
		w.judge.Adoptions++
	}
}

// inTurn says that a write is done while its writer holds the Lease, and waits
// for the answer.
func (w *World) inTurn(r *request) bool {
	return !r.alone && r.based != nil && w.now <= min(r.held, r.sent+patience)
}

// replaces says that the same plan goes on to end another adopter of the zone:
// the new one comes first, so that its clients are never without.
func (w *World) replaces(r *request, zone string) bool {
	for i := range r.rest {
		if r.rest[i].Slice.Name == "" {
			continue
		}
		s := w.store.slice(objectOf(&r.rest[i].Slice))
		if r.rest[i].Takes && s != nil && s.Hinted(zone) && s.Zone != zone {
			return true
		}
	}
	return false
}

// judgeContent looks at one write alone.
func (w *World) judgeContent(r *request, wr *plan.Write) {
	switch s := &wr.Slice; wr.Op {
	case plan.CreateSlice, plan.UpdateSlice:
		if (s.Zone == "" || !s.Hinted(s.Zone)) && !r.blank {
			w.breach("%s published %s without zone or hint", name(r.agent), s.Name)
		}
		if s.Owner != plan.Ours {
			w.breach("%s wrote %s, which is not ours", name(r.agent), s.Name)
		}
		if s.Ready && !r.ready {
			w.judge.revived[objectOf(s)] = w.now
		}
		if r.ready && !s.Ready && s.Node == name(r.agent) {
			w.judge.Withdrawals++
		}
		if s.UnreadyBy == name(r.agent) && r.ready && !s.Ready && s.Node != name(r.agent) {
			w.judgeMark(r, index(s.Node), objectOf(s))
		}
	case plan.UpdateCombined, plan.CreateCombined:
		for _, m := range wr.Combined.Members {
			if m.Zone == "" {
				w.breach("%s published %s in kubernetes without zone", name(r.agent), m.Address)
			}
		}
		if wr.Takes {
			w.judgeTakeover(r)
		}
	case plan.CreateEndpoints, plan.UpdateEndpoints:
		w.judgeEndpoints(r, wr)
	}
}

// judgeEndpoints wants the object Endpoints to be written only by who has read
// that the slice kubernetes is ours, and never without an address.
func (w *World) judgeEndpoints(r *request, wr *plan.Write) {
	w.judge.Objects++
	switch {
	case len(wr.Endpoints.Targets) == 0:
		w.breach("%s emptied Endpoints", name(r.agent))
	case r.based == nil || r.based.fresh[objCombined] < 0 || w.store.combined[r.based.fresh[objCombined]].Owner != plan.Ours:
		w.breach("%s wrote Endpoints, of which kubernetes is not ours", name(r.agent))
	}
}

// judgeMark wants both Leases of a marked node to have stood still for Lapse
// when the marker read them, by any clock that runs at a legal rate.
func (w *World) judgeMark(r *request, node int, slice object) {
	w.judge.Marks++
	if r.based == nil {
		w.breach("%s marked node %s without reading", name(r.agent), name(node))
		return
	}
	if d := r.based.at - w.judge.revived[slice]; d < w.shape.Settings.Lapse*97/100 && w.now-w.judge.tampered > memory {
		w.breach("%s marked node %s, whose endpoint had turned ready %s before", name(r.agent), name(node), d)
	}
	if d := r.based.at - r.based.heard; d < w.shape.Settings.Lapse*97/100 {
		w.breach("%s marked node %s, having heard of anybody again for %s", name(r.agent), name(node), d)
	}
	for _, o := range []object{firstAgent + object(node), firstIdentity + object(node)} {
		i := r.based.fresh[o]
		if i < 0 {
			continue
		}
		if silent := r.based.at - w.store.leasedAt[i]; silent < w.shape.Settings.Lapse*98/100 {
			w.breach("%s marked node %s, of which %s was only %s old", name(r.agent), name(node), w.store.leases[i].Name, silent)
		}
	}
}

// judgeTakeover wants no apiserver to be writing the slice kubernetes.
func (w *World) judgeTakeover(r *request) {
	w.judge.Takeovers++
	if r.emptied {
		return // nothing is lost, and who writes it will write it again
	}
	for i := range w.n {
		if w.machines[i].reconciles && w.ready(i) && w.now-w.judge.readySince[i] > w.shape.Settings.Survive {
			w.breach("%s took kubernetes over from the reconciler of %s, which runs", name(r.agent), name(i))
		}
	}
}

// refresh notes what a fault changed at once.
func (w *World) refresh() {
	for i := range w.n {
		switch since := &w.judge.readySince[i]; {
		case !w.ready(i):
			*since = never
		case *since == never:
			*since = w.now
		}
	}
	w.recheckAll()
}

// able says that an agent can do what is to do.
func (w *World) able(i int) bool {
	a := &w.agents[i]
	return a.up && a.refused <= w.now && a.stopped <= w.now && a.frozen <= w.now && a.troubled <= w.now && a.listed &&
		w.now-a.booted > 2*time.Second && w.answered(i)
}

// look judges what lasts.
func (w *World) look() {
	j := &w.judge
	able := never
	for i := range w.n {
		switch since := &j.ableSince[i]; {
		case !w.able(i):
			*since = never
		case *since == never:
			*since = w.now
		}
		w.listen(i)
		if j.ableSince[i] != never && (able == never || j.ableSince[i] < able) {
			able = j.ableSince[i]
		}
	}
	if !w.inGoodHands() {
		j.handed = max(j.handed, w.now)
	}
	s := w.sight()
	w.lookAt(0, &s, able)
	if w.shape.Dual {
		w.lookAt(1, &s, able)
	}
}

// listen notes when an agent has been without news for so long that it knows.
func (w *World) listen(i int) {
	a, j := &w.agents[i], &w.judge
	switch hears := a.up && a.stopped <= w.now && a.frozen <= w.now && w.answered(i); {
	case hears:
		if j.deaf[i] != never && w.now-j.deaf[i] > w.shape.Settings.Gap+2*tick {
			j.heard[i] = w.now
		}
		j.deaf[i] = never
	case j.deaf[i] == never:
		j.deaf[i] = w.now
	}
}

func (w *World) lookAt(f int, s *sight, able time.Duration) {
	j := &w.judge
	if d := w.lasts(&j.empty[f], s.union[f] == 0 && w.anySlice(f), able, restoreWithin); d > 0 {
		w.breach("for %s no endpoint is ready", d)
	}
	well := w.anyWell()
	for z, zone := range zoneNames {
		inhabited := s.zoned[f] > 0 && w.inhabitants(zone) > 0
		if d := w.lasts(&j.unserved[f][z], inhabited && !s.served[f][z], able, serveWithin); d > 0 {
			w.breach("for %s zone %s has no endpoint", d, zone)
		}
		if d := w.lasts(&j.doubled[f][z], inhabited && well && s.adopters[f][z] > 1, able, serveWithin); d > 0 {
			w.breach("for %s zone %s has %d adopters", d, zone, s.adopters[f][z])
		}
		misled, since := inhabited && s.adopters[f][z] > 0 && w.misled(f, zone), never
		if misled {
			since = w.ableIn(zone)
		}
		if d := w.lasts(&j.misled[f][z], misled, since, serveWithin); d > 0 {
			w.breach("for %s zone %s is sent to whom it does not reach", d, zone)
		}
	}
}

// inGoodHands says that the Lease is free, or held by who can act in its turn,
// and not by who died or whose turn is over.
func (w *World) inGoodHands() bool {
	l := w.store.lock
	if !l.exists || l.holder < 0 {
		return l.exists
	}
	a := &w.agents[l.holder]
	return w.judge.ableSince[l.holder] != never && a.clock(w.now) < a.until
}

// anyWell says that some endpoint that is ready should be, and may be known to:
// where none is, nothing is taken away from any.
func (w *World) anyWell() bool {
	for o := firstSlice; o < firstAgent; o++ {
		if s := w.store.slice(o); s != nil && s.Ready && w.ready(index(s.Node)) && !w.silent(o) {
			return true
		}
	}
	return false
}

// silent says that others may take the node of a slice for dead, by clocks that
// run at a legal rate: neither Lease was renewed, nor did the slice turn ready.
func (w *World) silent(o object) bool {
	node := o / families
	last := w.judge.revived[o]
	for _, l := range []object{firstAgent + node, firstIdentity + node} {
		if i := w.store.head[l]; i >= 0 {
			last = max(last, w.store.leasedAt[i])
		}
	}
	return w.now-last > w.shape.Settings.Lapse*98/100
}

// anySlice says that there is one to be made ready: its zone stands in it, or is
// remembered by the slice kubernetes.
func (w *World) anySlice(f int) bool {
	remembered := func(node string) bool {
		c := w.store.kubernetes()
		return c != nil && slices.ContainsFunc(c.Members, func(m plan.Member) bool { return m.Node == node && m.Zone != "" })
	}
	for i := range w.n {
		if s := w.store.slice(firstSlice + object(i*families+f)); s != nil && (s.Zone != "" || remembered(s.Node)) {
			return true
		}
	}
	return false
}

// lasts is for how long something has gone on although an agent could have
// ended it, if that is longer than bound.
func (w *World) lasts(since *time.Duration, is bool, able, bound time.Duration) time.Duration {
	switch {
	case !is:
		*since = never
		return 0
	case *since == never:
		*since = w.now
	}
	if able == never {
		return 0
	}
	from := max(*since, able)
	if w.now-max(from, w.judge.handed) > bound || w.now-max(from, w.judge.lossless, w.judge.made) > bound+passOn {
		return w.now - from
	}
	return 0
}

package balance

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/balance/choose"
	"github.com/holdfast-ha/holdfast/internal/access/balance/source"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// roster is the pure core of a pool: which backends there are, what is known
// of each, and what follows when that changes. It holds no clock, socket or
// goroutine; now is monotonic.
//
// Invariants: the list, once not empty, is never empty; a backend that leaves
// or fails ends its connections once; none end by failure while the node
// doubts itself, or has reason to begin to (see spared).
type roster struct {
	cfg     Pool
	entries []entry // sorted by id
	// held are the ids that a person took out of service, listed or not: a
	// machine under maintenance leaves the list and comes back.
	held  map[string]bool
	guard choose.Lifeguard
	doubt bool
	// owed are endings put off, by id.
	owed map[string]action
	// calm is when endings may happen again after nobody was usable.
	calm time.Duration
	// served says that somebody has been usable.
	served bool
	// nudged is when the others were last probed because one was suspect.
	nudged time.Duration
}

const (
	// calmAfter is how long endings wait after the first backend is usable
	// again: the others need two answers, DownPeriod and Recheck apart.
	calmAfter = 2 * time.Second
	// nudgeEvery bounds the extra probes that suspicion causes.
	nudgeEvery = 3 * time.Second
)

// entry is one backend of a roster.
type entry struct {
	id      string
	backend source.Backend
	verdict health.Verdict
	// late says that the backend came when others were there already.
	late       bool
	readySince time.Duration // on the clock of now; -1: from the start
}

// action is something the shell must do.
type action struct {
	kind actionKind
	id   string
	// from, to, cause and how belong to some kinds only.
	from, to health.Grade
	cause    string
	how      Cause
}

type actionKind int

const (
	// added: make a target and start checking.
	added actionKind = iota
	// removed: stop checking; an ending for its connections comes with it.
	removed
	// graded: the grade changed; to be logged and counted.
	graded
	// ended: established connections end as how says, because of cause.
	ended
	// resumed: an ending by draining that is under way is called off.
	resumed
	// doubted and trusted: the node began or stopped to doubt itself.
	doubted
	trusted
	// nudged: probe now, because another backend has become suspect.
	nudged
)

func newRoster(cfg Pool) *roster {
	return &roster{cfg: cfg, owed: map[string]action{}, held: map[string]bool{}, nudged: -nudgeEvery}
}

func (r *roster) find(id string) (int, bool) {
	return slices.BinarySearchFunc(r.entries, id, func(e entry, id string) int { return cmp.Compare(e.id, id) })
}

// list takes the backends that the sources agree on. An empty list is no
// information: what was known stays.
func (r *roster) list(now time.Duration, backends []source.Backend) []action {
	if len(backends) == 0 {
		return nil
	}
	var out []action
	keep, late := map[string]bool{}, len(r.entries) > 0
	for _, b := range backends {
		keep[b.ID()] = true
		if i, ok := r.find(b.ID()); ok {
			r.entries[i].backend = b
			continue
		}
		i, _ := r.find(b.ID())
		r.entries = slices.Insert(r.entries, i, entry{id: b.ID(), backend: b, late: late, readySince: -1})
		out = append(out, action{kind: added, id: b.ID()})
		if !r.held[b.ID()] { // else it is still to drain
			out = append(out, action{kind: resumed, id: b.ID()})
		}
	}
	for _, e := range r.entries {
		if !keep[e.id] {
			delete(r.owed, e.id)
			how := r.cfg.OnRemove
			if e.verdict.Grade == health.ShuttingDown {
				how = r.cfg.OnShutdown // it said so itself, and takes its endpoint away
			}
			out = append(out, action{kind: removed, id: e.id}, action{kind: ended, id: e.id, cause: "left the list", how: how})
		}
	}
	r.entries = slices.DeleteFunc(r.entries, func(e entry) bool { return !keep[e.id] })
	r.guard.Relist(now, r.usable())
	return append(out, r.settle(now)...)
}

// usable counts the backends that may serve, those held by a person included:
// holding one is no sign of a fault.
func (r *roster) usable() int {
	n := 0
	for _, e := range r.entries {
		if e.verdict.Grade.Usable() {
			n++
		}
	}
	return n
}

// judged takes a verdict of the checks. A checker that has just started knows
// nothing, and does not overrule the one before it.
func (r *roster) judged(now time.Duration, id string, v health.Verdict) []action {
	i, ok := r.find(id)
	if !ok {
		return nil
	}
	e := &r.entries[i]
	if v.Grade == health.Unknown && e.verdict.Grade != health.Unknown {
		return nil
	}
	before := e.verdict
	e.verdict = v
	out := r.nudge(now, *e, before)
	if before.Grade == v.Grade {
		return append(out, r.settle(now)...)
	}
	out = append(out, action{kind: graded, id: id, from: before.Grade, to: v.Grade, cause: v.Reason})
	if v.Grade.Usable() {
		out = append(out, r.rise(now, e, before.Grade)...)
	} else if before.Grade.Usable() || before.Grade == health.Unknown || before.Grade == health.ShuttingDown {
		// From bad to worse is no news to its connections.
		r.owed[id] = r.ending(*e)
	}
	return append(out, r.settle(now)...)
}

// rise takes a backend that has become usable. If it is the first after there
// was none, the connections that the others got for want of a better end; but
// not at once, for those may be on their way back, too.
func (r *roster) rise(now time.Duration, e *entry, from health.Grade) []action {
	delete(r.owed, e.id)
	if choose.BecameReady(from, e.verdict.Grade) || from == health.Unknown && e.late {
		e.readySince = now
	}
	if r.usable() == 1 {
		if r.served {
			r.calm = now + calmAfter
		}
		r.served = true
		for _, other := range r.entries {
			if g := other.verdict.Grade; !g.Usable() && g != health.Unknown {
				r.owed[other.id] = r.ending(other)
			}
		}
	}
	if r.held[e.id] {
		return nil
	}
	return []action{{kind: resumed, id: e.id}}
}

// nudge has the others probed when one becomes suspect, so that by the time it
// falls it is known whether they are silent as well.
func (r *roster) nudge(now time.Duration, e entry, before health.Verdict) []action {
	if !e.verdict.Suspect || before.Suspect || !e.verdict.Grade.Usable() || now-r.nudged < nudgeEvery {
		return nil
	}
	r.nudged = now
	var out []action
	for _, other := range r.entries {
		if other.id != e.id && other.verdict.Grade.Usable() && !other.verdict.Suspect {
			out = append(out, action{kind: nudged, id: other.id})
		}
	}
	return out
}

// ending says what becomes of the connections of a backend that is not usable.
func (r *roster) ending(e entry) action {
	g := e.verdict.Grade
	how := r.cfg.OnFail
	if g == health.ShuttingDown {
		how = r.cfg.OnShutdown
	}
	return action{kind: ended, id: e.id, cause: g.String(), how: how}
}

// hold takes a backend out of service for a person, or back into it. False
// means that there is none of this id.
func (r *roster) hold(now time.Duration, id string, held bool) ([]action, bool) {
	i, ok := r.find(id)
	if !ok {
		return nil, false
	}
	was := r.held[id]
	if held {
		r.held[id] = true
	} else {
		delete(r.held, id)
	}
	out := r.settle(now)
	switch {
	case held && !was:
		out = append(out, action{kind: ended, id: id, cause: "drained by a person", how: Drain})
	case was && !held:
		r.entries[i].readySince = now
		out = append(out, action{kind: resumed, id: id})
	}
	return out, true
}

// holds lists the ids that a person has taken out of service.
func (r *roster) holds() []string { return slices.Sorted(maps.Keys(r.held)) }

// refresh takes a verdict that differs in figures only, such as the round trip.
func (r *roster) refresh(id string, v health.Verdict) {
	if i, ok := r.find(id); ok && r.entries[i].verdict.Grade == v.Grade && r.entries[i].verdict.Suspect == v.Suspect {
		r.entries[i].verdict = v
	}
}

// tick lets time pass.
func (r *roster) tick(now time.Duration) []action { return r.settle(now) }

// settle asks the lifeguard, and ends what is owed unless it is spared.
func (r *roster) settle(now time.Duration) []action {
	var out []action
	if doubt := r.guard.Observe(now, r.usable()); doubt != r.doubt {
		r.doubt = doubt
		kind := trusted
		if doubt {
			kind = doubted
		}
		out = append(out, action{kind: kind})
	}
	if r.spared(now) {
		return out
	}
	for _, e := range r.entries {
		if a, ok := r.owed[e.id]; ok {
			out = append(out, a)
		}
	}
	clear(r.owed)
	return out
}

// spared says that endings wait: the node doubts itself; or all backends that
// are left are suspect, so that it may be about to; or the first has only just
// come back.
func (r *roster) spared(now time.Duration) bool {
	if r.doubt || now < r.calm {
		return true
	}
	usable, calm := 0, 0
	for _, e := range r.entries {
		if e.verdict.Grade.Usable() {
			usable++
			if !e.verdict.Suspect {
				calm++
			}
		}
	}
	return usable > 0 && calm == 0
}

// table is what connections are placed by.
func (r *roster) table() *choose.Table {
	backends := make([]choose.Backend, len(r.entries))
	for i, e := range r.entries {
		b := e.backend
		backends[i] = choose.Backend{
			ID: e.id, Zone: b.Zone, Weight: b.Weight, Backup: b.Backup || b.Demoted, Grade: e.verdict.Grade, Suspect: e.verdict.Suspect,
			Held: r.held[e.id], RTT: e.verdict.RTT, ReadySince: e.readySince, MaxConns: b.MaxConns,
		}
	}
	return choose.New(choose.Config{Policy: r.cfg.Policy, Zone: r.cfg.Zone, SlowStart: r.cfg.SlowStart, Panic: r.doubt}, backends)
}

// drop forgets an entry that could not be made to work.
func (r *roster) drop(id string) {
	if i, ok := r.find(id); ok {
		r.entries = slices.Delete(r.entries, i, i+1)
	}
}

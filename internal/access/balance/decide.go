package balance

import (
	"cmp"
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
// or fails ends its connections once; while the node doubts itself none end.
type roster struct {
	cfg     Pool
	entries []entry // sorted by id
	guard   choose.Lifeguard
	doubt   bool
	// owed are endings put off while the node doubts itself, by id.
	owed map[string]action
}

// entry is one backend of a roster.
type entry struct {
	id      string
	backend source.Backend
	verdict health.Verdict
	// held says that a person took the backend out of service.
	held       bool
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
)

func newRoster(cfg Pool) *roster { return &roster{cfg: cfg, owed: map[string]action{}} }

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
	keep := map[string]bool{}
	for _, b := range backends {
		keep[b.ID()] = true
		if i, ok := r.find(b.ID()); ok {
			r.entries[i].backend = b
			continue
		}
		i, _ := r.find(b.ID())
		r.entries = slices.Insert(r.entries, i, entry{id: b.ID(), backend: b, readySince: -1})
		out = append(out, action{kind: added, id: b.ID()}, action{kind: resumed, id: b.ID()})
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
	return append(out, r.settle(now)...)
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
	from := e.verdict.Grade
	e.verdict = v
	if from == v.Grade {
		return r.settle(now)
	}
	out := []action{{kind: graded, id: id, from: from, to: v.Grade, cause: v.Reason}}
	if choose.BecameReady(from, v.Grade) {
		e.readySince = now
	}
	if v.Grade.Usable() {
		delete(r.owed, id)
		if !e.held {
			out = append(out, action{kind: resumed, id: id})
		}
	} else if from.Usable() || from == health.Unknown || from == health.ShuttingDown {
		// From bad to worse is no news to its connections.
		r.owed[id] = action{kind: ended, id: id, cause: v.Grade.String(), how: r.ending(v.Grade)}
	}
	return append(out, r.settle(now)...)
}

// ending says what becomes of the connections of a backend of this grade.
func (r *roster) ending(g health.Grade) Cause {
	if g == health.ShuttingDown {
		return r.cfg.OnShutdown
	}
	return r.cfg.OnFail
}

// hold takes a backend out of service for a person, or back into it. False
// means that there is none of this id.
func (r *roster) hold(now time.Duration, id string, held bool) ([]action, bool) {
	i, ok := r.find(id)
	if !ok {
		return nil, false
	}
	r.entries[i].held = held
	out := r.settle(now)
	switch {
	case held:
		out = append(out, action{kind: ended, id: id, cause: "drained by a person", how: Drain})
	case r.entries[i].verdict.Grade.Usable():
		r.entries[i].readySince = now
		out = append(out, action{kind: resumed, id: id})
	}
	return out, true
}

// tick lets time pass.
func (r *roster) tick(now time.Duration) []action { return r.settle(now) }

// settle asks the lifeguard, and ends what is owed unless in doubt.
func (r *roster) settle(now time.Duration) []action {
	usable := 0
	for _, e := range r.entries {
		if e.verdict.Grade.Usable() && !e.held {
			usable++
		}
	}
	var out []action
	if doubt := r.guard.Observe(now, usable); doubt != r.doubt {
		r.doubt = doubt
		kind := trusted
		if doubt {
			kind = doubted
		}
		out = append(out, action{kind: kind})
	}
	if r.doubt {
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

// table is what connections are placed by.
func (r *roster) table() *choose.Table {
	backends := make([]choose.Backend, len(r.entries))
	for i, e := range r.entries {
		b := e.backend
		backends[i] = choose.Backend{
			ID: e.id, Zone: b.Zone, Weight: b.Weight, Backup: b.Backup || b.Demoted, Grade: e.verdict.Grade, Suspect: e.verdict.Suspect,
			Held: e.held, RTT: e.verdict.RTT, ReadySince: e.readySince, MaxConns: b.MaxConns,
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

package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// patience is how long an agent waits for an answer.
const patience = 2500 * time.Millisecond

// latest is how long after it was sent a request may be done.
const latest = 20 * time.Second

type verb uint8

const (
	vRead   verb = iota // everything, linearizably
	vWrite              // one object
	vRenew              // the agent's own Lease
	vLook               // the Lease by which agents take turns
	vTake               // the same, by compare-and-swap
	vReturn             // give it back, by compare-and-swap
)

// request is on its way to the store, or was.
type request struct {
	verb  verb
	agent int
	life  uint32
	sent  time.Duration
	write plan.Write
	rest  []plan.Write // what is to follow it
	rev   int          // vTake, vReturn: what must stand
	lock  record
	fresh heads
	heard time.Duration // judge.heard of its sender, when it was read
	at    time.Duration // it reached the store
	// held is until when its sender may hold the Lease, by the world's clock.
	held time.Duration
	// alone: the write is of a withdrawal without the Lease.
	alone bool
	// based is the reading that the write rests on; nil is the watches.
	based *request
	// blank and ready say that what it changes had no zone, by somebody's hand,
	// and that it was ready.
	blank, ready bool
	// emptied says that it takes over a slice kubernetes that says nothing.
	emptied bool
	refused bool
	done    bool
	failed  bool // the store said no
	unheard bool // no answer arrives
}

// send lets a request go, to its fate.
func (w *World) send(a *agent, r request) {
	r.agent, r.life, r.sent = a.i, a.life, w.now
	w.requests = append(w.requests, r)
	id := int32(len(w.requests) - 1)
	q := &w.requests[id]
	there := w.between(time.Millisecond, 40*time.Millisecond)
	back := there + w.between(time.Millisecond, 40*time.Millisecond)
	switch {
	case !w.answered(a.i):
		back = w.between(20*time.Millisecond, patience)
		there, q.unheard = -1, true
	case w.chance(w.shape.Lost):
		back, q.unheard = patience, true
		if w.chance(0.5) {
			there = -1
		}
	case w.chance(w.shape.Late):
		there, back, q.unheard = w.between(patience/4, latest), patience, true
	}
	if q.unheard {
		a.troubled = w.now + back
	}
	if there >= 0 {
		w.after(there, event{kind: evExec, x: id})
	}
	w.after(back, event{kind: evReply, a: int8(a.i), life: a.life, x: id})
}

// exec is the request at the store.
func (w *World) exec(r *request) {
	r.at, r.done = w.now, true
	switch r.verb {
	case vRead:
		r.fresh, r.heard = w.store.head, w.judge.heard[r.agent]
	case vLook:
		r.lock = w.store.lock
	case vTake, vReturn:
		w.execLock(r)
	case vRenew:
		i := r.agent
		w.store.putLease(firstAgent+object(i), w.now, plan.Lease{
			Role: plan.Agent, Name: leases[i], Node: name(i), Holder: name(i), Identity: identities[i], Distances: w.agents[i].distances,
		})
		w.spread()
	case vWrite:
		w.execWrite(r)
	}
}

func (w *World) execLock(r *request) {
	l := &w.store.lock
	if l.exists != (r.rev > 0) || l.rev != r.rev {
		r.failed = true
		return
	}
	if !l.exists { // whoever had it before somebody deleted it does not know yet
		w.judge.made = w.now + turn
		w.judge.handed = w.judge.made
	}
	w.store.rev++
	*l = record{exists: true, holder: -1, rev: w.store.rev}
	if r.verb == vTake {
		l.holder = int8(r.agent)
	}
	r.lock = *l
}

// refuses says that admission, or a missing right, keeps an agent from a write.
func (w *World) refuses(r *request) bool {
	a, s := &w.agents[r.agent], &r.write.Slice
	if w.now >= a.refused {
		return false
	}
	switch a.refusal {
	case 1:
		return s.Node == name(r.agent)
	case 2:
		return s.Name != "" && s.Node != name(r.agent)
	case 3:
		return s.Name == ""
	}
	return true
}

// refuse notes a refusal: who was refused for some time cannot know that it would
// not be now, until it tries again after half that time.
func (w *World) refuse(r *request) {
	r.failed, r.refused = true, true
	o := &w.judge.refusals[r.agent]
	if o.until == 0 || o.over(w.now) {
		*o = row{first: w.now}
	}
	wait := min(max((w.now-o.first)/2, leastWait), mostWait)
	o.last, o.until = w.now, w.now+wait+wait/5
	a := &w.agents[r.agent]
	a.troubled = max(a.troubled, w.now+patience, o.until)
}

func (w *World) execWrite(r *request) {
	if w.refuses(r) {
		w.refuse(r)
		return
	}
	before := w.sight()
	if r.write.Slice.Name != "" {
		is := w.store.slice(objectOf(&r.write.Slice))
		r.blank, r.ready = is != nil && is.Zone == "", is != nil && is.Ready
	}
	c := w.store.kubernetes()
	r.emptied = c != nil && len(c.Members) == 0
	done, changed := w.store.apply(&r.write)
	r.failed = !done
	if !changed {
		return
	}
	if w.Trace != nil {
		w.traceWrite(r)
	}
	w.judgeCommit(before, r, &r.write)
	w.spread()
}

// traceWrite tells a write in the words of its plan.
func (w *World) traceWrite(r *request) {
	s := &r.write.Slice
	line := name(r.agent) + " → " + s.Name
	switch {
	case s.Name == "":
		line += r.write.Op.String()
	case r.write.Op == plan.DeleteSlice:
		line += " deleted"
	default:
		line += fmt.Sprintf(": zone %s, hints %s, %s", s.Zone, strings.Join(s.Hints, " "), state(s))
	}
	if r.write.Why != "" {
		line += " — " + r.write.Why
	} else {
		line += " — leant on for " + s.Lean
	}
	switch {
	case r.based == nil || w.inTurn(r):
	case r.alone:
		line += " (without the Lease)"
	default:
		line += " (late)"
	}
	w.trace("%s", line)
}

func state(s *plan.Slice) string {
	switch {
	case s.Ready:
		return "ready"
	case s.UnreadyBy != "":
		return "unready by " + s.UnreadyBy
	}
	return "unready"
}

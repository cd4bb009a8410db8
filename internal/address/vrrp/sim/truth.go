package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// truth is what the judge knows, and what it has found.
type truth struct {
	// Broken is the first broken invariant in words; empty is good.
	Broken string

	Moves, Sent, Faults, HandOvers, TakeOvers int

	// disruptions counts everything that may excuse a node afterwards.
	disruptions int
	// dual is when two have last answered at once.
	dual    [mostPlanes]time.Duration
	several [mostPlanes]bool // it is so now
	// both is per plane and pair since when the two answer at once, though
	// they ought to know of each other; never while they do not.
	both   [mostPlanes][most][most]time.Duration
	yields [mostPlanes][most]yield
}

// yield is a hand-over under way.
type yield struct {
	since  time.Duration
	faults int  // disruptions when it began
	sole   bool // nobody else answered then
}

func (t *truth) reset(planes int) {
	*t = truth{}
	for plane := range planes {
		t.dual[plane] = -never
		for i := range most {
			for j := range most {
				t.both[plane][i][j] = never
			}
		}
	}
}

func (w *World) breach(format string, args ...any) {
	if w.truth.Broken == "" {
		w.truth.Broken = fmt.Sprintf("%.3fs: ", w.now.Seconds()) + fmt.Sprintf(format, args...)
		w.tracef("BROKEN: %s", w.truth.Broken)
	}
}

// judge follows every pair: two that answer at once and hear each other may
// do so for one interval and a round trip.
func (w *World) judge() {
	for plane := range w.shape.Planes {
		answering := 0
		for i := range w.n {
			if w.nodes[i].answers(plane, w.now) {
				answering++
			}
		}
		// It has been so since the last time this was looked at.
		if answering > 1 || w.truth.several[plane] {
			w.truth.dual[plane] = w.now
		}
		w.truth.several[plane] = answering > 1
		for i := range w.n {
			for j := i + 1; j < w.n; j++ {
				w.judgePair(plane, i, j)
			}
		}
	}
}

func (w *World) judgePair(plane, i, j int) {
	since := &w.truth.both[plane][i][j]
	a, b := &w.nodes[i], &w.nodes[j]
	if !a.answers(plane, w.now) || !b.answers(plane, w.now) || !w.hear(plane, i, j) {
		w.closePair(plane, i, j, since)
		return
	}
	if *since == never {
		*since = w.now
	}
	w.closePair(plane, i, j, nil)
}

// closePair checks how long a pair has answered at once, and forgets it if it
// no longer does.
func (w *World) closePair(plane, i, j int, forget *time.Duration) {
	since := w.truth.both[plane][i][j]
	if since == never {
		return
	}
	// A gate that has run out between two events did so when it did.
	end := min(w.now, w.nodes[i].gate[plane], w.nodes[j].gate[plane])
	if end-since > w.overlap(i, j) {
		w.breach("plane %d: %s and %s have both answered for %s, which is more than an interval and a round trip (%s)",
			plane, w.name(i), w.name(j), end-since, w.overlap(i, j))
	}
	if forget != nil {
		*forget = never
	}
}

// hear says whether a pair ought to know of each other. One that is stopped
// hears nothing; if it was the only holder when it was stopped, and was heard,
// its gate has to close in time all the same, and so the pair counts.
func (w *World) hear(plane, i, j int) bool {
	a, b := &w.nodes[i], &w.nodes[j]
	since := min(w.now, w.struckAlone(a, b, plane), w.struckAlone(b, a, plane))
	return since >= 0 && w.links[plane][i][j].clear(since) && w.links[plane][j][i].clear(since)
}

// struckAlone returns the past in which the successor of a stopped node must
// have heard it; negative excuses the pair, and never is for one that runs.
func (w *World) struckAlone(n, successor *node, plane int) time.Duration {
	if n.runs() {
		return never
	}
	since := n.struck - w.silence(n)
	switch {
	case !n.alone[plane] || !w.punctual(plane, since) || !w.heardByAll(n.id, plane, since):
		return -1
	case successor.running > since && successor.away < successor.interval()*11/10:
		return -1 // was away when it was told, for less than it notices
	case successor.took[plane] == vrrp.CauseOwner:
		return -1 // asks nobody
	case successor.relieved[plane]:
		return -1 // took the address from a third, which answers for having taken it
	case successor.took[plane] == vrrp.CausePreempt || successor.took[plane] == vrrp.CauseRelieve:
		// Stopped after the advert upon which it is relieved. In a group that
		// advert is as old as the slowest of the members is.
		if w.shape.Planes > 1 || successor.changed[plane]-n.struck < w.window(successor) {
			return -1
		}
	}
	return since
}

// window is the longest time between an advert and the moment when a node
// takes over because of it.
func (w *World) window(n *node) time.Duration {
	return n.interval()/8 + w.shape.Delay + 2*w.shape.Late
}

// overlap is an advert interval and a round trip of a pair.
func (w *World) overlap(i, j int) time.Duration {
	return max(w.nodes[i].interval(), w.nodes[j].interval()) + 2*w.shape.Delay + 2*w.shape.Late
}

// silence is how long a node takes to notice that a holder is gone.
func (w *World) silence(n *node) time.Duration {
	slowest := time.Duration(0)
	for i := range w.n {
		slowest = max(slowest, w.nodes[i].cfg.Interval)
	}
	skew := time.Duration(256-int(n.priority)) * slowest / 256
	if n.cfg.Version == 2 {
		skew = time.Duration(256-int(n.priority)) * time.Second / 256
	}
	return (3*slowest+skew)*103/100 + w.shape.Delay + 2*w.shape.Late
}

// checkTaking is called when a node becomes active: from a living holder that
// it hears it takes nothing, unless it may.
func (w *World) checkTaking(id, plane int, cause vrrp.Cause) {
	w.truth.TakeOvers++
	n := &w.nodes[id]
	for j := range w.n {
		h := &w.nodes[j]
		since := w.now - w.silence(n)
		if j == id || !h.answers(plane, w.now) || !h.runs() || h.running > since || h.changed[plane] > since ||
			h.group.Member(plane).State() != vrrp.Active || !w.links[plane][j][id].clear(since) || n.started > since && !n.cfg.Owner {
			continue
		}
		if w.mayTake(n, h, plane, cause) {
			continue
		}
		w.breach("plane %d: %s takes the address (%s, priority %d) from %s, which holds it (priority %d) and is heard",
			plane, w.name(id), cause, n.priority, w.name(j), h.priority)
	}
}

func (w *World) mayTake(n, h *node, plane int, cause vrrp.Cause) bool {
	if w.now-h.weighed < w.window(n) {
		return true // it was different when it was last heard
	}
	if n.cfg.Preempt && n.priority > h.priority {
		return true
	}
	switch cause {
	case vrrp.CauseOwner:
		return n.cfg.Owner
	case vrrp.CauseResigned:
		// Of two holders the one that it followed, or one that said so late.
		since := w.now - w.silence(n)
		return w.truth.dual[plane] > since || !w.punctual(plane, since)
	case vrrp.CauseRelieve:
		if !n.cfg.Stay && n.priority > h.priority && h.priority < h.peak {
			return true
		}
		// An advert of its former life may have come after it began this one.
		return !n.cfg.Stay && !w.punctual(plane, h.changed[plane]-w.silence(n))
	}
	return false
}

// sole says whether a node alone answers among those that it can reach.
func (w *World) sole(id, plane int) bool {
	for j := range w.n {
		if j != id && w.nodes[j].answers(plane, w.now) {
			return false
		}
	}
	return true
}

// held says whether another living node holds the address.
func (w *World) held(id, plane int) bool {
	for j := range w.n {
		if h := &w.nodes[j]; j != id && h.runs() && h.answers(plane, w.now) {
			return true
		}
	}
	return false
}

// backupOf returns a node that is fit to take over from another on all
// planes, and has been since a moment; -1 if there is none.
func (w *World) backupOf(id int, since time.Duration) int {
	best := -1
	for j := range w.n {
		if j == id || !w.fit(j, since) || best >= 0 && w.nodes[j].priority <= w.nodes[best].priority {
			continue
		}
		ok := true
		for plane := range w.shape.Planes {
			ok = ok && w.links[plane][id][j].clear(since) && w.links[plane][j][id].clear(since)
		}
		if ok {
			best = j
		}
	}
	return best
}

// fit says whether a node has been a backup, and listening, since a moment.
func (w *World) fit(id int, since time.Duration) bool {
	n := &w.nodes[id]
	if !n.runs() || n.leaving || n.sick || n.running > since || n.started+n.cfg.StartDelay > since {
		return false
	}
	for plane := range w.shape.Planes {
		if n.group.Member(plane).State() != vrrp.Backup || n.changed[plane] > since {
			return false
		}
	}
	return true
}

// checkLeaving is called when a node stops answering of its own accord: after
// a hand-over somebody else answers.
func (w *World) checkLeaving(id, plane int, cause vrrp.Cause) {
	y := &w.truth.yields[plane][id]
	if cause != vrrp.CauseHandedOver && cause != vrrp.CauseLinger {
		return
	}
	w.truth.HandOvers++
	before := y.since - w.silence(&w.nodes[id])
	if !y.sole || y.faults != w.truth.disruptions || !w.punctual(plane, before) || w.truth.dual[plane] > before {
		return
	}
	if cause == vrrp.CauseHandedOver && w.sole(id, plane) {
		w.breach("plane %d: %s has handed over, and nobody answers", plane, w.name(id))
	}
	if b := w.backupOf(id, before); cause == vrrp.CauseLinger && b >= 0 && w.sole(id, plane) && !w.mayFollow(b, id, y.since) {
		w.breach("plane %d: %s waited for a successor, and %s did not come", plane, w.name(id), w.name(b))
	}
}

// mayFollow says whether a backup that hears a holder resign may take another for
// the holder: one that it has heard of late and that is gone since, as a machine
// that stands still is. It cannot know that before two of its adverts are missing.
func (w *World) mayFollow(b, resigner int, resigned time.Duration) bool {
	n := &w.nodes[b]
	for plane := range w.shape.Planes {
		for j := range w.n {
			if since := resigned - 2*w.nodes[j].interval(); j != resigner && n.met[plane][j] > max(since, 0) {
				return true
			}
		}
	}
	return false
}

// punctual says whether nothing late has arrived anywhere since a moment: who
// hears an hour later that somebody resigns is not to blame.
func (w *World) punctual(plane int, since time.Duration) bool {
	for i := range w.n {
		for j := range w.n {
			if w.links[plane][i][j].late > since {
				return false
			}
		}
	}
	return true
}

// heardByAll says whether the links to and from a node have been well.
func (w *World) heardByAll(id, plane int, since time.Duration) bool {
	for j := range w.n {
		if j != id && (!w.links[plane][j][id].clear(since) || !w.links[plane][id][j].clear(since)) {
			return false
		}
	}
	return true
}

// expectSuccessor is called before the process of a holder is taken away: if
// a backup is there and nothing else happens, it is holder in time.
func (w *World) expectSuccessor(id int) {
	for plane := range w.shape.Planes {
		m := w.nodes[id].group.Member(plane)
		if m.State() != vrrp.Active || !w.sole(id, plane) || !w.punctual(plane, w.now-w.silence(&w.nodes[id])) {
			return
		}
	}
	b := w.backupOf(id, w.now-2*w.silence(&w.nodes[id]))
	if b < 0 {
		return
	}
	within := w.silence(&w.nodes[b])
	w.queue.push(event{at: w.now + within, kind: evDeadline, a: int8(id), b: int8(b), gen: uint32(w.truth.disruptions + 1)})
}

func (w *World) checkDeadline(e *event) {
	if int(e.gen) != w.truth.disruptions {
		return
	}
	for plane := range w.shape.Planes {
		if w.sole(int(e.a), plane) {
			w.breach("plane %d: %s is gone for %s, and %s has not taken over", plane, w.name(int(e.a)), w.silence(&w.nodes[e.b]), w.name(int(e.b)))
		}
	}
}

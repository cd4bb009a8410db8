package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
)

// judge knows the truth and says what was broken.
type judge struct {
	// Begun counts holdings, Given hand-overs that were heard, Kept lettings go
	// that policy keep spared.
	Begun, Given, Lapsed int
	// settled: nothing is broken any more, and nobody may let go.
	settled bool
	reads   int
	writes  int
	broken  string
}

func (w *World) breach(format string, args ...any) {
	if w.judge.broken == "" {
		w.judge.broken = fmt.Sprintf("at %s: ", w.now) + fmt.Sprintf(format, args...)
		w.trace("BROKEN: %s", w.judge.broken)
	}
}

// holds judges that a kernel is about to let the address through until then.
func (j *judge) holds(w *World, n *node, a *lease.Action, until time.Duration) {
	switch {
	case a.Lingering:
		j.lingers(w, n, a, until)
		return
	case a.Cause == "" && n.gate.until <= w.now:
		w.breach("%s goes on holding after its deadline", n.name)
	case n.gate.lingering:
		w.breach("%s holds again what it has given away", n.name)
	}
	if a.Cause != "" {
		j.Begun++
	}
	for i := range w.n {
		if o := &w.nodes[i]; o != n && o.gate.until > w.now && !o.gate.lingering {
			w.breach("%s holds, and %s does until %s", n.name, o.name, o.gate.until)
		}
	}
}

// lingers judges an old holder beside its successor.
func (j *judge) lingers(w *World, n *node, a *lease.Action, until time.Duration) {
	late := w.duration(n) / 50
	switch limit := w.shape.Config.Linger; {
	case until > w.now+limit+limit/50+late:
		w.breach("%s lingers until %s", n.name, until)
	case until > n.gate.until+late:
		w.breach("%s lingers past its deadline", n.name)
	}
}

// released judges that a holder let go by itself.
func (j *judge) released(w *World, n *node, cause lease.Cause) {
	switch cause {
	case lease.CauseHandedOver:
		j.Given++
		if j.settled && !w.served(n) {
			w.breach("%s lets go before its successor answers", n.name)
		}
	case lease.CauseDeadline, lease.CauseReached, lease.CauseUnheard:
		j.Lapsed++
	}
	if j.settled && cause != lease.CauseHandedOver {
		w.breach("%s lets go: %s, with nothing broken but the API", n.name, cause)
	}
}

func (j *judge) stopped(w *World, n *node) {
	if n.gate.until > w.now {
		w.breach("%s stopped, and the address goes on", n.name)
	}
}

// served says that another than n answers for the address, and has said so.
func (w *World) served(n *node) bool {
	for i := range w.n {
		if o := &w.nodes[i]; o != n && o.gate.until > w.now && o.gate.announced {
			return true
		}
	}
	return false
}

// committed judges a write that is about to be done.
func (j *judge) committed(w *World, old *lease.Record, r *request) {
	if r.version == 0 || r.record.Holder == old.Holder && !old.Given || r.record.Given || r.record.Holder == "" {
		return
	}
	if r.record.Turn <= old.Turn {
		w.breach("%s takes over in turn %d after %d", r.record.Holder, r.record.Turn, old.Turn)
	}
	if !old.Names(r.record.Holder) {
		w.breach("%s takes over, which the record does not name", r.record.Holder)
	}
}

func (j *judge) asked(a *lease.Action) {
	if a.Do == lease.Write {
		j.writes++
	} else {
		j.reads++
	}
}

// holders lists those whose kernels let the address through.
func (w *World) holders() (all []int) {
	for i := range w.n {
		if g := &w.nodes[i].gate; g.until > w.now && !g.lingering {
			all = append(all, i)
		}
	}
	return all
}

// agree judges that what a machine believes is what its kernel does.
func (w *World) agree() {
	for i := range w.n {
		n := &w.nodes[i]
		if !w.runs(n) {
			continue
		}
		_, held := n.machine.Until(n.clock(w.now))
		if held && n.gate.until <= w.now {
			w.breach("%s believes that it holds", n.name)
		}
	}
}

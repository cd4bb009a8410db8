package sim

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

const (
	// reachAfter is how long a node has failed to connect before its agent takes
	// another for out of reach: two tries, a second apart, each with its timeout.
	reachAfter = 2 * time.Second
	// reachAgain is the longest time between two tries after a while.
	reachAgain = 5 * time.Second
)

// parting is from when until when two nodes do not reach each other.
type parting struct{ from, to time.Duration }

// part parts two nodes. Apiservers do not need each other; clients in the zones do.
func (w *World) part(i, j int, d time.Duration) {
	if i == j {
		return
	}
	p := parting{w.now, w.now + d}
	if was := w.parted[i][j]; !w.reaches(i, j) {
		p = parting{was.from, max(was.to, p.to)}
		d = p.to - w.now
	}
	w.parted[i][j], w.parted[j][i] = p, p
	for _, k := range []int{i, j} {
		for _, at := range []time.Duration{reachAfter, d + reachAgain} {
			w.after(at, event{kind: evContact, a: int8(k), life: w.agents[k].life})
		}
	}
}

// contact has the agent look where somebody came into reach, or went out of it.
func (w *World) contact(a *agent) {
	if apart := w.unreached(a); !slices.Equal(apart, a.apart) {
		a.apart, a.resting = apart, 0
		w.nudge(a)
	}
}

// reaches says that clients on the node of i connect to the apiserver of j.
func (w *World) reaches(i, j int) bool {
	p := w.parted[i][j]
	return w.now < p.from || w.now >= p.to
}

// unreached are the nodes that the agent knows to be out of reach: it tries only
// while its own apiserver is not ready, and hears of a way that is back later.
func (w *World) unreached(a *agent) []string {
	if a.unwell == never || w.rules.blind {
		return nil
	}
	var all []string
	for j := range w.n {
		p := w.parted[a.i][j]
		if w.now >= max(p.from, a.unwell)+reachAfter && w.now < p.to+reachAgain && p.to > max(p.from, a.unwell)+reachAfter {
			all = append(all, name(j))
		}
	}
	return all
}

// misled says that the clients of a zone are sent only to where none of its nodes
// reaches, while there is an apiserver that all of them reach, and each of its
// agents knows that it cannot serve itself.
func (w *World) misled(f int, zone string) bool {
	var sent, other bool
	for o := firstSlice; o < firstAgent; o++ {
		s := w.store.slice(o)
		if s == nil || !s.Ready || familyOf(s.Family) != f {
			continue
		}
		reached, unreached := w.reached(zone, index(s.Node))
		switch {
		case s.Hinted(zone) && (s.Zone == zone || !unreached):
			return false
		case s.Hinted(zone):
			sent = true
		case reached && w.ready(index(s.Node)) && !w.silent(o) && s.Zone != "" && s.Hinted(s.Zone) && len(s.Hints) < plan.MaxHints:
			other = true
		}
	}
	return sent && other
}

// reached says whether all, and whether none, of the nodes of a zone reach j.
// Both are false while some agent of the zone cannot know yet, and where it has
// none.
func (w *World) reached(zone string, j int) (all, none bool) {
	if !slices.ContainsFunc(w.machines[:w.n], func(m machine) bool { return m.zone == zone }) {
		return false, false
	}
	all, none = true, true
	for i := range w.n {
		if w.machines[i].zone != zone {
			continue
		}
		if a := &w.agents[i]; !a.up || a.unwell == never || a.self.Zone != zone || w.now-a.unwell < reachAfter+tick {
			return false, false
		}
		if p := w.parted[i][j]; w.reaches(i, j) {
			none = false
			all = all && w.now >= p.to+reachAgain || p.to == 0
		} else {
			all = false
			none = none && w.now-p.from >= reachAfter+tick
		}
	}
	return all, none
}

// ableIn is since when all agents of a zone can act: which of them moves it is
// none of the judge's business.
func (w *World) ableIn(zone string) time.Duration {
	able := never
	for i := range w.n {
		if w.machines[i].zone != zone {
			continue
		}
		since := w.judge.ableSince[i]
		if since == never {
			return never
		}
		able = max(able, since)
	}
	return able
}

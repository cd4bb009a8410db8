package leader

import (
	"sync"
	"time"
)

// registry keeps the newest row of every other member, whatever way it came:
// from etcd, from its agent, or relayed by another agent. Ages grow on the
// reader's monotonic clock.
type registry struct {
	mu      sync.Mutex
	rows    map[MemberID]heard
	penalty Penalty
}

type heard struct {
	row Row // Age as it was at the moment of hearing
	at  time.Duration
}

func newRegistry() *registry { return &registry{rows: map[MemberID]heard{}} }

// hear takes a row that arrived at now with row.Age as its age, and reports
// whether it told anything new.
func (g *registry) hear(row Row, now time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if row.Penalty.newer(g.penalty) {
		g.penalty = row.Penalty
	}
	old, known := g.rows[row.Member]
	if known && !replaces(row, old, now) {
		return false
	}
	g.rows[row.Member] = heard{row, now}
	return true
}

// replaces reports whether row is newer than what is known. Within one run of
// an agent Seq decides; between runs only the age can.
func replaces(row Row, old heard, now time.Duration) bool {
	if row.Boot == old.row.Boot {
		return row.Seq > old.row.Seq
	}
	return row.Age < old.row.Age+now-old.at
}

// heardPenalty takes a penalty record that came on its own.
func (g *registry) heardPenalty(p Penalty) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.newer(g.penalty) {
		g.penalty = p
	}
}

// newest returns the newest penalty record seen anywhere.
func (g *registry) newest() Penalty {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.penalty
}

// at returns the rows as of now, with the time passed added to every age.
func (g *registry) at(now time.Duration) map[MemberID]Row {
	g.mu.Lock()
	defer g.mu.Unlock()
	rows := make(map[MemberID]Row, len(g.rows))
	for id, h := range g.rows {
		rows[id] = h.row.aged(now - h.at)
	}
	return rows
}

// keep forgets members that are no longer in the membership.
func (g *registry) keep(members map[MemberID]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.rows {
		if !members[id] {
			delete(g.rows, id)
		}
	}
}

// aged returns the row d later. Links is copied, for the row is shared.
func (r Row) aged(d time.Duration) Row {
	r.Age += d
	if r.Leader == 0 {
		r.LeaderlessFor += d
	}
	links := make(map[MemberID]Link, len(r.Links))
	for id, l := range r.Links {
		l.Since += d
		links[id] = l
	}
	r.Links = links
	return r
}

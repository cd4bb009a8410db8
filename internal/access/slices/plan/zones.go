package plan

import "slices"

// adopt sees to it that each zone with nodes is hinted: by its own endpoints,
// else by exactly one other. A valid adopter stays, unless the zone's own agent
// cannot reach it and can reach somebody else.
func (p *planner) adopt(pool []*cell) {
	for _, zone := range p.zones {
		if !p.alone || p.serving(zone) {
			p.place(zone, pool)
		}
	}
	if p.v.ZonesKnown && !p.alone {
		p.release(pool)
	}
}

// takes says that hints may be taken from the pool: not where nobody is fit.
func (p *planner) takes(pool []*cell) bool { return !p.alone && pool[0].fit }

// inhabited lists the zones that must be hinted: those with nodes, and while
// Nodes are unknown every zone that a slice speaks of.
func inhabited(v *View) []string {
	var all []string
	for i := range v.Zones {
		if z := &v.Zones[i]; v.ZonesKnown && z.Nodes > 0 {
			all = append(all, z.Name)
		}
	}
	for i := range v.Slices {
		if s := &v.Slices[i]; !v.ZonesKnown && s.Owner == Ours && s.Zone != "" {
			all = append(append(all, s.Zone), s.Hints...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// serving says that the own endpoint serves the zone.
func (p *planner) serving(zone string) bool {
	for i := range p.cells {
		if c := &p.cells[i]; c.own && c.serves(zone) {
			return true
		}
	}
	return false
}

// place decides who adopts one zone.
func (p *planner) place(zone string, pool []*cell) {
	native, steady := p.mending(zone), false
	var keeper *cell
	for _, c := range pool {
		switch {
		case !c.Hinted(zone):
		case c.Zone == zone:
			native, steady = true, steady || c.steady
		case keeper == nil || p.prefer(c, keeper, zone):
			keeper = c
		}
	}
	if !native && keeper == nil {
		if best := p.choose(zone, pool); best != nil {
			best.add = append(best.add, zone)
		}
		return
	}
	if !p.takes(pool) {
		return
	}
	if !native && p.unreached(keeper, zone) && p.speaks(zone) {
		p.moves = append(p.moves, move{zone, keeper})
	}
	for _, c := range pool {
		if c.Zone != zone && c.Hinted(zone) && !c.held && (steady || c != keeper) {
			c.drop = append(c.drop, zone)
		}
	}
}

// mending says that a ready endpoint of the zone gets its hint back in this plan.
func (p *planner) mending(zone string) bool {
	return slices.ContainsFunc(p.cells, func(c cell) bool { return c.Ready && c.mended == zone })
}

// choose is the best of the pool that has room for a hint of the zone. If there is
// none, its clients are sent to everybody, as those of unknown zones are.
func (p *planner) choose(zone string, pool []*cell) *cell {
	var best *cell
	for _, c := range pool {
		switch {
		case c.held, c.Hinted(zone), !c.room():
		case best == nil, p.prefer(c, best, zone):
			best = c
		}
	}
	return best
}

// move is a zone that does not reach its adopter.
type move struct {
	zone string
	from *cell
}

// move gives the zone to somebody whom it reaches, and takes it from its adopter
// in the same plan, or does neither: an adopter that has another part in this
// plan gives it away in the next.
func (p *planner) move(m move, pool []*cell) {
	to := p.choose(m.zone, pool)
	switch from := m.from; {
	case to == nil, p.unreached(to, m.zone), to.taken, to.end:
	case from.taken, from.end, len(from.add) > 0, from.lean != "", len(from.drop) > 0 && contains(from.drop, m.zone):
	default:
		to.add = append(to.add, m.zone)
		to.relyOn(from) // others, who reach both, let the same one go
		from.drop = append(from.drop, m.zone)
		p.drop(from, pool) // before anybody else's drop leans on it
	}
}

// speaks says that this agent moves its zone from one adopter to another: the first
// of the zone that is not late. Two nodes that reach different apiservers would
// move it back and forth.
func (p *planner) speaks(zone string) bool {
	return !slices.ContainsFunc(p.cells, func(c cell) bool {
		return c.Zone == zone && c.Node < p.self.Node && !c.quiet && !c.lapsed
	})
}

// unreached says that clients of the zone, which is the own, do not reach c.
func (p *planner) unreached(c *cell, zone string) bool {
	return zone == p.self.Zone && contains(p.f.Unreached, c.Node)
}

// release drops the hints of zones that have no nodes any more.
func (p *planner) release(pool []*cell) {
	for _, c := range pool {
		for _, h := range c.Hints {
			if h != c.Zone && !c.held && p.v.nodes(h) == 0 {
				c.drop = append(c.drop, h)
			}
		}
	}
}

// prefer says that a is a better adopter of the zone than b. One that is relied
// on by who wants to end the other comes early: else an owner whose own writes are
// refused would have it adopt again and again, and the others would undo it.
func (p *planner) prefer(a, b *cell, zone string) bool {
	if ua, ub := p.unreached(a, zone), p.unreached(b, zone); ua != ub {
		return ub
	}
	if a.held != b.held {
		return a.held // it cannot let go
	}
	if ra, rb := a.reliedOn(b), b.reliedOn(a); ra != rb {
		return ra
	}
	if a.quiet != b.quiet {
		return b.quiet
	}
	if wa, wb := p.witness(a.Zone), p.witness(b.Zone); wa != wb {
		return wa < wb
	}
	if da, db := p.distance(a.Node, zone), p.distance(b.Node, zone); da != db {
		return da < db
	}
	return a.Name < b.Name
}

// witness is the rank of a zone among the witnesses, or past them all.
func (p *planner) witness(zone string) int {
	if i := slices.Index(p.cfg.Witnesses, zone); i >= 0 {
		return i
	}
	return len(p.cfg.Witnesses)
}

// far is the distance of what nobody measured.
const far = 1 << 30

// distance is the least that was measured, either way, between a node and the
// apiservers of a zone.
func (p *planner) distance(node, zone string) int {
	least := far
	for i := range p.v.Leases {
		l := &p.v.Leases[i]
		for _, d := range l.Distances {
			if l.Node == node && p.lives(d.Node, zone) || d.Node == node && p.lives(l.Node, zone) {
				least = min(least, d.Millis)
			}
		}
	}
	return least
}

// lives says that the slice of a node names the zone.
func (p *planner) lives(node, zone string) bool {
	for i := range p.cells {
		if c := &p.cells[i]; c.Node == node && c.Zone == zone {
			return true
		}
	}
	return false
}

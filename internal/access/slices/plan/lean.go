package plan

import (
	"fmt"
	"strings"
)

// emit turns what the cells are to become into writes. No slice is written
// twice in one plan: what does not fit waits for the next. The first thing that
// takes always fits once there is nothing to add.
func (p *planner) emit(pool []*cell) {
	for i := range p.cells {
		if c := &p.cells[i]; c.end {
			p.end(c, pool)
		}
	}
	for _, m := range p.moves {
		p.move(m, pool)
	}
	if !p.alone {
		for _, c := range pool {
			p.drop(c, pool)
		}
		p.tidy()
	}
	for i := range p.cells {
		c := &p.cells[i]
		if len(c.add) == 0 && c.lean == "" {
			continue
		}
		want := *c.Slice
		want.Hints = hint(want.Hints, want.Zone) // somebody may have taken it
		w := Write{Op: UpdateSlice}
		for _, z := range c.add {
			want.Hints = with(want.Hints, z)
		}
		if len(c.add) > 0 {
			w.Why = "adopts " + strings.Join(c.add, ", ")
		}
		if c.lean != "" {
			want.Lean = c.lean
		}
		w.Slice = want
		p.first = append(p.first, w)
	}
}

// end plans that an endpoint turns unready.
func (p *planner) end(c *cell, pool []*cell) {
	if !p.support(c, "", pool, false) {
		return
	}
	for _, h := range c.Hints {
		if p.needed(h, pool) && !p.support(c, h, pool, false) {
			return
		}
	}
	p.support(c, "", pool, true)
	for _, h := range c.Hints {
		if p.needed(h, pool) {
			p.support(c, h, pool, true)
		}
	}
	want := *c.Slice
	want.Ready, want.Hints = false, nil
	if c.Zone != "" {
		want.Hints = []string{c.Zone}
	}
	w := Write{Op: UpdateSlice, Takes: true, Why: "unready"}
	if !c.own {
		want.UnreadyBy = p.self.Node
		w.Why = fmt.Sprintf("marked unready: neither the agent nor the apiserver of %s has given a sign of life for %s", c.Node, p.cfg.Lapse)
	}
	w.Slice = want
	c.taken = true
	p.then = append(p.then, w)
}

// drop plans that an adopter gives zones back.
func (p *planner) drop(c *cell, pool []*cell) {
	want := *c.Slice
	want.Hints = hint(want.Hints, want.Zone)
	var gone []string
	for _, z := range c.drop {
		if p.needed(z, pool) {
			if !p.support(c, z, pool, false) {
				continue
			}
			p.support(c, z, pool, true)
		}
		want.Hints = without(want.Hints, z)
		gone = append(gone, z)
	}
	if len(gone) == 0 || c.taken || len(c.add) > 0 || c.lean != "" {
		return
	}
	c.taken = true
	p.then = append(p.then, Write{Op: UpdateSlice, Slice: want, Takes: true, Why: "gives back " + strings.Join(gone, ", ")})
}

// tidy removes the own slice of a family that the node has no more. Unready
// endpoints serve nobody, so nothing is leaned upon.
func (p *planner) tidy() {
	for i := range p.cells {
		c := &p.cells[i]
		if c.own && !c.Ready && p.self.address(c.Family) == "" && len(p.self.Addresses) > 0 {
			p.then = append(p.then, Write{Op: DeleteSlice, Slice: *c.Slice, Takes: true, Why: "the node has no address of this family"})
		}
	}
}

// needed says that clients depend on hints of the zone, and somebody can have
// them.
func (p *planner) needed(zone string, pool []*cell) bool {
	if !contains(p.zones, zone) {
		return false
	}
	for _, w := range pool {
		if !w.held && w.room() || w.Hinted(zone) || contains(w.add, zone) {
			return true
		}
	}
	return false
}

// support finds who goes on serving a zone (or everybody: "") when c stops, and
// with mark leans on it: also on who gets a hint in this plan and is written
// anyway, for others are told by it who is about to go (see planner.prefer).
func (p *planner) support(c *cell, zone string, pool []*cell, mark bool) bool {
	if c.taken || len(c.add) > 0 || c.lean != "" {
		return false // one write a plan
	}
	var best *cell
	for _, w := range pool {
		if w == c || w.held || w.taken || w.end || contains(w.drop, zone) {
			continue
		}
		if zone != "" && !w.Hinted(zone) && !contains(w.add, zone) {
			continue
		}
		if best == nil || len(w.add) > 0 && len(best.add) == 0 || w.lean != "" && best.lean == "" && len(best.add) == 0 {
			best = w
		}
	}
	if best == nil {
		return false
	}
	if mark {
		best.relyOn(c)
	}
	return true
}

// relyOn has the write of c say that somebody wants to end o as it is.
func (c *cell) relyOn(o *cell) {
	if !strings.Contains(c.lean, o.Name+"@") {
		c.lean = strings.TrimPrefix(c.lean+","+o.Name+"@"+o.Version, ",")
	}
}

// reliedOn says that somebody wanted to end o as it is, relying on c. It cannot
// be so both ways: the later of the two leans changed what the other names.
func (c *cell) reliedOn(o *cell) bool {
	return c.Lean != "" && contains(strings.Split(c.Lean, ","), o.Name+"@"+o.Version)
}

package plan

import (
	"fmt"
	"slices"
)

// Shared is what the holder of the Lease has to write, in order. An empty list
// says that there is no need to take the Lease. Before it is acted upon, v has
// been read anew, linearizably, all of it except Nodes, after the Lease was
// taken. After the writes, or the first that failed, it is called again on what
// is read then.
func Shared(cfg *Settings, self *Self, v *View, f *Facts) []Write {
	if f.Rival != "" {
		return nil
	}
	p := planner{cfg: cfg, self: self, v: v, f: f, zones: inhabited(v)}
	for _, family := range families {
		p.family(family)
	}
	all := p.writes()
	all = append(all, p.combined(len(all) > 0)...)
	all = append(all, p.service()...)
	return append(all, p.endpoints()...)
}

// Withdraw is the part of Shared by which the own endpoint turns unready, for an
// owner that cannot get the Lease. It asks for the same fresh view.
func Withdraw(cfg *Settings, self *Self, v *View, f *Facts) []Write {
	if f.Rival != "" || self.Health != Unready {
		return nil
	}
	p := planner{cfg: cfg, self: self, v: v, f: f, zones: inhabited(v), alone: true}
	for _, family := range families {
		p.family(family)
	}
	return p.writes()
}

// planner puts one plan together.
type planner struct {
	cfg  *Settings
	self *Self
	v    *View
	f    *Facts
	// zones must be hinted.
	zones []string
	// alone: nothing but the own withdrawal, and what it needs.
	alone bool
	// first are writes that add or lean, then those that take.
	first, then []Write
	cells       []cell
	moves       []move
}

func (p *planner) writes() []Write { return append(p.first, p.then...) }

// cell is one slice of a family while it is planned.
type cell struct {
	*Slice
	own bool // this agent's
	// fit: ready, and nothing known against it.
	fit    bool
	lapsed bool
	quiet  bool
	// held: it should be unready, and cannot be made so now. It keeps what it
	// serves and is given nothing, and nobody relies on it.
	held   bool
	steady bool
	// add are hints to be added, drop to be taken away, lean what relies on it.
	add, drop []string
	lean      string
	// end: the endpoint is to be unready.
	end   bool
	taken bool // a write that takes is planned
	// mended is the zone that it gets its hint back for; all else waits.
	mended string
}

// room says that one more zone can be hinted.
func (c *cell) room() bool { return len(hint(c.Hints, c.Zone))+len(c.add) < MaxHints }

// serves says that the zone's clients are sent here, as things stand.
func (c *cell) serves(zone string) bool { return c.Ready && c.Hinted(zone) }

func (p *planner) family(family Family) {
	p.load(family)
	p.mend()
	pool := p.pool()
	if len(pool) == 0 {
		p.restore(family)
		return
	}
	p.adopt(pool)
	if pool[0].fit {
		p.doom()
	}
	p.emit(pool)
}

// load makes cells of the slices of a family.
func (p *planner) load(family Family) {
	p.cells, p.moves = make([]cell, 0, len(p.v.Slices)), nil
	for i := range p.v.Slices {
		s := &p.v.Slices[i]
		if s.Owner != Ours || s.Family != family {
			continue
		}
		c := cell{Slice: s, own: s.Name == SliceName(p.self.Node, family)}
		c.lapsed, c.quiet = p.lapsed(s), p.quiet(s)
		c.steady, c.held = contains(p.f.Steady, s.Name), p.held(s.Node)
		c.fit = s.Ready && s.Zone != "" && s.Hinted(s.Zone) && !c.lapsed && !(c.own && p.goes(family))
		p.cells = append(p.cells, c)
	}
}

// held says that a slice of the node, of either family, cannot be made unready now.
// They are held together: else each family's turn to be tried has the zones
// adopted, and the others undo it.
func (p *planner) held(node string) bool {
	return contains(p.f.Held, SliceName(node, IPv4)) || contains(p.f.Held, SliceName(node, IPv6))
}

// goes says that the own endpoint should be unready.
func (p *planner) goes(family Family) bool {
	return p.self.Health == Unready || p.self.address(family) == "" && len(p.self.Addresses) > 0
}

// lapsed wants the two Leases to be, in the view at hand, what stood still, and
// the endpoint not to have turned ready since. Who is refused to withdraw judges
// nobody: what relies on its own endpoint could be adopted, and not be ended.
func (p *planner) lapsed(s *Slice) bool {
	if len(p.f.Held) > 0 {
		return false
	}
	for i := range p.f.Lapsed {
		l := &p.f.Lapsed[i]
		if l.Node == s.Node {
			return token(p.v, Agent, l.Agent) == l.AgentToken && token(p.v, Identity, l.Identity) == l.IdentityToken &&
				(!s.Ready || slices.Contains(l.Ready, Standing{s.Name, s.ReadyFrom}))
		}
	}
	return false
}

// quiet wants the Lease to be, in the view at hand, what stood still: a watch
// may be behind it.
func (p *planner) quiet(s *Slice) bool {
	for i := range p.f.Quiet {
		if q := &p.f.Quiet[i]; q.Node == s.Node {
			return token(p.v, Agent, q.Agent) == q.Token
		}
	}
	return false
}

func token(v *View, role Role, name string) string {
	if l := v.lease(role, name); l != nil {
		return l.Token
	}
	return ""
}

// pool is who may serve: the fit, and then the held, or where nobody is fit
// whoever is ready.
func (p *planner) pool() []*cell {
	fit, ready := make([]*cell, 0, len(p.cells)), make([]*cell, 0, len(p.cells))
	var held []*cell
	for i := range p.cells {
		c := &p.cells[i]
		able := c.Ready && c.Zone != "" && c.mended == ""
		switch {
		case c.fit:
			fit = append(fit, c)
		case able && c.held:
			held = append(held, c)
		}
		if able {
			ready = append(ready, c)
		}
	}
	if len(fit) > 0 {
		return append(fit, held...)
	}
	for _, c := range ready {
		c.held = false // all are alike
	}
	return ready
}

// restore makes one endpoint ready when none is, which no agent can have
// brought about: somebody deleted or changed slices by hand. An apiserver that
// is unwell may answer; an empty list never does.
func (p *planner) restore(family Family) {
	if p.alone || p.reconciled(family) || slices.ContainsFunc(p.cells, func(c cell) bool { return c.Ready }) {
		return
	}
	var best *cell
	for i := range p.cells {
		c := &p.cells[i]
		switch {
		case c.Zone == "" || c.mended != "":
		case best == nil, best.lapsed && !c.lapsed:
			best = c
		case best.lapsed == c.lapsed && best.quiet && !c.quiet:
			best = c
		}
	}
	if best == nil {
		return
	}
	want := *best.Slice
	want.Ready, want.UnreadyBy, want.Hints = true, "", []string{want.Zone}
	p.first = append(p.first, Write{Op: UpdateSlice, Slice: want, Why: "ready as a last resort: no endpoint was"})
}

// reconciled says that the apiservers' own slice has a ready endpoint.
func (p *planner) reconciled(family Family) bool {
	c := p.v.Combined
	if c == nil || c.Owner != Reconciler || c.Family != family {
		return false
	}
	for i := range c.Members {
		if c.Members[i].Ready {
			return true
		}
	}
	return false
}

// mend gives back what somebody took from a slice, for its owner may not be
// there: the hint for its zone, and the zone, which the slice kubernetes
// remembers. One endpoint without them switches zones off for everybody.
func (p *planner) mend() {
	for i := range p.cells {
		c := &p.cells[i]
		if zone := p.zoneOf(c); !p.alone && zone != "" && !c.Hinted(zone) {
			want := *c.Slice
			want.Zone, want.Hints = zone, hint(want.Hints, zone)
			p.first = append(p.first, Write{Op: UpdateSlice, Slice: want, Why: "zone " + zone + " is hinted again; somebody had taken it"})
			c.mended = zone
		}
	}
}

// zoneOf is the zone of a slice, or what is remembered of it.
func (p *planner) zoneOf(c *cell) string {
	if c.Zone != "" || p.v.Combined == nil {
		return c.Zone
	}
	for _, m := range p.v.Combined.Members {
		if m.Node == c.Node {
			return m.Zone
		}
	}
	return ""
}

// doom marks what has to become unready, and what is left of the unready.
func (p *planner) doom() {
	for i := range p.cells {
		c := &p.cells[i]
		c.end = c.Ready && c.mended == "" && !c.held && (c.lapsed || c.own && p.goes(c.Family))
		if p.alone {
			c.end = c.end && c.own
		}
	}
}

// service sets trafficDistribution once there are zones to tell apart, and only
// where traffic would not stay in them.
func (p *planner) service() []Write {
	s := p.v.Service
	if p.cfg.Traffic == "" || s.Version == "" || !p.anyReady() {
		return nil
	}
	if s.Traffic == p.cfg.Traffic || slices.Contains(p.cfg.Honoured, s.Traffic) {
		return nil
	}
	return []Write{{
		Op: PatchService, Service: s, Traffic: p.cfg.Traffic,
		Why: fmt.Sprintf("trafficDistribution is %s, was %q", p.cfg.Traffic, s.Traffic),
	}}
}

func (p *planner) anyReady() bool {
	for i := range p.v.Slices {
		if s := &p.v.Slices[i]; s.Owner == Ours && s.Ready && s.Zone != "" {
			return true
		}
	}
	return false
}

func contains(all []string, name string) bool {
	for _, a := range all {
		if a == name {
			return true
		}
	}
	return false
}

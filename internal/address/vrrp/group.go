package vrrp

import (
	"errors"
	"net/netip"
	"time"
)

// Group is virtual routers that move together, as a sync group of keepalived
// does: the inside and the outside of a gateway, or both families of a name.
//
//   - They become active when every one of them may: a holder that has lost
//     one of its links only keeps them all.
//   - When one has to give way to a better router, or lapses, the others
//     resign.
//   - When one is at fault, all are.
//
// The addresses belong together on every router, so the peers must be grouped
// in the same way; otherwise a peer that keeps one of them keeps us from
// taking the others.
type Group struct {
	members []*Machine
	faults  []bool
	out     []Step
}

// Step is an action of one member, by its place in the group.
type Step struct {
	Member int
	Action Action
}

// NewGroup makes a group of machines, which are the group's from then on. A
// group of one behaves like its machine.
func NewGroup(members ...*Machine) (*Group, error) {
	if len(members) == 0 {
		return nil, errors.New("group of no virtual routers: name at least one")
	}
	for _, m := range members {
		if m.state != Initialize {
			return nil, errors.New("group of a virtual router that has been started: make the group first")
		}
		m.grouped = len(members) > 1
	}
	return &Group{members: members, faults: make([]bool, len(members))}, nil
}

// Member returns a machine to ask, not to drive.
func (g *Group) Member(i int) *Machine { return g.members[i] }

// Len returns how many members there are.
func (g *Group) Len() int { return len(g.members) }

// State returns the state of the group: Initialize if any member is, else
// that of the least of them.
func (g *Group) State() State {
	rank := [...]int{Initialize: 0, Backup: 1, Yielding: 2, Active: 3}
	least := Active
	for _, m := range g.members {
		if rank[m.state] < rank[least] {
			least = m.state
		}
	}
	return least
}

// Next returns the earliest Next of the members.
func (g *Group) Next() (at time.Duration, ok bool) {
	for _, m := range g.members {
		if t, armed := m.Next(); armed && (!ok || t < at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// Start starts every member; see Machine.Start.
func (g *Group) Start(now time.Duration) []Step { return g.each(now, (*Machine).Start) }

// Tick does what is due; see Machine.Tick.
func (g *Group) Tick(now time.Duration) []Step { return g.each(now, (*Machine).Tick) }

// Release releases the group; see Machine.Release.
func (g *Group) Release(now time.Duration) []Step { return g.each(now, (*Machine).Release) }

// Stop stops the group; see Machine.Stop.
func (g *Group) Stop(now time.Duration) []Step { return g.each(now, (*Machine).Stop) }

// SetPriority sets the priority of every member; see Machine.SetPriority.
func (g *Group) SetPriority(now time.Duration, p uint8) []Step {
	return g.each(now, func(m *Machine, now time.Duration) []Action { return m.SetPriority(now, p) })
}

// Receive hands an advert to a member; see Machine.Receive.
func (g *Group) Receive(now time.Duration, member int, a Advert, src netip.Addr) []Step {
	g.out = g.out[:0]
	g.awake(now)
	g.add(member, g.members[member].Receive(now, a, src))
	return g.settle(now)
}

// Fault says that a member cannot serve, or can again; see Machine.Fault. The
// group is back when all are.
func (g *Group) Fault(now time.Duration, member int, fault bool) []Step {
	g.out = g.out[:0]
	g.faults[member] = fault
	faulted := false
	for _, f := range g.faults {
		faulted = faulted || f
	}
	for i, m := range g.members {
		g.add(i, m.Fault(now, faulted))
	}
	return g.settle(now)
}

func (g *Group) each(now time.Duration, do func(*Machine, time.Duration) []Action) []Step {
	g.out = g.out[:0]
	g.awake(now)
	for i, m := range g.members {
		g.add(i, do(m, now))
	}
	return g.settle(now)
}

// awake lets every member notice that the process stood still before one of
// them makes the others resign by an advert.
func (g *Group) awake(now time.Duration) {
	g.all(func(m *Machine) { m.awake(now) })
}

func (g *Group) add(member int, actions []Action) {
	for _, a := range actions {
		g.out = append(g.out, Step{member, a})
	}
}

// all lets every member do something outside its own calls.
func (g *Group) all(do func(*Machine)) {
	for i, m := range g.members {
		m.out = m.out[:0]
		do(m)
		g.add(i, m.out)
	}
}

// settle moves the members that are out of step with the others.
func (g *Group) settle(now time.Duration) []Step {
	switch c := g.count(); {
	case len(g.members) == 1:
	case c.wants > 0 && c.wants+c.active == len(g.members):
		g.all(func(m *Machine) {
			if m.state == Backup {
				m.take(now)
			}
		})
	case c.unclaimed > 0 && c.unclaimed == len(g.members):
		g.all(func(m *Machine) { m.resume(now) })
	case c.unclaimed > 0 && c.unclaimed == c.yielding:
		g.all(func(m *Machine) {
			if m.state == Yielding {
				m.leave(now)
			}
		})
	case c.active > 0 && c.active < len(g.members):
		g.all(func(m *Machine) {
			if m.state == Active {
				m.resign(now, Backup, CauseGroup)
			}
		})
	}
	return g.out
}

type census struct{ active, yielding, unclaimed, wants int }

func (g *Group) count() (c census) {
	for _, m := range g.members {
		switch {
		case m.state == Active:
			c.active++
		case m.state == Yielding:
			c.yielding++
			if m.yielding.unclaimed {
				c.unclaimed++
			}
		case m.state == Backup && m.backup.wants:
			c.wants++
		}
	}
	return c
}

package vip

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
	"github.com/holdfast-ha/holdfast/internal/address/gate"
	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// gate is what the gate has to know of the addresses.
func (s *Settings) gate() gate.Config {
	c := gate.Config{Table: s.Table}
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.VRRP == nil {
			continue
		}
		if !g.VRRP.accepts() {
			c.Refused = append(c.Refused, g.addresses...)
		}
		if g.VRRP.VirtualMAC {
			c.Virtual, c.VirtualPrefix = append(c.Virtual, g.addresses...), link.VirtualPrefix
		}
	}
	return c
}

func newOwner(a *agent, s *GroupSettings) *owner {
	name := s.Name
	if s.VRRP.Sync != "" {
		name = s.VRRP.Sync
	}
	return &owner{agent: a, name: name, origin: time.Now(), inbox: newInbox(), noted: map[string]bool{}, priority: s.VRRP.Priority}
}

// add makes the virtual routers of a group, one for each family.
func (o *owner) add(g *group) error {
	if other := o.groups; len(other) > 0 && other[0].settings.VRRP.Priority != g.settings.VRRP.Priority {
		return fmt.Errorf("vrrp.priority: %d, and group %s, of the same sync, has %d; they move together, so make them equal",
			g.settings.VRRP.Priority, other[0].settings.Name, other[0].settings.VRRP.Priority)
	}
	o.groups = append(o.groups, g)
	for _, f := range g.settings.families() {
		c := g.settings.router(f)
		m := &member{
			place: len(o.members), group: g, router: c, faults: map[string]string{},
			sent: map[uint8]uint64{}, notes: map[vrrp.NoteKind]uint64{}, rejected: map[vrrp.Reason]uint64{}, explained: map[string]bool{},
		}
		m.virtual = o.agent.virtual(g.settings, f)
		holder, err := hold.New(hold.Config{
			Interface: g.settings.Interface, Addresses: c.Addresses, Virtual: m.virtual, Log: o.agent.log,
			Quiet: !g.settings.announces(announceARP), Heard: o.rival(m),
		}, o.agent.door, o.agent.links)
		if err != nil {
			return err
		}
		m.holder = o.agent.present(g.settings, holder, c.Addresses)
		m.faults[faultInterface], m.faults[faultProbe] = "not looked at yet", "not known yet whether a stranger has the address"
		if reason, _ := g.gate.verdict(); reason != "" {
			m.faults[faultHealth] = reason
		}
		o.members = append(o.members, m)
	}
	return nil
}

// virtual is the interface of a virtual router, without a name if it has none.
func (a *agent) virtual(g *GroupSettings, f vrrp.Family) link.Virtual {
	if !g.VRRP.VirtualMAC {
		return link.Virtual{}
	}
	return link.Virtual{
		Name: link.VirtualName(int(f), g.VRRP.VRID, g.Interface), Parent: g.Interface,
		MAC: f.MAC(uint8(g.VRRP.VRID)), Owner: a.settings.Table,
	}
}

func (g *GroupSettings) announces(what string) bool {
	for _, a := range g.Announce {
		if a == what {
			return true
		}
	}
	return false
}

// rival logs who else claims the addresses while they are held, once for each.
func (o *owner) rival(m *member) func(announce.Heard) {
	return func(h announce.Heard) {
		o.inbox.put(func(now time.Duration) {
			if h.Kind == announce.Claim {
				m.claimed = now
			}
			if h.Kind != announce.Claim || o.router.Member(m.place).State() != vrrp.Active {
				return
			}
			key := "rival/" + h.Address.String() + "/" + h.MAC.String()
			if !o.noted[key] {
				o.noted[key] = true
				o.agent.log.Warn("another station claims the address; it is announced again", keyGroup, m.group.settings.Name, keyAddress, h.Address, keyFrom, h.MAC)
			}
		})
	}
}

// join makes the group of routers once all members are there.
func (o *owner) join() error {
	var machines []*vrrp.Machine
	for _, m := range o.members {
		machines = append(machines, vrrp.New(m.router))
	}
	router, err := vrrp.NewGroup(machines...)
	if err != nil {
		return fmt.Errorf("group %s: %w", o.name, err)
	}
	o.router = router
	for _, m := range o.members {
		router.Fault(0, m.place, true)
	}
	return nil
}

// of implements contender.
func (o *owner) of() []*group { return o.groups }

// ailing implements contender.
func (o *owner) ailing(g *group) { o.inbox.put(func(time.Duration) { o.health(g) }) }

// status implements contender.
func (o *owner) status(ctx context.Context) ([]GroupStatus, error) {
	answer := make(chan []GroupStatus, 1)
	o.inbox.put(func(time.Duration) { answer <- o.snapshot() })
	select {
	case s := <-answer:
		return s, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("group %s: the loop does not answer: %w", o.name, context.Cause(ctx))
	}
}

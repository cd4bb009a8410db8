package plan

import (
	"cmp"
	"slices"
)

// combined plans the slice kubernetes: all addresses, for readers by name. It
// follows what the slices will say once the writes of this plan are done.
// While the apiservers' reconciler may be writing it, nothing but the probe is
// put on it; it is taken over, in one write, when nothing else is left to do.
// The last apiserver that ends its reconciler in order leaves it empty: then
// nobody loses by a takeover at once, and one that writes it again is seen.
func (p *planner) combined(busy bool) []Write {
	slot := p.v.Combined
	if !p.anyReady() {
		return nil
	}
	switch {
	case slot == nil:
		return p.publish(Combined{}, CreateCombined, "published for readers by name")
	case slot.Owner == Ours:
		return p.publish(*slot, UpdateCombined, "follows the endpoints")
	case slot.Owner != Reconciler || busy:
		return nil
	case len(slot.Members) == 0:
		return p.publish(*slot, UpdateCombined, "taken over at once: the apiservers' reconciler had left it empty")
	case p.f.Phase == Unprobed && slot.Version == p.f.Probed:
		probe := *slot
		probe.Probe = p.self.Node
		return []Write{{Op: ProbeCombined, Combined: probe, Why: "asks with a label whether the apiservers' reconciler still writes"}}
	case p.f.Phase == Dormant && slot.Version == p.f.Probed && slot.Probe != "" && len(Uncovered(p.v)) == 0:
		return p.publish(*slot, UpdateCombined, "taken over from the apiservers' reconciler, which writes no more")
	}
	return nil
}

func (p *planner) publish(slot Combined, op Op, why string) []Write {
	family := p.readersFamily(slot)
	want := Combined{Version: slot.Version, Owner: Ours, Family: family, Members: onePort(p.members(family))}
	switch {
	case op == UpdateCombined && slot.Owner != Ours && family != slot.Family && len(slot.Members) > 0:
		return nil // the address type of a slice cannot be changed, and this one is not ours to delete
	case op == UpdateCombined && family != slot.Family:
		return []Write{{Op: DeleteCombined, Combined: slot, Takes: true, Why: "makes room for " + string(family)}}
	case op == UpdateCombined && want.equal(&slot):
		return nil
	}
	return []Write{{Op: op, Combined: want, Takes: slot.Owner == Reconciler, Why: why}}
}

// readersFamily keeps the family of the slice while there is an address of it.
func (p *planner) readersFamily(slot Combined) Family {
	for _, f := range []Family{slot.Family, IPv4} {
		if f != "" && slices.ContainsFunc(p.v.Slices, func(s Slice) bool { return s.Family == f && isMember(&s) }) {
			return f
		}
	}
	return IPv6
}

// members are the endpoints of a family as they are after this plan.
func (p *planner) members(family Family) []Member {
	all := make([]Member, 0, len(p.v.Slices))
	for i := range p.v.Slices {
		s := p.planned(&p.v.Slices[i])
		if s == nil || s.Family != family || !isMember(s) {
			continue
		}
		all = append(all, Member{Address: s.Address, Node: s.Node, Zone: s.Zone, Port: s.Port, Ready: s.Ready})
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Node, b.Node)) })
	return all
}

// onePort leaves the members of one port, for a slice has one list of ports for
// all its endpoints. The object Endpoints can name them all.
func onePort(all []Member) []Member {
	port := commonPort(all)
	return slices.DeleteFunc(all, func(m Member) bool { return m.Port != port })
}

// commonPort is the port that some ready member has, of those the one that most
// have, of those the lowest.
func commonPort(all []Member) int32 {
	var best int32
	var most, ready int
	for i := range all {
		n, r := 0, 0
		for j := range all {
			if all[j].Port == all[i].Port {
				n++
				if all[j].Ready {
					r = 1
				}
			}
		}
		if c := cmp.Or(cmp.Compare(r, ready), cmp.Compare(n, most), cmp.Compare(best, all[i].Port)); best == 0 || c > 0 {
			best, most, ready = all[i].Port, n, r
		}
	}
	return best
}

// isMember says that readers are told of a slice.
func isMember(s *Slice) bool { return s.Owner == Ours && s.Address != "" && s.Zone != "" }

// planned is what a slice becomes; nil is deleted.
func (p *planner) planned(s *Slice) *Slice {
	for _, list := range [][]Write{p.first, p.then} {
		for i := range list {
			switch w := &list[i]; {
			case w.Slice.Name != s.Name:
			case w.Op == DeleteSlice:
				return nil
			default:
				return &w.Slice
			}
		}
	}
	return s
}

func (c *Combined) equal(o *Combined) bool {
	return c.Owner == o.Owner && c.Family == o.Family && c.Probe == o.Probe && c.Odd == o.Odd && slices.Equal(c.Members, o.Members)
}

// Uncovered lists the addresses of the reconciler's slice that no slice of ours
// has. It is not taken over while there are any: their agents are not there.
func Uncovered(v *View) []string {
	if v.Combined == nil || v.Combined.Owner != Reconciler {
		return nil
	}
	var all []string
	for _, m := range v.Combined.Members {
		if !slices.ContainsFunc(v.Slices, func(s Slice) bool { return s.Owner == Ours && s.Address == m.Address }) {
			all = append(all, m.Address)
		}
	}
	return all
}

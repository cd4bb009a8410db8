package plan

import (
	"fmt"
	"slices"
)

// Own is what the owner writes of its own slices without any lock: all of it
// adds. The view may be a watch's, however late: a write that is based on an
// old version fails and does nothing.
func Own(cfg *Settings, self *Self, v *View, f *Facts) []Write {
	if f.Rival != "" {
		return nil
	}
	var all []Write
	for _, family := range families {
		ip := self.address(family)
		if ip == "" {
			continue
		}
		if w, ok := ownSlice(self, v, family, ip); ok {
			all = append(all, w)
		}
	}
	return all
}

func ownSlice(self *Self, v *View, family Family, ip string) (Write, bool) {
	name := SliceName(self.Node, family)
	s := v.slice(name)
	switch {
	case s == nil && (self.Zone == "" || self.Health != Ready):
		return Write{}, false // an endpoint that was never ready has nothing to say
	case s == nil:
		return Write{Op: CreateSlice, Why: "published", Slice: Slice{
			Name: name, Owner: Ours, Family: family, Node: self.Node, Address: ip, Port: self.Port,
			Zone: self.Zone, Hints: []string{self.Zone}, Ready: true,
		}}, true
	case s.Owner != Ours || s.Family != family:
		return Write{}, false
	}
	want := *s
	want.Node, want.Address, want.Port, want.Odd = self.Node, ip, self.Port, false
	if self.Zone != "" {
		want.Zone = self.Zone
	}
	if want.Zone == "" {
		return Write{}, false
	}
	switch {
	case self.Health == Ready && !s.Ready:
		want.Ready, want.UnreadyBy, want.Hints, want.ReadyFrom = true, "", []string{want.Zone}, s.Version
	case !s.Ready:
		want.Hints = []string{want.Zone}
	default:
		want.Hints = hint(s.Hints, want.Zone)
	}
	if want.equal(s) {
		return Write{}, false
	}
	return Write{Op: UpdateSlice, Slice: want, Why: ownReason(s, &want)}, true
}

// hint adds the endpoint's own zone to its hints. Were they full, the last one
// has to go; whoever holds the Lease finds it another adopter.
func hint(hints []string, zone string) []string {
	if slices.Contains(hints, zone) {
		return hints
	}
	return with(hints[:min(len(hints), MaxHints-1)], zone)
}

// with is hints and one more, sorted, in memory of its own.
func with(hints []string, zone string) []string {
	all := append(slices.Clone(hints), zone)
	slices.Sort(all)
	return all
}

func without(hints []string, zone string) []string {
	return slices.DeleteFunc(slices.Clone(hints), func(h string) bool { return h == zone })
}

func ownReason(s, want *Slice) string {
	switch {
	case want.Ready && !s.Ready && s.UnreadyBy != "":
		return fmt.Sprintf("ready again; %s had marked it unready", s.UnreadyBy)
	case want.Ready && !s.Ready:
		return "ready"
	case s.Zone != want.Zone:
		return fmt.Sprintf("zone is %s, was %q", want.Zone, s.Zone)
	case s.Address != want.Address:
		return fmt.Sprintf("address is %s, was %q", want.Address, s.Address)
	}
	return "put right"
}

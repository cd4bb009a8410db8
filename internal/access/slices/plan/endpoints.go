package plan

import (
	"cmp"
	"slices"
)

// Target is an address of the object Endpoints, with the port https.
type Target struct {
	Address string
	Port    int32
}

// Endpoints is what matters of the object Endpoints (core/v1) of the Service
// kubernetes, which readers know that are older than EndpointSlices.
//
// Unready addresses are left out, as the apiservers' reconciler does. It keeps
// what it finds under notReadyAddresses, where not ready trumps ready
// (reconcilers, doReconcile; RepackSubsets): given back with an address in there
// the object, and the slice that is made from it, would never have it ready again.
type Endpoints struct {
	Version string
	// Targets are its ready addresses, sorted.
	Targets []Target
	// Odd says that it is not in the shape we write.
	Odd bool
}

// endpoints plans the object Endpoints: the ready members of the slice
// kubernetes, and like that only while the slice is ours. It is never emptied.
func (p *planner) endpoints() []Write {
	c, is := p.v.Combined, p.v.Endpoints
	if !p.v.EndpointsKnown || c == nil || c.Owner != Ours {
		return nil
	}
	want := Endpoints{Targets: p.targets(p.readersFamily(*c))}
	switch {
	case len(want.Targets) == 0:
		return nil
	case is == nil:
		return []Write{{Op: CreateEndpoints, Endpoints: want, Why: "made for readers of the older object"}}
	case !is.Odd && slices.Equal(is.Targets, want.Targets):
		return nil
	}
	want.Version = is.Version
	return []Write{{Op: UpdateEndpoints, Endpoints: want, Takes: true, Why: "follows the endpoints"}}
}

// targets are the ready endpoints of a family as they are after this plan.
func (p *planner) targets(family Family) []Target {
	var all []Target
	for _, m := range p.members(family) {
		if m.Ready {
			all = append(all, Target{m.Address, m.Port})
		}
	}
	slices.SortFunc(all, func(a, b Target) int { return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Address, b.Address)) })
	return slices.Compact(all)
}

package sim

import (
	"slices"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// Endpoint is an endpoint as a datapath sees it.
type Endpoint struct {
	Address, Zone string
	Hints         []string
	Ready         bool
}

// Visible lists the endpoints of a family that kube-proxy and Cilium take for
// the Service kubernetes: those of slices that carry its name and are left to no
// other proxy. The slice kubernetes is among them while it is the apiservers'.
func Visible(v *plan.View, family plan.Family) []Endpoint {
	var all []Endpoint
	for i := range v.Slices {
		if s := &v.Slices[i]; s.Family == family {
			all = append(all, Endpoint{s.Address, s.Zone, s.Hints, s.Ready})
		}
	}
	if c := v.Combined; c != nil && c.Owner == plan.Reconciler && c.Family == family {
		for _, m := range c.Members {
			all = append(all, Endpoint{Address: m.Address, Zone: m.Zone, Ready: m.Ready})
		}
	}
	return all
}

// KubeProxy is where kube-proxy of Kubernetes 1.35 sends a node of a zone:
// pkg/proxy/topology.go, CategorizeEndpoints and topologyModeFromHints. Zones
// count only if every ready endpoint hints some zone and one hints this.
func KubeProxy(all []Endpoint, zone string) []Endpoint {
	var ready, here []Endpoint
	hinted := true
	for _, e := range all {
		if !e.Ready {
			continue
		}
		ready = append(ready, e)
		hinted = hinted && len(e.Hints) > 0
		if slices.Contains(e.Hints, zone) {
			here = append(here, e)
		}
	}
	if hinted && len(here) > 0 {
		return here
	}
	return ready
}

// Cilium119 is where Cilium up to 1.19 sends a node of a zone, by the rule that
// was found in production: one endpoint without zone or hint, ready or not,
// switches zones off for the whole Service. It is a twin of that sentence, not
// of Cilium's code, and has not been held against Cilium itself.
func Cilium119(all []Endpoint, zone string) []Endpoint {
	var ready, here []Endpoint
	zoned := true
	for _, e := range all {
		zoned = zoned && e.Zone != "" && len(e.Hints) > 0
		if !e.Ready {
			continue
		}
		ready = append(ready, e)
		if slices.Contains(e.Hints, zone) {
			here = append(here, e)
		}
	}
	if zoned && len(here) > 0 {
		return here
	}
	return ready
}

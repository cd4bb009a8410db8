package zonal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
)

// zones are what is known about where a Service's endpoints and clients are.
type zones struct {
	// ready counts the Service's ready endpoints by zone; nil is not known.
	// "" is where the endpoints' nodes have no zone.
	ready map[string]int
	// workers are the zones with nodes that are not of the control plane; nil
	// is not known.
	workers []string
}

// warnings are reasons why the mirror of a Service would not keep traffic in its
// zone, each with a remedy. The mirror is kept nevertheless.
func warnings(s *Service, d datapath.Datapath, z zones) (all []string) {
	if doubt := d.Doubt(deref(s.Spec.TrafficDistribution)); doubt != "" {
		all = append(all, doubt)
	}
	if p := s.Spec.InternalTrafficPolicy; p != nil && *p == core.ServiceInternalTrafficPolicyLocal {
		all = append(all, "internalTrafficPolicy Local: a proxy on a node without a pod of the Service reaches nobody; set Cluster")
	}
	if s.Spec.SessionAffinity == core.ServiceAffinityClientIP {
		all = append(all, "sessionAffinity ClientIP: all connections of one proxy go to one pod, for its address is all that the datapath sees; set None")
	}
	if z.ready == nil {
		return all
	}
	total := 0
	for _, n := range z.ready {
		total += n
	}
	switch {
	case total == 0:
		return append(all, "the Service has no ready endpoint")
	case z.ready[""] > 0:
		all = append(all, fmt.Sprintf("%d of %d ready endpoints have no zone, with which zones are ignored for all; label their nodes with topology.kubernetes.io/zone", z.ready[""], total))
	}
	if lacking := lacking(z); len(lacking) > 0 {
		all = append(all, fmt.Sprintf("no ready endpoint in zone %s: its proxies use those of other zones; run a replica in each zone (topologySpreadConstraints)", strings.Join(lacking, ", ")))
	}
	return all
}

// lacking are the zones with workers and no ready endpoint.
func lacking(z zones) (names []string) {
	for _, name := range z.workers {
		if name != "" && z.ready[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// zonesOf is what the view knows about a Service; known says that the
// endpoints of it were listed.
func (v *view) zonesOf(service Key, known bool) (z zones) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.listed["nodes"] {
		set := map[string]bool{}
		for _, n := range v.nodes {
			if !n.control {
				set[n.zone] = true
			}
		}
		z.workers = slices.Sorted(maps.Keys(set))
	}
	if !known {
		return z
	}
	z.ready = map[string]int{}
	for _, t := range v.ready {
		if t.service == service {
			for zone, n := range t.zones {
				z.ready[zone] += n
			}
		}
	}
	return z
}

package landing

import (
	"github.com/holdfast-ha/holdfast/internal/access/datapath"
)

// Cause is why connections of a node stray although its zone is hinted, with the
// remedy: d carries the traffic, and traffic is trafficDistribution of the Service.
func Cause(d datapath.Datapath, traffic string) string {
	doubt := d.Doubt(traffic)
	switch {
	case d.Kind == datapath.Cilium && doubt != "":
		return doubt
	case d.Kind == datapath.Cilium:
		return "Cilium on this node does not honour zones: set loadBalancer.serviceTopology=true in its Helm values, and restart its agent here"
	case doubt != "":
		return "kube-proxy on this node does not honour zones: restart it (and " + doubt + ")"
	}
	return "kube-proxy on this node does not honour zones: restart it"
}

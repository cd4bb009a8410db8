package zones

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// topologyMode is the older way to ask for traffic within zones.
const topologyMode = "service.kubernetes.io/topology-mode"

func auto(s *corev1.Service) bool { return strings.EqualFold(s.Annotations[topologyMode], "auto") }

var nodeWithoutZone = rule.Rule{
	ID: "HF-ZONE-017", Group: rule.EndpointsZones, Severity: rule.Warning,
	Title: "A node does not say its zone, where Services should keep to zones",
	Needs: []fact.Kind{fact.Services, fact.Nodes},
	Why: "Endpoints have the zone of their node's label. A node without it makes endpoints without a zone, and its own clients belong to " +
		"none: traffic goes to all zones alike, for that node or for the whole Service.",
	Remedy: "label every node with its zone",
	Drill:  "partial-split-kubernetes",
	Check:  checkNodeZones,
}

func checkNodeZones(f *fact.Facts) ([]rule.Finding, error) {
	wanted := ""
	for _, s := range f.Services.Items {
		if same(s.Object) || auto(s.Object) {
			wanted = s.Object.Namespace + "/" + s.Object.Name
			break
		}
	}
	if wanted == "" || len(f.Zones()) == 0 {
		return nil, fact.NotApplicable("no Service keeps to zones, or no node has one")
	}
	var all []rule.Finding
	for _, n := range f.Nodes.Items {
		if f.Zone(n.Object.Name) != "" {
			continue
		}
		all = append(all, rule.Finding{
			At: n.At.Field("metadata"), What: fmt.Sprintf("node %s has no label %s, and Services such as %s should keep to zones", n.Object.Name, fact.ZoneLabel, wanted),
			Effect: rule.Unending("a cut between two zones", share(len(f.Zones()))+" of the requests from this node fail"),
			Remedy: fmt.Sprintf("kubectl label node %s %s=ZONE", n.Object.Name, fact.ZoneLabel),
		})
	}
	return all, nil
}

var hintsWithheld = rule.Rule{
	ID: "HF-ZONE-019", Group: rule.EndpointsZones, Severity: rule.Warning,
	Title: "topology-mode Auto has no effect: too few endpoints for hints",
	Needs: []fact.Kind{fact.Services, fact.EndpointSlices, fact.Nodes},
	Why: "With topology-mode Auto the endpoints get hints only where each zone has its share of them, weighed by the CPUs of its nodes. Else " +
		"all hints are withheld without a word, and traffic goes to all zones.",
	Remedy: "use trafficDistribution, which needs no balance, or three endpoints a zone",
	Drill:  "zonal-gateway",
	Check:  checkHints,
}

func checkHints(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	asked := 0
	for _, s := range f.Services.Items {
		if !auto(s.Object) || len(f.Zones()) < 2 {
			continue
		}
		endpoints := ready(f, s.Object.Namespace, s.Object.Name)
		if len(endpoints) == 0 {
			continue
		}
		asked++
		hints := 0
		for _, e := range endpoints {
			if e.Hints != nil && len(e.Hints.ForZones) > 0 {
				hints++
			}
		}
		if hints > 0 {
			continue
		}
		all = append(all, rule.Finding{
			At:     s.At.Field("metadata", "annotations", topologyMode),
			What:   fmt.Sprintf("%s/%s asks for hints, and none of its %d ready endpoints has one", s.Object.Namespace, s.Object.Name, len(endpoints)),
			Effect: rule.Unending("a cut between two zones", share(len(f.Zones()))+" of the requests to this Service fail"),
			Remedy: fmt.Sprintf("kubectl -n %[1]s annotate service %[2]s %[3]s- && kubectl -n %[1]s patch service %[2]s --type merge -p '{\"spec\":{\"trafficDistribution\":\"PreferClose\"}}'", s.Object.Namespace, s.Object.Name, topologyMode),
		})
	}
	if asked == 0 {
		return nil, fact.NotApplicable("no Service with topology-mode Auto has endpoints in a cluster of several zones")
	}
	return all, nil
}

package zones

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// Rules lists the rules of the group.
func Rules() []rule.Rule {
	return []rule.Rule{
		unknownDistribution, leaseEndpoints, nobodyPublishes, noZone, orphanZone, witnessPublished, webhookTogether,
		dnsTogether, entryTogether, localOnly, countedEndpoints, blindReadiness, gatewayAllZones, shardsApart, nodeWithoutZone, hintsWithheld,
	}
}

var unknownDistribution = rule.Rule{
	ID: "HF-ZONE-001", Group: rule.EndpointsZones, Severity: rule.Warning,
	Title: "trafficDistribution has a value that this Cilium does not know",
	Needs: []fact.Kind{fact.Services}, OneOf: []fact.Kind{fact.DaemonSets, fact.Pods},
	Why: "Kubernetes 1.35 deprecates PreferClose in favour of PreferSameZone; Cilium 1.19 and older know only PreferClose and ignore the " +
		"new value without a word. Requests then go to all zones alike, and a cut between zones takes its share of them.",
	Remedy: "use PreferClose until Cilium knows the new value",
	Drill:  "zonal-gateway",
	Check:  checkDistribution,
}

// lastDeaf is the last minor of Cilium 1 that knows PreferClose only.
const lastDeaf = 19

func checkDistribution(f *fact.Facts) ([]rule.Finding, error) {
	agents := f.Components("cilium-agent")
	if len(agents) == 0 {
		return nil, fact.NotApplicable("no Cilium runs here")
	}
	if len(f.Components("kube-proxy")) > 0 {
		return nil, fact.NotApplicable("kube-proxy routes to Services here, not Cilium")
	}
	_, tag := fact.SplitImage(agents[0].Container.Image)
	var major, minor int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(tag, "v"), "%d.%d", &major, &minor); n < 2 {
		return nil, fact.Lacking("the image %s does not tell Cilium's version", agents[0].Container.Image)
	}
	if major > 1 || minor > lastDeaf {
		return nil, nil
	}
	zones := len(f.Zones())
	var all []rule.Finding
	for _, s := range f.Services.Items {
		d := s.Object.Spec.TrafficDistribution
		if d == nil || *d == "PreferClose" {
			continue
		}
		all = append(all, rule.Finding{
			At:     s.At.Field("spec", "trafficDistribution"),
			What:   fmt.Sprintf("trafficDistribution is %s, and Cilium %s knows PreferClose only", *d, tag),
			Effect: rule.Unending("a cut between two zones", share(zones)+" of the requests to this Service fail"),
			Remedy: fmt.Sprintf("kubectl -n %s patch service %s --type merge -p '{\"spec\":{\"trafficDistribution\":\"PreferClose\"}}'", s.Object.Namespace, s.Object.Name),
		})
	}
	return all, nil
}

// share is the part of requests that leave a zone when they go to all alike.
func share(zones int) string {
	if zones < 2 {
		return "those that leave their zone,"
	}
	return fmt.Sprintf("up to %d of %d", zones-1, zones)
}

package bgp

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// calicoOf lists Calico's objects of a kind, by either of its API groups.
func calicoOf(f *fact.Facts, kind string) []fact.Item[fact.Resource] {
	return append(f.CustomOf("projectcalico.org", kind), f.CustomOf("crd.projectcalico.org", kind)...)
}

// announcing lists the configurations by which Calico announces addresses of
// Services of type LoadBalancer.
func announcing(f *fact.Facts) []fact.Item[fact.Resource] {
	var all []fact.Item[fact.Resource]
	for _, c := range calicoOf(f, "BGPConfiguration") {
		if list, _ := c.Object.Get("spec", "serviceLoadBalancerIPs").([]any); len(list) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// balanced lists the Services of type LoadBalancer with a policy for outside
// traffic.
func balanced(f *fact.Facts, policy corev1.ServiceExternalTrafficPolicy) []fact.Item[corev1.Service] {
	var all []fact.Item[corev1.Service]
	for _, s := range f.Services.Items {
		set := s.Object.Spec.ExternalTrafficPolicy
		if set == "" {
			set = corev1.ServiceExternalTrafficPolicyCluster
		}
		if s.Object.Spec.Type == corev1.ServiceTypeLoadBalancer && set == policy {
			all = append(all, s)
		}
	}
	return all
}

var errNotAnnounced = fact.NotApplicable("Calico announces no Service of type LoadBalancer")

var aggregated = rule.Rule{
	ID: "HF-BGP-007", Group: rule.BGP, Severity: rule.Error,
	Title: "Calico announces whole ranges for Services that only some nodes serve",
	Needs: []fact.Kind{fact.Custom, fact.Services},
	Why: "With serviceLoadBalancerAggregation, which is on unless disabled, every node announces the whole range. The router then spreads " +
		"to nodes without a pod as well, and those drop what externalTrafficPolicy Local does not let them pass on: the Service answers now and then.",
	Remedy: "set serviceLoadBalancerAggregation: Disabled",
	Drill:  "bgp-drain",
	Check:  checkAggregated,
}

func checkAggregated(f *fact.Facts) ([]rule.Finding, error) {
	local := balanced(f, corev1.ServiceExternalTrafficPolicyLocal)
	configurations := announcing(f)
	if len(configurations) == 0 || len(local) == 0 {
		return nil, errNotAnnounced
	}
	var found []rule.Finding
	for _, c := range configurations {
		if c.Object.Text("spec", "serviceLoadBalancerAggregation") == "Disabled" {
			continue
		}
		found = append(found, rule.Finding{
			At: c.At.Field("spec", "serviceLoadBalancerIPs"),
			What: fmt.Sprintf("the ranges are announced whole, and %d Services have externalTrafficPolicy Local, such as %s/%s",
				len(local), local[0].Object.Namespace, local[0].Object.Name),
			Effect: rule.Unending("as it is set up", "connections that the router sends to a node without a pod fail"),
			Remedy: "kubectl patch bgpconfiguration " + c.At.Object.Name + " --type merge -p '{\"spec\":{\"serviceLoadBalancerAggregation\":\"Disabled\"}}'",
		})
	}
	return found, nil
}

var natBetweenHosts = rule.Rule{
	ID: "HF-BGP-010", Group: rule.BGP, Severity: rule.Note,
	Title: "Announced Services are passed from node to node through eBPF NAT",
	Needs: []fact.Kind{fact.Custom, fact.Services},
	Why: "With externalTrafficPolicy Cluster any node may get a connection and passes it to the node of a pod. When the router's paths " +
		"change, connections arrive at a node that does not know them; losses between hosts went away with Local.",
	Remedy: "set externalTrafficPolicy: Local and have a pod on each node that should be announced",
	Drill:  "bgp-drain",
	Check:  checkNAT,
}

func checkNAT(f *fact.Facts) ([]rule.Finding, error) {
	ebpf := false
	for _, c := range calicoOf(f, "FelixConfiguration") {
		on, _ := c.Object.Get("spec", "bpfEnabled").(bool)
		ebpf = ebpf || on
	}
	services := append(balanced(f, corev1.ServiceExternalTrafficPolicyCluster), balanced(f, corev1.ServiceExternalTrafficPolicyLocal)...)
	if !ebpf || len(announcing(f)) == 0 || len(services) == 0 {
		return nil, fact.NotApplicable("Calico announces no Service of type LoadBalancer by its eBPF datapath")
	}
	var found []rule.Finding
	for _, s := range balanced(f, corev1.ServiceExternalTrafficPolicyCluster) {
		found = append(found, rule.Finding{
			At:     s.At.Field("spec"),
			What:   "the Service is announced by every node with externalTrafficPolicy Cluster",
			Effect: rule.Lasts("a change of the router's paths", "connections that move to another node hang", scenario.Retransmitted()),
			Remedy: fmt.Sprintf("kubectl -n %s patch service %s --type merge -p '{\"spec\":{\"externalTrafficPolicy\":\"Local\"}}'", s.Object.Namespace, s.Object.Name),
		})
	}
	return found, nil
}

// defaultInterval and defaultMultiplier are FRR's of BFD (bfdd).
const (
	defaultInterval   = 300 * time.Millisecond
	defaultMultiplier = 3
)

// lostBy is how long the sessions of a machine outlive a neighbour.
func lostBy(f *fact.Facts, node string) scenario.Window {
	for _, s := range fromFRR(f) {
		switch {
		case s.speaker != "frr/"+node:
		case s.bfd:
			return scenario.BFD(defaultMultiplier, defaultInterval)
		default:
			return scenario.Hold(s.hold, s.keepalive)
		}
	}
	return scenario.Hold(frrHold, frrKeepalive)
}

package bgp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var hopWithoutPod = rule.Rule{
	ID: "HF-BGP-008", Group: rule.BGP, Severity: rule.Error,
	Title: "A router sends connections of a Service to a node without a pod of it",
	Needs: []fact.Kind{fact.Files, fact.Services, fact.EndpointSlices, fact.Nodes},
	Why: "With externalTrafficPolicy Local a node without a ready pod drops what it gets. The router spreads to all next hops alike, so " +
		"that the Service answers now and then; its address does not answer ping anyway, so that only clients notice.",
	Remedy: "find who announces from there: show bgp ipv4 unicast ADDRESS on the router, and the session of the node's agent",
	Drill:  "bgp-drain",
	Check:  checkHops,
}

// paths is what `show bgp ipv4 unicast json` says of each prefix.
type paths struct {
	Routes map[string][]struct {
		Valid     bool `json:"valid"`
		Best      bool `json:"bestpath"`
		Multipath bool `json:"multipath"`
		Nexthops  []struct {
			IP string `json:"ip"`
		} `json:"nexthops"`
	} `json:"routes"`
}

// hops are the next hops in force of an address, each once.
func (p paths) hops(address string) []string {
	var all []string
	for _, prefix := range []string{address + "/32", address + "/128"} {
		for _, path := range p.Routes[prefix] {
			if !path.Valid || !path.Best && !path.Multipath {
				continue
			}
			for _, hop := range path.Nexthops {
				if !slices.Contains(all, hop.IP) {
					all = append(all, hop.IP)
				}
			}
		}
	}
	return all
}

func checkHops(f *fact.Facts) ([]rule.Finding, error) {
	tables := append(f.FilesAt("!vtysh-bgp-ipv4.json"), f.FilesAt("!vtysh-bgp-ipv6.json")...)
	var all []rule.Finding
	judged := 0
	for _, table := range tables {
		var p paths
		if err := json.Unmarshal(table.Object.Data, &p); err != nil {
			return all, fact.Lacking("%s is not what `show bgp ipv4 unicast json` prints", table.At)
		}
		for _, s := range balanced(f, corev1.ServiceExternalTrafficPolicyLocal) {
			pods := podNodes(f, s.Object)
			for _, ingress := range s.Object.Status.LoadBalancer.Ingress {
				hops := p.hops(ingress.IP)
				if len(hops) == 0 || len(pods) == 0 {
					continue
				}
				judged++
				all = append(all, strays(f, table, s.Object, ingress.IP, hops, pods)...)
			}
		}
	}
	if judged == 0 {
		return nil, fact.NotApplicable("no router's table has the address of a Service with externalTrafficPolicy Local")
	}
	return all, nil
}

// podNodes are the nodes with a ready endpoint of a Service.
func podNodes(f *fact.Facts, s *corev1.Service) map[string]bool {
	nodes := map[string]bool{}
	for _, slice := range f.SlicesOf(s.Namespace, s.Name) {
		for _, e := range slice.Object.Endpoints {
			if e.NodeName != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				nodes[*e.NodeName] = true
			}
		}
	}
	return nodes
}

// strays finds next hops that are nodes of the cluster and have no pod. A hop that
// is another router is not judged.
func strays(f *fact.Facts, table fact.Item[fact.File], s *corev1.Service, address string, hops []string, pods map[string]bool) []rule.Finding {
	var all []rule.Finding
	for _, hop := range hops {
		n := f.NodeOf(hop)
		if n == nil || pods[n.Name] {
			continue
		}
		all = append(all, rule.Finding{
			At: table.At.LineIn(lineOf(table.Object.Data, address)), Key: s.Namespace + "/" + s.Name + "/" + n.Name,
			What:   fmt.Sprintf("%s sends %s of %s/%s to %d next hops, and %s has no ready pod of it", table.Object.Node, address, s.Namespace, s.Name, len(hops), n.Name),
			Effect: rule.Unending("as it is", fmt.Sprintf("1 of %d new connections to %s fails", len(hops), address)),
			Remedy: fmt.Sprintf("vtysh -c 'show bgp ipv4 unicast %s'   # on %s; with Calico: serviceLoadBalancerAggregation: Disabled (HF-BGP-007)", address, table.Object.Node),
		})
	}
	return all
}

// lineOf is the first line with a text; 1 where none has it.
func lineOf(data []byte, text string) int {
	before, _, found := strings.Cut(string(data), text)
	if !found {
		return 1
	}
	return strings.Count(before, "\n") + 1
}

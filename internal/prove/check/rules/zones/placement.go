package zones

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// replaced is how long it takes until pods of a dead machine run elsewhere, with
// the defaults of Kubernetes.
func replaced() scenario.Window {
	return scenario.Evicted(scenario.NotReady(scenario.DefaultNodeGrace, scenario.NodeHeartbeat, scenario.NodeMonitor), scenario.DefaultEviction)
}

// together says where all of some nodes are that one fault takes: one node, or
// one zone of several. "" where no single one has all.
func together(f *fact.Facts, nodes []string) string {
	seen, zones := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		seen[n] = true
		zones[f.Zone(n)] = true
	}
	switch {
	case len(seen) == 1 && len(f.Nodes.Items) > 1:
		return "node " + nodes[0]
	case len(zones) == 1 && f.Zone(nodes[0]) != "" && len(f.Zones()) > 1:
		return "zone " + f.Zone(nodes[0])
	}
	return ""
}

var dnsTogether = rule.Rule{
	ID: "HF-ZONE-014", Group: rule.EndpointsZones, Severity: rule.Warning,
	Title: "All DNS servers of the cluster are in one place",
	Needs: []fact.Kind{fact.Pods, fact.Nodes},
	Why: "The pods of CoreDNS start while the first node is the only one, and stay there: nothing moves them when others join. With that " +
		"node no name resolves in the whole cluster, until its pods are evicted.",
	Remedy: "restart CoreDNS with a spread over nodes and zones",
	Drill:  "site-loss",
	Check:  checkDNS,
}

func checkDNS(f *fact.Facts) ([]rule.Finding, error) {
	var nodes []string
	var at fact.Location
	for _, p := range f.Pods.Items {
		if p.Object.Labels["k8s-app"] == "kube-dns" && p.Object.Spec.NodeName != "" {
			nodes, at = append(nodes, p.Object.Spec.NodeName), p.At
		}
	}
	if len(nodes) == 0 {
		return nil, fact.Lacking("no pod has the label k8s-app=kube-dns")
	}
	place := together(f, nodes)
	if place == "" {
		return nil, nil
	}
	return []rule.Finding{{
		At: at, What: fmt.Sprintf("the %d pods of the cluster's DNS are all in %s", len(nodes), place),
		Effect: rule.Lasts("losing "+place, "no name of the cluster resolves", replaced()),
		Remedy: "kubectl -n kube-system patch deployment coredns -p '{\"spec\":{\"replicas\":2,\"template\":{\"spec\":{\"topologySpreadConstraints\":[{\"maxSkew\":1," +
			"\"topologyKey\":\"kubernetes.io/hostname\",\"whenUnsatisfiable\":\"DoNotSchedule\",\"labelSelector\":{\"matchLabels\":{\"k8s-app\":\"kube-dns\"}}}]}}}}'",
	}}, nil
}

// endpointNodes are the nodes of the ready endpoints of a Service; ok is false
// where one does not say its node.
func endpointNodes(f *fact.Facts, namespace, name string) (nodes []string, ok bool) {
	for _, e := range ready(f, namespace, name) {
		if e.NodeName == nil {
			return nil, false
		}
		nodes = append(nodes, *e.NodeName)
	}
	return nodes, len(nodes) > 0
}

var entryTogether = rule.Rule{
	ID: "HF-ZONE-015", Group: rule.EndpointsZones, Severity: rule.Warning,
	Title: "All pods behind an outside address are in one place",
	Needs: []fact.Kind{fact.Services, fact.EndpointSlices, fact.Nodes},
	Why: "A Service of type LoadBalancer is an entry for clients outside. Its address may move between machines; with all its pods on one " +
		"node or in one zone there is nothing behind it when that goes, until they are evicted.",
	Remedy: "run two pods or more, spread over nodes and zones",
	Drill:  "zonal-gateway",
	Check:  checkEntry,
}

func checkEntry(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	entries := 0
	for _, s := range f.Services.Items {
		if s.Object.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		nodes, ok := endpointNodes(f, s.Object.Namespace, s.Object.Name)
		if !ok {
			continue
		}
		entries++
		place := together(f, nodes)
		if place == "" {
			continue
		}
		all = append(all, rule.Finding{
			At:     s.At,
			What:   fmt.Sprintf("the %d ready pods of %s/%s are all in %s", len(nodes), s.Object.Namespace, s.Object.Name, place),
			Effect: rule.Lasts("losing "+place, "nobody answers at the address of the Service", replaced()),
			Remedy: "# in the pods' template, with two replicas or more:\ntopologySpreadConstraints:\n- {maxSkew: 1, topologyKey: " + fact.ZoneLabel +
				", whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {…}}}",
		})
	}
	if entries == 0 {
		return nil, fact.NotApplicable("no Service of type LoadBalancer has ready endpoints on nodes")
	}
	return all, nil
}

var webhookTogether = rule.Rule{
	ID: "HF-ZONE-013", Group: rule.EndpointsZones, Severity: rule.Error,
	Title: "A webhook without which no pod is made runs in one place",
	Needs: []fact.Kind{fact.Webhooks, fact.EndpointSlices, fact.Nodes},
	Why: "A webhook with failurePolicy Fail decides whether pods, nodes or leases may be written. Where its own pods are gone nothing " +
		"replaces them, for their replacement is refused as well.",
	Remedy: "spread its pods over nodes and zones, exempt its own namespace and kube-system, or set failurePolicy: Ignore",
	Drill:  "site-loss",
	Check:  checkWebhooks,
}

func checkWebhooks(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	judged := 0
	for _, w := range f.Webhooks.Items {
		namespace, name, _ := strings.Cut(w.Object.Service, "/")
		if !w.Object.Fails || !w.Object.Vital || name == "" {
			continue
		}
		nodes, ok := endpointNodes(f, namespace, name)
		if !ok {
			continue
		}
		judged++
		place := together(f, nodes)
		if place == "" {
			continue
		}
		all = append(all, rule.Finding{
			At: w.At, Key: w.Object.Name,
			What:   fmt.Sprintf("webhook %s fails closed, and its %d pods (%s) are all in %s", w.Object.Name, len(nodes), w.Object.Service, place),
			Effect: rule.Lasts("losing "+place, "nothing it is asked about can be written", replaced()),
			Remedy: "# for the webhook " + w.Object.Name + ", so that it cannot keep itself from being replaced:\nnamespaceSelector:\n  matchExpressions:\n  - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, " + namespace + "]}",
		})
	}
	if judged == 0 {
		return nil, fact.NotApplicable("no webhook that fails closed is asked about the core of the cluster")
	}
	return all, nil
}

var localOnly = rule.Rule{
	ID: "HF-ZONE-016", Group: rule.EndpointsZones, Severity: rule.Warning,
	Title: "A Service answers only on nodes that have a pod of it, and some have none",
	Needs: []fact.Kind{fact.Services, fact.EndpointSlices, fact.Nodes},
	Why: "internalTrafficPolicy Local drops what has no endpoint on its own node; it never goes to another. That is meant for agents on " +
		"every node. On a node where the agent is missing, its clients get no answer at all.",
	Remedy: "run its pods as a DaemonSet on every node, or use trafficDistribution: PreferSameNode",
	Drill:  "zone-last-endpoint",
	Check:  checkLocal,
}

func checkLocal(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	local := 0
	for _, s := range f.Services.Items {
		if p := s.Object.Spec.InternalTrafficPolicy; p == nil || *p != corev1.ServiceInternalTrafficPolicyLocal || s.Object.Spec.ClusterIP == corev1.ClusterIPNone {
			continue
		}
		nodes, ok := endpointNodes(f, s.Object.Namespace, s.Object.Name)
		if !ok {
			continue
		}
		local++
		missing := map[string]bool{}
		for _, n := range f.Nodes.Items {
			if !away(n.Object) && !slices.Contains(nodes, n.Object.Name) {
				missing[n.Object.Name] = true
			}
		}
		if len(missing) == 0 {
			continue
		}
		names := slices.Sorted(maps.Keys(missing))
		all = append(all, rule.Finding{
			At:     s.At.Field("spec", "internalTrafficPolicy"),
			What:   fmt.Sprintf("%s/%s has internalTrafficPolicy Local, and no ready pod on %d of %d nodes, such as %s", s.Object.Namespace, s.Object.Name, len(names), len(f.Nodes.Items), names[0]),
			Effect: rule.Unending("as it is", "clients on "+names[0]+" get no answer from this Service"),
			Remedy: fmt.Sprintf("kubectl -n %s patch service %s --type merge -p '{\"spec\":{\"internalTrafficPolicy\":\"Cluster\",\"trafficDistribution\":\"PreferSameNode\"}}'", s.Object.Namespace, s.Object.Name),
		})
	}
	if local == 0 {
		return nil, fact.NotApplicable("no Service with internalTrafficPolicy Local has ready endpoints")
	}
	return all, nil
}

// away says that a node has no ordinary pods, the clients: it keeps them off, or is
// not Ready itself.
func away(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return true
		}
	}
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
}

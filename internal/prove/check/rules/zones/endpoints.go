package zones

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// ready lists the endpoints of a Service that get requests.
func ready(f *fact.Facts, namespace, name string) []discoveryv1.Endpoint {
	var all []discoveryv1.Endpoint
	for _, s := range f.SlicesOf(namespace, name) {
		for _, e := range s.Object.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				all = append(all, e)
			}
		}
	}
	return all
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// hinted says whether an endpoint is for the clients of a zone.
func hinted(e discoveryv1.Endpoint, zone string) bool {
	if e.Hints == nil || len(e.Hints.ForZones) == 0 {
		return text(e.Zone) == zone
	}
	return slices.ContainsFunc(e.Hints.ForZones, func(z discoveryv1.ForZone) bool { return z.Name == zone })
}

// same says whether a Service keeps its traffic within zones.
func same(s *corev1.Service) bool { return text(s.Spec.TrafficDistribution) != "" }

const reconcilerFlag = "endpoint-reconciler-type"

// reconciler is the one that an apiserver is told to use.
func reconciler(c fact.Component) string {
	if v, ok := c.Flag(reconcilerFlag); ok {
		return v
	}
	return "lease"
}

var errNoAPIServer = fact.Lacking("no kube-apiserver among the pods")

var leaseEndpoints = rule.Rule{
	ID: "HF-ZONE-002", Group: rule.EndpointsZones, Severity: rule.Note,
	Title: "The API's own endpoints have no zones and outlive a dead apiserver",
	Needs: []fact.Kind{fact.Nodes}, OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "The lease reconciler writes the endpoints of default/kubernetes without zones, takes edits back within seconds, and keeps a dead " +
		"apiserver until its key expires. A lease proves that an apiserver reaches etcd, not that anybody reaches it.",
	Remedy: "publish them by holdfast slices, and set --endpoint-reconciler-type=none",
	Drill:  "partial-split-kubernetes",
	Check:  checkLeaseEndpoints,
}

func checkLeaseEndpoints(f *fact.Facts) ([]rule.Finding, error) {
	apiservers := f.Components("kube-apiserver")
	if len(apiservers) == 0 {
		return nil, errNoAPIServer
	}
	zones := map[string]bool{}
	var leases []fact.Component
	for _, c := range apiservers {
		if z := f.Zone(c.Node); z != "" {
			zones[z] = true
		}
		if reconciler(c) == "lease" {
			leases = append(leases, c)
		}
	}
	if len(zones) < 2 {
		return nil, fact.NotApplicable("the apiservers are in fewer than two zones")
	}
	if len(leases) == 0 {
		return nil, nil
	}
	return []rule.Finding{{
		At:     leases[0].FlagAt(reconcilerFlag),
		What:   fmt.Sprintf("%d of %d apiservers, in %d zones, publish themselves by the lease reconciler", len(leases), len(apiservers), len(zones)),
		Effect: rule.Lasts("losing an apiserver", fmt.Sprintf("1 of %d new connections to the API by its ClusterIP fails", len(apiservers)), scenario.EndpointLease()),
		Remedy: "holdfast slices --help   # a static pod beside each apiserver; then in kube-apiserver.yaml:\n- --" + reconcilerFlag + "=none",
	}}, nil
}

var countedEndpoints = rule.Rule{
	ID: "HF-ZONE-018", Group: rule.EndpointsZones, Severity: rule.Error,
	Title: "A dead apiserver stays an endpoint for ever: master-count",
	OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "The master-count reconciler keeps as many endpoints as it is told there are apiservers and never looks whether one lives. Its " +
		"share of all new connections to the API by ClusterIP fails until it is back.",
	Remedy: "set --endpoint-reconciler-type to lease, or to none beside holdfast slices",
	Drill:  "apiserver-hang",
	Check:  checkCounted,
}

func checkCounted(f *fact.Facts) ([]rule.Finding, error) {
	apiservers := f.Components("kube-apiserver")
	if len(apiservers) == 0 {
		return nil, errNoAPIServer
	}
	var all []rule.Finding
	for _, c := range apiservers {
		if reconciler(c) != "master-count" {
			continue
		}
		all = append(all, rule.Finding{
			At: c.FlagAt(reconcilerFlag), Key: c.Node,
			What:   strings.TrimSpace("the apiserver of "+c.Node) + " has --" + reconcilerFlag + "=master-count",
			Effect: rule.Unending("losing an apiserver", fmt.Sprintf("1 of %d new connections to the API by its ClusterIP fails", len(apiservers))),
			Remedy: "# /etc/kubernetes/manifests/kube-apiserver.yaml, on every control-plane node, one after the other:\n- --" + reconcilerFlag + "=lease",
		})
	}
	return all, nil
}

var nobodyPublishes = rule.Rule{
	ID: "HF-ZONE-003", Group: rule.EndpointsZones, Severity: rule.Error,
	Title: "The apiservers publish no endpoints, and nobody does it for them",
	Needs: []fact.Kind{fact.EndpointSlices}, OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "With --endpoint-reconciler-type=none the Service default/kubernetes has the endpoints that somebody else writes. Without a ready " +
		"one no pod reaches the API; without the slice named kubernetes those who read it by name find nothing (Talos renews its certificates by it).",
	Remedy: "run holdfast slices beside each apiserver",
	Drill:  "slices-agent-killed",
	Check:  checkPublished,
}

func checkPublished(f *fact.Facts) ([]rule.Finding, error) {
	apiservers := f.Components("kube-apiserver")
	if len(apiservers) == 0 {
		return nil, errNoAPIServer
	}
	for _, c := range apiservers {
		if reconciler(c) != "none" {
			return nil, fact.NotApplicable("the apiservers publish themselves")
		}
	}
	at := apiservers[0].FlagAt(reconcilerFlag)
	remedy := "holdfast slices --help   # a static pod beside each apiserver; see docs/guide/slices.md"
	if len(ready(f, "default", "kubernetes")) == 0 {
		return []rule.Finding{{
			At: at, Key: "ready", What: "no slice of default/kubernetes has a ready endpoint", Remedy: remedy,
			Effect: rule.Unending("as it is", "no pod reaches the API by its ClusterIP"),
		}}, nil
	}
	for _, s := range f.EndpointSlices.Items {
		if s.Object.Namespace == "default" && s.Object.Name == "kubernetes" {
			return nil, nil
		}
	}
	return []rule.Finding{{
		At: at, Key: "name", What: "there is no slice named kubernetes", Remedy: remedy,
		Effect: rule.Unending("as it is", "who reads the slice by its name finds no apiserver"),
	}}, nil
}

var noZone = rule.Rule{
	ID: "HF-ZONE-004", Group: rule.EndpointsZones, Severity: rule.Warning,
	Title: "One endpoint without a zone switches zonal routing off for its Service",
	Needs: []fact.Kind{fact.Services, fact.EndpointSlices},
	Why: "Datapaths keep to zones only where they know the zone of every endpoint. A single one without, though it is not ready, makes them " +
		"send requests to all zones alike, and a cut between zones takes its share of them.",
	Remedy: "give each endpoint its zone; those of pods come from the label of their node",
	Drill:  "partial-split-kubernetes",
	Check:  checkNoZone,
}

func checkNoZone(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	zonal := 0
	for _, s := range f.Services.Items {
		if !same(s.Object) {
			continue
		}
		for _, slice := range f.SlicesOf(s.Object.Namespace, s.Object.Name) {
			zonal++
			for i, e := range slice.Object.Endpoints {
				if text(e.Zone) != "" {
					continue
				}
				all = append(all, rule.Finding{
					At: slice.At.Field("endpoints", fmt.Sprint(i)), Key: strings.Join(e.Addresses, ","),
					What:   fmt.Sprintf("endpoint %s of %s/%s has no zone", strings.Join(e.Addresses, ", "), s.Object.Namespace, s.Object.Name),
					Effect: rule.Unending("a cut between two zones", share(len(f.Zones()))+" of the requests to this Service fail"),
					Remedy: fmt.Sprintf("kubectl label node %s %s=ZONE", nodeName(e), fact.ZoneLabel),
				})
			}
		}
	}
	if zonal == 0 {
		return nil, fact.NotApplicable("no Service with trafficDistribution has endpoints")
	}
	return all, nil
}

func nodeName(e discoveryv1.Endpoint) string {
	if e.NodeName != nil {
		return *e.NodeName
	}
	return "NODE"
}

var orphanZone = rule.Rule{
	ID: "HF-ZONE-005", Group: rule.EndpointsZones, Severity: rule.Error,
	Title: "A zone has nodes and no apiserver of its own that is ready, nor an adopted one",
	Needs: []fact.Kind{fact.Services, fact.EndpointSlices, fact.Nodes},
	Why: "Where default/kubernetes keeps to zones, the clients of a zone without an endpoint are sent anywhere, across links that may be " +
		"cut, or nowhere. Half of the probes were lost in such a zone; the witness should adopt it by hints.",
	Remedy: "let holdfast slices of the witness adopt zones without a ready apiserver",
	Drill:  "orphan-zone",
	Check:  checkOrphan,
}

func checkOrphan(f *fact.Facts) ([]rule.Finding, error) {
	for _, s := range f.Services.Items {
		if s.Object.Namespace != "default" || s.Object.Name != "kubernetes" || !same(s.Object) {
			continue
		}
		var all []rule.Finding
		endpoints := ready(f, "default", "kubernetes")
		if slices.ContainsFunc(endpoints, func(e discoveryv1.Endpoint) bool { return text(e.Zone) == "" }) {
			return nil, fact.NotApplicable("endpoints of default/kubernetes have no zone, so that nobody keeps to zones: HF-ZONE-004")
		}
		for _, zone := range f.Zones() {
			if slices.ContainsFunc(endpoints, func(e discoveryv1.Endpoint) bool { return hinted(e, zone) }) {
				continue
			}
			all = append(all, rule.Finding{
				At: s.At.Field("spec", "trafficDistribution"), Key: zone,
				What:   fmt.Sprintf("zone %s has nodes, and none of %d ready apiservers is for it", zone, len(endpoints)),
				Effect: rule.Unending("a cut between "+zone+" and another zone", "new connections from "+zone+" to the API by its ClusterIP fail"),
				Remedy: "holdfast slices --help   # with adoption, on the witness; see docs/guide/slices.md",
			})
		}
		return all, nil
	}
	return nil, fact.NotApplicable("default/kubernetes does not keep to zones")
}

var witnessPublished = rule.Rule{
	ID: "HF-ZONE-011", Group: rule.EndpointsZones, Severity: rule.Note,
	Title: "The apiserver of a zone without workers is an endpoint for all",
	Needs: []fact.Kind{fact.Nodes, fact.EndpointSlices},
	Why: "A witness is there to vote. Its apiserver is far from every client, reads there took 139–166 ms in a stretched cluster, and when " +
		"its link goes its share of new connections goes too.",
	Remedy: "set --endpoint-reconciler-type=none on the witness: it votes and does not publish its address",
	Drill:  "witness-loss",
	Check:  checkWitness,
}

func checkWitness(f *fact.Facts) ([]rule.Finding, error) {
	control := map[string]bool{}
	for _, n := range f.ControlPlane() {
		control[n.Object.Name] = true
	}
	workers := map[string]bool{}
	for _, n := range f.Nodes.Items {
		if !control[n.Object.Name] {
			workers[f.Zone(n.Object.Name)] = true
		}
	}
	endpoints := ready(f, "default", "kubernetes")
	if len(workers) == 0 || len(f.Zones()) < 3 || len(endpoints) == 0 {
		return nil, fact.NotApplicable("no zone is a witness: fewer than three, or none has workers")
	}
	var all []rule.Finding
	for _, s := range f.SlicesOf("default", "kubernetes") {
		for i, e := range s.Object.Endpoints {
			n := f.NodeOf(strings.Join(e.Addresses, ","))
			if n == nil || !control[n.Name] || f.Zone(n.Name) == "" || workers[f.Zone(n.Name)] || e.Hints != nil {
				continue
			}
			all = append(all, rule.Finding{
				At: s.At.Field("endpoints", fmt.Sprint(i)), Key: n.Name,
				What:   fmt.Sprintf("%s is in zone %s, which has no workers, and an endpoint of default/kubernetes", n.Name, f.Zone(n.Name)),
				Effect: rule.Lasts("losing zone "+f.Zone(n.Name), fmt.Sprintf("1 of %d new connections to the API by its ClusterIP fails", len(endpoints)), scenario.EndpointLease()),
				Remedy: "# /etc/kubernetes/manifests/kube-apiserver.yaml on " + n.Name + ":\n- --" + reconcilerFlag + "=none",
			})
		}
	}
	return all, nil
}

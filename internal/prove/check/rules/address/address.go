package address

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// Rules lists the rules of the group.
func Rules() []rule.Rule {
	return []rule.Rule{componentBound, noEndpoint, oneNameServer, hostsDiffer, noAnswer, staleEndpoint, oneMachine, restarted, nameOfNodes, serversDiffer}
}

var componentBound = rule.Rule{
	ID: "HF-API-001", Group: rule.APIAddress, Severity: rule.Error,
	Title: "A part of the cluster reaches the API by one node's address",
	Needs: []fact.Kind{fact.Nodes}, OneOf: []fact.Kind{fact.DaemonSets, fact.ConfigMaps, fact.Deployments, fact.Pods},
	Why: "The network plugin, kube-proxy or another part of the cluster was told the address of one node instead of the one that " +
		"outlives nodes. While that node lives nobody notices; when it goes, the plugin learns of no pod or endpoint any more on every other node.",
	Remedy: "give it the address in controlPlaneEndpoint, or that of a balancer on each node",
	Drill:  "site-loss",
	Check:  checkComponents,
}

func checkComponents(f *fact.Facts) ([]rule.Finding, error) {
	if n := len(f.ControlPlane()); n == 1 {
		return nil, fact.NotApplicable("the cluster has one control-plane node")
	}
	target := "ADDRESS-OF-ALL-APISERVERS"
	if endpoint, ok := f.ControlPlaneEndpoint(); ok && f.NodeOf(endpoint.Host) == nil {
		target = endpoint.Host
	}
	var all []rule.Finding
	for _, r := range f.APIReferences() {
		node := f.NodeOf(r.Host)
		if node == nil || r.Client || r.Node != "" {
			continue // clients and nodes' own files are for the group clients
		}
		all = append(all, rule.Finding{
			At: r.At, Key: r.Who,
			What:   fmt.Sprintf("%s reaches the API by %s, the address of node %s", r.Who, r.Server, node.Name),
			Effect: rule.Unending("losing node "+node.Name, r.Who+" has no API, on all nodes"),
			Remedy: remedy(r, target),
		})
	}
	return all, nil
}

// remedy is what to paste for what is told an address in its own way.
func remedy(r fact.APIReference, target string) string {
	switch r.Who {
	case "kubeadm":
		return fmt.Sprintf("kubectl -n kube-system edit configmap kubeadm-config   # controlPlaneEndpoint: \"%s:6443\"", target)
	case "kube-proxy", "cluster-info":
		return fmt.Sprintf("kubectl -n %s edit configmap %s   # server: https://%s:6443", r.At.Object.Namespace, r.At.Object.Name, target)
	case "calico":
		return fmt.Sprintf("kubectl -n %s patch configmap %s --type merge -p '{\"data\":{\"KUBERNETES_SERVICE_HOST\":\"%s\"}}'",
			r.At.Object.Namespace, r.At.Object.Name, target)
	}
	return fmt.Sprintf("kubectl -n %s set env %s/%s KUBERNETES_SERVICE_HOST=%s   # and the value of its chart, such as k8sServiceHost",
		r.At.Object.Namespace, lower(r.At.Object.Kind), r.At.Object.Name, target)
}

func lower(kind string) string {
	switch kind {
	case "DaemonSet":
		return "daemonset"
	case "Deployment":
		return "deployment"
	}
	return "pod"
}

package clients

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// Rules lists the rules of the group.
func Rules() []rule.Rule {
	return []rule.Rule{bypass, registration, someHosts, written, unwatched, piped}
}

var bypass = rule.Rule{
	ID: "HF-CLI-001", Group: rule.Clients, Severity: rule.Error,
	Title: "A client reaches the API by one node's address",
	Needs: []fact.Kind{fact.Nodes}, OneOf: []fact.Kind{fact.Kubeconfigs, fact.Files},
	Why: "A kubeconfig copied from a server has its own address or 127.0.0.1, and a node that joined by one server's address keeps it. " +
		"The address that outlives nodes is of no use to a client that does not use it.",
	Remedy: "set server to the address in controlPlaneEndpoint",
	Drill:  "vip-node-silent",
	Check:  checkBypass,
}

func checkBypass(f *fact.Facts) ([]rule.Finding, error) {
	if len(f.ControlPlane()) == 1 {
		return nil, fact.NotApplicable("the cluster has one control-plane node")
	}
	target := "https://ADDRESS-OF-ALL-APISERVERS:6443"
	if endpoint, ok := f.ControlPlaneEndpoint(); ok {
		target = "https://" + strings.TrimPrefix(endpoint.Server, "https://")
	}
	var all []rule.Finding
	for _, r := range f.APIReferences() {
		if !r.Client && r.Node == "" || r.Registers() {
			continue // parts of the cluster: HF-API-001, agents of k3s: HF-CLI-002
		}
		fault, reason := around(f, r)
		if reason == "" {
			continue
		}
		who := r.Who
		if r.Node != "" {
			who += " on " + r.Node
		}
		all = append(all, rule.Finding{
			At: r.At, Key: r.Who,
			What:   fmt.Sprintf("%s has server %s, %s", who, r.Server, reason),
			Effect: rule.Unending(fault, who+" has no API"),
			Remedy: fmt.Sprintf("sed -i 's|%s|%s|' FILE   # %s", r.Server, target, r.At.File),
		})
	}
	return all, nil
}

// around says which fault takes a client's API away, and why; "" where none does.
func around(f *fact.Facts, r fact.APIReference) (fault, reason string) {
	if node := f.NodeOf(r.Host); node != nil {
		if r.Node == node.Name && onItself[r.Who] {
			return "", "" // it cannot outlive its own machine
		}
		return "losing node " + node.Name, "the address of node " + node.Name
	}
	if r.Client && fact.Loopback(r.Host) {
		return "any other machine than the one it was copied from", "which is only right on a machine with an apiserver or a balancer"
	}
	return "", ""
}

// onItself are components that may go to their own machine's apiserver: kubeadm gives
// them its address on purpose, since versions may differ during an upgrade. Of
// kubelets that is so since 1.31 (feature gate ControlPlaneKubeletLocalMode).
var onItself = map[string]bool{"kube-controller-manager": true, "kube-scheduler": true, "kubelet": true}

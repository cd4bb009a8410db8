package address

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var noEndpoint = rule.Rule{
	ID: "HF-API-002", Group: rule.APIAddress, Severity: rule.Error,
	Title: "kubeadm was given no address for all apiservers",
	Needs: []fact.Kind{fact.ConfigMaps},
	Why: "Without controlPlaneEndpoint kubeadm writes the address of the node that it runs on into cluster-info and into the kubeconfig of " +
		"every node that joins. It refuses further control-plane nodes, and giving it later means new certificates and a change on every node.",
	Remedy: "set controlPlaneEndpoint to an address or name that outlives nodes",
	Drill:  "site-loss",
	Check:  checkEndpoint,
}

func checkEndpoint(f *fact.Facts) ([]rule.Finding, error) {
	cm, known := f.ConfigMap("kube-system", "kubeadm-config")
	if cm == nil && known.State == fact.Absent {
		return nil, fact.NotApplicable("the cluster was not set up by kubeadm")
	}
	if cm == nil {
		return nil, fact.Lacking("%s", known.Why)
	}
	var v struct {
		ControlPlaneEndpoint string `yaml:"controlPlaneEndpoint"`
	}
	if err := yaml.Unmarshal([]byte(cm.Object.Data["ClusterConfiguration"]), &v); err != nil {
		return nil, fact.Lacking("ClusterConfiguration of kubeadm-config is not YAML")
	}
	if v.ControlPlaneEndpoint != "" {
		return nil, nil
	}
	first := "the node that the others joined by"
	for _, r := range f.APIReferences() {
		if node := f.NodeOf(r.Host); r.Who == "cluster-info" && node != nil {
			first = "node " + node.Name
		}
	}
	return []rule.Finding{{
		At: cm.At.Field("data", "ClusterConfiguration"), What: "ClusterConfiguration has no controlPlaneEndpoint",
		Effect: rule.Unending("losing "+first, "every node that joined has no API"),
		Remedy: "holdfast vip manifest static-pod > /etc/kubernetes/manifests/holdfast-vip.yaml   # on each control-plane node: an address that moves between them, docs/guide/vip.md\n" +
			"kubectl -n kube-system edit configmap kubeadm-config   # controlPlaneEndpoint: \"ADDRESS:6443\", apiServer.certSANs: [ADDRESS]\n" +
			"# then new certificates (HF-CERT-001) and, on every node: sed -i 's|server: .*|server: https://ADDRESS:6443|' /etc/kubernetes/kubelet.conf && systemctl restart kubelet",
	}}, nil
}

var oneMachine = rule.Rule{
	ID: "HF-API-007", Group: rule.APIAddress, Severity: rule.Error,
	Title: "The control plane is one machine",
	Needs: []fact.Kind{fact.Nodes},
	Why: "With one control-plane node there is one apiserver and one etcd. Pods that run go on running, but nothing that fails is replaced, " +
		"no endpoint leaves a Service, and its disk is the only place that has the cluster's state.",
	Remedy: "join two more control-plane nodes, each at another place",
	Drill:  "site-loss",
	Check:  checkMachines,
}

func checkMachines(f *fact.Facts) ([]rule.Finding, error) {
	nodes := f.ControlPlane()
	switch len(nodes) {
	case 0:
		return nil, fact.NotApplicable("no Node says that it is of the control plane, so that somebody else runs it")
	case 1:
	default:
		return nil, nil
	}
	n := nodes[0]
	return []rule.Finding{{
		At: n.At, What: fmt.Sprintf("node %s is the only one of the control plane", n.Object.Name),
		Effect: rule.Unending("losing node "+n.Object.Name, fmt.Sprintf("the API is gone for all %d nodes", f.Count(fact.Nodes))),
		Remedy: fmt.Sprintf("kubeadm init phase upload-certs --upload-certs && kubeadm token create --print-join-command   # on %s; then, with --control-plane --certificate-key KEY, on two more machines%s",
			n.Object.Name, zoneAdvice(f.Zone(n.Object.Name))),
	}}, nil
}

func zoneAdvice(zone string) string {
	if zone == "" {
		return ""
	}
	return " outside of zone " + zone
}

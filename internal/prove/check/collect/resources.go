package collect

import "github.com/holdfast-ha/holdfast/internal/prove/check/fact"

// Resource is a collection of the API that is listed in all namespaces.
type Resource struct {
	// Group is "" for the core; Version "" takes the group's preferred one.
	Group, Version, Resource string
	// ObjectKind is the kind of its items, which lists leave out.
	ObjectKind string
	// Kind is the kind of facts it becomes.
	Kind fact.Kind
}

// Resources are all that is listed.
var Resources = []Resource{
	{"", "v1", "nodes", "Node", fact.Nodes},
	{"", "v1", "pods", "Pod", fact.Pods},
	{"", "v1", "services", "Service", fact.Services},
	{"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", fact.EndpointSlices},
	{"apps", "v1", "deployments", "Deployment", fact.Deployments},
	{"apps", "v1", "daemonsets", "DaemonSet", fact.DaemonSets},
	{"apps", "v1", "statefulsets", "StatefulSet", fact.StatefulSets},
	{"coordination.k8s.io", "v1", "leases", "Lease", fact.Leases},
	{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", fact.PDBs},
	{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", fact.Webhooks},
	{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", fact.Webhooks},
	{"certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", fact.CSRs},
	{"metallb.io", "", "bgppeers", "BGPPeer", fact.Custom},
	{"metallb.io", "", "bfdprofiles", "BFDProfile", fact.Custom},
	{"metallb.io", "", "bgpadvertisements", "BGPAdvertisement", fact.Custom},
	{"metallb.io", "", "l2advertisements", "L2Advertisement", fact.Custom},
	{"metallb.io", "", "ipaddresspools", "IPAddressPool", fact.Custom},
	{"cilium.io", "", "ciliumbgpclusterconfigs", "CiliumBGPClusterConfig", fact.Custom},
	{"cilium.io", "", "ciliumbgppeerconfigs", "CiliumBGPPeerConfig", fact.Custom},
	{"cilium.io", "", "ciliumbgpadvertisements", "CiliumBGPAdvertisement", fact.Custom},
	{"crd.projectcalico.org", "", "bgppeers", "BGPPeer", fact.Custom},
	{"crd.projectcalico.org", "", "bgpconfigurations", "BGPConfiguration", fact.Custom},
	{"crd.projectcalico.org", "", "felixconfigurations", "FelixConfiguration", fact.Custom},
	{"gateway.networking.k8s.io", "", "gateways", "Gateway", fact.Custom},
	{"gateway.networking.k8s.io", "", "httproutes", "HTTPRoute", fact.Custom},
	{"monitoring.coreos.com", "", "prometheusrules", "PrometheusRule", fact.Custom},
}

// ConfigMaps are those that are read, by name; no others are.
var ConfigMaps = []struct{ Namespace, Name string }{
	{"kube-system", "kubeadm-config"},
	{"kube-system", "kube-proxy"},
	{"kube-system", "kubelet-config"},
	{"kube-system", "cilium-config"},
	{"kube-system", "coredns"},
	{"kube-system", "kubernetes-services-endpoint"},
	{"tigera-operator", "kubernetes-services-endpoint"},
	{"calico-system", "kubernetes-services-endpoint"},
	{"kube-public", "cluster-info"},
}

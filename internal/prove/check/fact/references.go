package fact

import (
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
)

// APIReference is a place where somebody is told how to reach the API.
type APIReference struct {
	// Who is told, such as "kubelet" or "cilium".
	Who string
	// Server is what is written there: a URL, or host:port, or a host.
	Server, Host string
	// Node is whose file it is; "" for an object of the API.
	Node string
	// Client says that it is a person's or pipeline's, not a part of the cluster.
	Client bool
	At     Location
}

// APIReferences lists where clients and components are told how to reach the API:
// the ConfigMaps of kubeadm and kube-proxy, KUBERNETES_SERVICE_HOST of containers
// and of Calico's ConfigMap, kubeconfigs on nodes, and those of clients.
func (f *Facts) APIReferences() []APIReference {
	var all []APIReference
	add := func(who, server string, at Location) {
		if server = strings.TrimSpace(server); server != "" {
			all = append(all, APIReference{Who: who, Server: server, Host: Host(server), Node: at.Node, At: at})
		}
	}
	for _, c := range f.ConfigMaps.Items {
		f.fromConfigMap(c, add)
	}
	f.fromContainers(add)
	for _, file := range f.Files.Items {
		fromNodeFile(file, add)
	}
	for _, k := range f.Kubeconfigs.Items {
		if k.Object.Server != "" {
			all = append(all, APIReference{Who: "kubeconfig " + k.Object.Context, Server: k.Object.Server, Host: Host(k.Object.Server), Client: true, At: k.At})
		}
	}
	return all
}

// ControlPlaneEndpoint is the address that kubeadm was given for all apiservers;
// ok says whether it is known to be one.
func (f *Facts) ControlPlaneEndpoint() (APIReference, bool) {
	for _, r := range f.APIReferences() {
		if r.Who == "kubeadm" {
			return r, true
		}
	}
	return APIReference{}, false
}

type adds func(who, server string, at Location)

func (f *Facts) fromConfigMap(c Item[corev1.ConfigMap], add adds) {
	data := c.Object.Data
	switch c.Object.Namespace + "/" + c.Object.Name {
	case "kube-system/kubeadm-config":
		var v struct {
			ControlPlaneEndpoint string `yaml:"controlPlaneEndpoint"`
		}
		if yaml.Unmarshal([]byte(data["ClusterConfiguration"]), &v) == nil {
			add("kubeadm", v.ControlPlaneEndpoint, c.At.Field("data", "ClusterConfiguration"))
		}
	case "kube-public/cluster-info":
		add("cluster-info", serverOf(data["kubeconfig"]), c.At.Field("data", "kubeconfig"))
	case "kube-system/kube-proxy":
		add("kube-proxy", serverOf(data["kubeconfig.conf"]), c.At.Field("data", "kubeconfig.conf"))
	}
	if c.Object.Name == "kubernetes-services-endpoint" { // Calico, in the namespace of its operator or its own
		add("calico", data["KUBERNETES_SERVICE_HOST"], c.At.Field("data", "KUBERNETES_SERVICE_HOST"))
	}
}

// serverOf is the server of the first cluster of a kubeconfig.
func serverOf(kubeconfig string) string {
	var k struct {
		Clusters []struct {
			Cluster struct {
				Server string `yaml:"server"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
	}
	if yaml.Unmarshal([]byte(kubeconfig), &k) != nil || len(k.Clusters) == 0 {
		return ""
	}
	return k.Clusters[0].Cluster.Server
}

const serviceHost = "KUBERNETES_SERVICE_HOST"

// fromContainers finds containers that are told another address than the Service's.
// Pods are looked at only where what made them is not known.
func (f *Facts) fromContainers(add adds) {
	templated := map[string]bool{}
	for _, d := range f.DaemonSets.Items {
		templated[d.Object.Namespace+"/"+d.Object.Name] = true
		fromPodSpec(d.Object.Name, &d.Object.Spec.Template.Spec, d.At.below("spec", "template"), add)
	}
	for _, d := range f.Deployments.Items {
		templated[d.Object.Namespace+"/"+d.Object.Name] = true
		fromPodSpec(d.Object.Name, &d.Object.Spec.Template.Spec, d.At.below("spec", "template"), add)
	}
	seen := map[string]bool{}
	for _, p := range f.Pods.Items {
		owner := p.Object.Namespace + "/" + ownerOf(p.Object)
		if templated[owner] || seen[owner] {
			continue
		}
		seen[owner] = true
		fromPodSpec(ownerOf(p.Object), &p.Object.Spec, p.At, add)
	}
}

func fromPodSpec(name string, spec *corev1.PodSpec, at Location, add adds) {
	for i, c := range spec.Containers {
		for j, e := range c.Env {
			if e.Name == serviceHost && e.Value != "" {
				add(name, e.Value, at.Field("spec", "containers", itoa(i), "env", itoa(j)))
				return // its other containers are told the same
			}
		}
	}
}

// ownerOf is the name of what made a pod: of a Deployment's that of the Deployment.
func ownerOf(p *corev1.Pod) string {
	if len(p.OwnerReferences) == 0 {
		return p.Name
	}
	o := p.OwnerReferences[0]
	if o.Kind == "Node" { // the mirror of a static pod
		return p.Name
	}
	if i := strings.LastIndexByte(o.Name, '-'); o.Kind == "ReplicaSet" && i > 0 {
		return o.Name[:i]
	}
	return o.Name
}

// nodeKubeconfigs are kubeconfigs of components, by path, and whose they are.
var nodeKubeconfigs = map[string]string{
	"/etc/kubernetes/kubelet.conf":                   "kubelet",
	"/etc/kubernetes/bootstrap-kubelet.conf":         "kubelet (bootstrap)",
	"/var/lib/kubelet/kubeconfig":                    "kubelet",
	"/etc/kubernetes/controller-manager.conf":        "kube-controller-manager",
	"/etc/kubernetes/scheduler.conf":                 "kube-scheduler",
	"/etc/kubernetes/admin.conf":                     "admin.conf",
	"/etc/cni/net.d/calico-kubeconfig":               "calico",
	"/var/lib/rancher/rke2/agent/kubelet.kubeconfig": "kubelet",
	"/var/lib/rancher/k3s/agent/kubelet.kubeconfig":  "kubelet",
}

// nodeSettings are files of k3s and RKE2 whose server: is where an agent registers.
var nodeSettings = map[string]string{
	"/etc/rancher/k3s/config.yaml":  "k3s",
	"/etc/rancher/rke2/config.yaml": "rke2",
}

// nodeVariables are files of variables of the same agents, and the name of that
// which says where to register.
var nodeVariables = map[string]struct{ who, name string }{
	"/etc/systemd/system/k3s-agent.service.env": {"k3s", "K3S_URL"},
	"/etc/default/rke2-agent":                   {"rke2", "RKE2_URL"},
	"/etc/sysconfig/rke2-agent":                 {"rke2", "RKE2_URL"},
}

// Registers says that a reference is where an agent of k3s or RKE2 asks for the
// list of servers, which it keeps.
func (r APIReference) Registers() bool { return r.Who == "k3s" || r.Who == "rke2" }

func fromNodeFile(file Item[File], add adds) {
	if v, ok := nodeVariables[file.Object.Path]; ok {
		for _, line := range conf.Assignments(file.Object.Data, "#").Blocks {
			if line.Word(0) == v.name {
				add(v.who, strings.Trim(line.Word(1), `"'`), file.At.LineIn(line.Line))
			}
		}
	}
	if who, ok := nodeKubeconfigs[file.Object.Path]; ok {
		add(who, serverOf(string(file.Object.Data)), file.At.LineIn(lineOf(file.Object.Data, "server:")))
	}
	if who, ok := nodeSettings[file.Object.Path]; ok {
		var v struct {
			Server string `yaml:"server"`
		}
		if yaml.Unmarshal(file.Object.Data, &v) == nil {
			add(who, v.Server, file.At.LineIn(lineOf(file.Object.Data, "server:")))
		}
	}
}

// lineOf is the first line that begins with text after blanks; 1 where none does.
func lineOf(data []byte, text string) int {
	for i, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(strings.TrimLeft(line, " \t-"), text) {
			return i + 1
		}
	}
	return 1
}

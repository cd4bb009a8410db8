package fact

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Kind names a kind of fact, as bundles and rules spell it.
type Kind string

// The kinds of facts that a rule may need. Those of the API are spelt as its
// resources are.
const (
	Nodes          Kind = "nodes"
	Pods           Kind = "pods"
	Services       Kind = "services"
	EndpointSlices Kind = "endpointslices"
	Deployments    Kind = "deployments"
	DaemonSets     Kind = "daemonsets"
	StatefulSets   Kind = "statefulsets"
	Leases         Kind = "leases"
	PDBs           Kind = "poddisruptionbudgets"
	Webhooks       Kind = "webhookconfigurations"
	ConfigMaps     Kind = "configmaps"
	CSRs           Kind = "certificatesigningrequests"
	// Custom is all objects of the groups in CustomGroups. Whether one kind of them
	// could be read is told by Facts.KnownOf("custom/GROUP").
	Custom Kind = "custom"
	// Probes are recorded TLS handshakes and answers of /readyz.
	Probes Kind = "probes"
	// Lookups are answers of name servers for the names of the API.
	Lookups Kind = "lookups"
	// Etcd is the status of each member, as it says itself.
	Etcd Kind = "etcd"
	// Files are those of nodes, and the output of commands there.
	Files Kind = "files"
	// Kubeconfigs are those of clients, without their credentials.
	Kubeconfigs Kind = "kubeconfigs"
	// Pipelines are settings of CI and scripts, as text.
	Pipelines Kind = "pipelines"
)

// Problem is something that was given and could not be read. It makes the result
// "could not tell": rules that needed it are not evaluated.
type Problem struct {
	Where string `json:"where"`
	What  string `json:"what"`
}

// Facts is all that is known about one cluster.
type Facts struct {
	// Origin is what was read, for people.
	Origin string
	// Root is the path that files of Locations are below of; "" where there is none.
	Root string
	// Collected is when it was read from the cluster; zero where nobody knows.
	Collected time.Time
	// Server is the version of the apiserver, such as v1.35.2; "" where unknown.
	Server string

	Nodes          Set[corev1.Node]
	Pods           Set[corev1.Pod]
	Services       Set[corev1.Service]
	EndpointSlices Set[discoveryv1.EndpointSlice]
	Deployments    Set[appsv1.Deployment]
	DaemonSets     Set[appsv1.DaemonSet]
	StatefulSets   Set[appsv1.StatefulSet]
	Leases         Set[coordinationv1.Lease]
	PDBs           Set[policyv1.PodDisruptionBudget]
	Webhooks       Set[Webhook]
	ConfigMaps     Set[corev1.ConfigMap]
	CSRs           Set[certificatesv1.CertificateSigningRequest]
	Custom         Set[Resource]
	Probes         Set[Probe]
	Lookups        Set[Lookup]
	Etcd           Set[EtcdMember]
	Files          Set[File]
	Kubeconfigs    Set[Kubeconfig]
	Pipelines      Set[File]
	// StaticPods are those of the manifests among Files, with the file's own lines.
	StaticPods Set[corev1.Pod]

	// Parts tells of parts of a kind, such as configmaps/kube-system/kubeadm-config
	// or files/a1.
	Parts map[string]Known

	Problems []Problem
	// Suppressing are the annotations by which objects say that findings at them may
	// stay.
	Suppressing []Annotation
	// Ignored counts objects that no rule asks for, by kind.
	Ignored map[string]int

	zones  map[string]string
	files  map[string]int // by node and path
	slices map[string][]int
}

// SuppressAnnotation is the annotation by which an object says that findings at it
// may stay: a list as that of the file of suppressions, without objects.
const SuppressAnnotation = "holdfast.dev/suppress"

// Annotation is the text of an annotation of an object. Of a Node, At.Node is its name.
type Annotation struct {
	Text string
	At   Location
	// Mirror says that the object is the mirror of a static pod, whose manifest has
	// the annotation too.
	Mirror bool
}

// set is what all Sets can be asked.
type set interface {
	known() *Known
	size() int
}

func (f *Facts) sets() map[Kind]set {
	return map[Kind]set{
		Nodes: &f.Nodes, Pods: &f.Pods, Services: &f.Services, EndpointSlices: &f.EndpointSlices,
		Deployments: &f.Deployments, DaemonSets: &f.DaemonSets, StatefulSets: &f.StatefulSets,
		Leases: &f.Leases, PDBs: &f.PDBs, Webhooks: &f.Webhooks, ConfigMaps: &f.ConfigMaps,
		CSRs: &f.CSRs, Lookups: &f.Lookups,
		Custom: &f.Custom, Probes: &f.Probes, Etcd: &f.Etcd, Files: &f.Files, Kubeconfigs: &f.Kubeconfigs, Pipelines: &f.Pipelines,
	}
}

// Kinds lists every kind of fact.
func Kinds() []Kind {
	var all []Kind
	for k := range (&Facts{}).sets() {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// called is what people call kinds that the API does not have, and how to get them.
var called = map[Kind]string{
	Files:       "files of nodes; check collect --node reads them",
	Probes:      "recorded handshakes; check collect --kubeconfig records them",
	Lookups:     "recorded look-ups; check collect records them",
	CSRs:        "requests for certificates",
	Kubeconfigs: "kubeconfigs of clients; --client takes them",
	Pipelines:   "pipelines of clients; check clients takes them",
	Etcd:        "status of etcd's members",
	Custom:      "custom resources",
}

// KnownOf says how much is known of a kind, or of a part of one ("files/a1").
func (f *Facts) KnownOf(key string) Known {
	if k, ok := f.Parts[key]; ok {
		return k
	}
	s, ok := f.sets()[Kind(key)]
	if !ok {
		return Known{Unknown, "nobody looked for " + key}
	}
	k := *s.known()
	if k.State == Unknown && k.Why == "" {
		name, hint, _ := strings.Cut(cmp.Or(called[Kind(key)], key), ";")
		k.Why = fmt.Sprintf("no %s in %s", name, f.Origin)
		if hint != "" {
			k.Why += ";" + hint
		}
	}
	return k
}

// Count is how many objects of a kind there are.
func (f *Facts) Count(kind Kind) int {
	if s, ok := f.sets()[kind]; ok {
		return s.size()
	}
	return 0
}

// Declare says how much is known of a kind or a part of one. Of a kind of which
// objects were read, only that it could not be read whole is new.
func (f *Facts) Declare(key string, k Known) {
	s, ok := f.sets()[Kind(key)]
	switch {
	case !ok:
		if f.Parts == nil {
			f.Parts = map[string]Known{}
		}
		f.Parts[key] = k
	case k.State == Unknown:
		*s.known() = k
	case s.size() > 0:
		s.known().State = Present
	default:
		*s.known() = Known{State: Absent}
	}
}

// Note records a problem.
func (f *Facts) Note(where, format string, args ...any) {
	f.Problems = append(f.Problems, Problem{where, fmt.Sprintf(format, args...)})
}

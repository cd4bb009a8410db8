package source

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// apiKinds are the kinds of facts that are objects of the API.
var apiKinds = []fact.Kind{
	fact.Nodes, fact.Pods, fact.Services, fact.EndpointSlices, fact.Deployments, fact.DaemonSets,
	fact.StatefulSets, fact.Leases, fact.PDBs, fact.Webhooks, fact.ConfigMaps, fact.CSRs, fact.Custom,
}

// adder decodes one object and puts it where it belongs.
type adder func(f *fact.Facts, data []byte, at fact.Location) error

// known is a kind of the API whose type is known here, in one version.
type known struct {
	group, version string
	kind           fact.Kind
	add            adder
}

// table has the kinds by their name in manifests.
var table = map[string]known{
	"Node":                           {"", "v1", fact.Nodes, into(func(f *fact.Facts) *fact.Set[corev1.Node] { return &f.Nodes }, trimNode)},
	"Pod":                            {"", "v1", fact.Pods, into(func(f *fact.Facts) *fact.Set[corev1.Pod] { return &f.Pods }, trimPod)},
	"Service":                        {"", "v1", fact.Services, into(func(f *fact.Facts) *fact.Set[corev1.Service] { return &f.Services }, nil)},
	"ConfigMap":                      {"", "v1", fact.ConfigMaps, into(func(f *fact.Facts) *fact.Set[corev1.ConfigMap] { return &f.ConfigMaps }, nil)},
	"EndpointSlice":                  {"discovery.k8s.io", "v1", fact.EndpointSlices, into(func(f *fact.Facts) *fact.Set[discoveryv1.EndpointSlice] { return &f.EndpointSlices }, nil)},
	"Deployment":                     {"apps", "v1", fact.Deployments, into(func(f *fact.Facts) *fact.Set[appsv1.Deployment] { return &f.Deployments }, nil)},
	"DaemonSet":                      {"apps", "v1", fact.DaemonSets, into(func(f *fact.Facts) *fact.Set[appsv1.DaemonSet] { return &f.DaemonSets }, nil)},
	"StatefulSet":                    {"apps", "v1", fact.StatefulSets, into(func(f *fact.Facts) *fact.Set[appsv1.StatefulSet] { return &f.StatefulSets }, nil)},
	"Lease":                          {"coordination.k8s.io", "v1", fact.Leases, into(func(f *fact.Facts) *fact.Set[coordinationv1.Lease] { return &f.Leases }, nil)},
	"PodDisruptionBudget":            {"policy", "v1", fact.PDBs, into(func(f *fact.Facts) *fact.Set[policyv1.PodDisruptionBudget] { return &f.PDBs }, nil)},
	"CertificateSigningRequest":      {"certificates.k8s.io", "v1", fact.CSRs, into(func(f *fact.Facts) *fact.Set[certificatesv1.CertificateSigningRequest] { return &f.CSRs }, trimCSR)},
	"ValidatingWebhookConfiguration": {"admissionregistration.k8s.io", "v1", fact.Webhooks, addWebhooks},
	"MutatingWebhookConfiguration":   {"admissionregistration.k8s.io", "v1", fact.Webhooks, addWebhooks},
}

// into is the adder of a type of k8s.io/api. Trim drops what no rule looks at and
// what takes most of the memory.
func into[T any](set func(*fact.Facts) *fact.Set[T], trim func(*T)) adder {
	return func(f *fact.Facts, data []byte, at fact.Location) error {
		object := new(T)
		if err := json.Unmarshal(data, object); err != nil {
			return fmt.Errorf("not a %s: %w", at.Object.Kind, err)
		}
		if m, ok := any(object).(metav1.Object); ok {
			slim(m)
			at.Object.Namespace, at.Object.Name = m.GetNamespace(), m.GetName()
		}
		if trim != nil {
			trim(object)
		}
		set(f).Add(object, at)
		return nil
	}
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func slim(m metav1.Object) {
	m.SetManagedFields(nil)
	if a := m.GetAnnotations(); a[lastApplied] != "" {
		delete(a, lastApplied)
	}
}

func trimNode(n *corev1.Node) { n.Status.Images = nil }

// trimCSR keeps who asks whom for what, and what became of it. That a certificate was
// made is all that is kept of it.
func trimCSR(c *certificatesv1.CertificateSigningRequest) {
	c.Spec.Request, c.Spec.Extra = nil, nil
	if len(c.Status.Certificate) > 0 {
		c.Status.Certificate = []byte("made")
	}
}

func trimPod(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.VolumeMounts, c.SecurityContext, c.TerminationMessagePath = nil, nil, ""
	}
	p.Spec.Volumes = nil
}

// webhooks has the fields of both kinds of configuration that matter.
type webhooks struct {
	metav1.ObjectMeta `json:"metadata"`
	Webhooks          []struct {
		Name           string  `json:"name"`
		FailurePolicy  *string `json:"failurePolicy"`
		TimeoutSeconds *int32  `json:"timeoutSeconds"`
		ClientConfig   struct {
			URL     string `json:"url"`
			Service *struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"service"`
		} `json:"clientConfig"`
		Rules []struct {
			APIGroups []string `json:"apiGroups"`
			Resources []string `json:"resources"`
		} `json:"rules"`
	} `json:"webhooks"`
}

// vital says whether a webhook's rule is about what the cluster itself writes to
// keep running.
func vital(groups, resources []string) bool {
	has := func(all []string, some ...string) bool {
		return slices.ContainsFunc(some, func(s string) bool { return slices.Contains(all, s) })
	}
	return has(groups, "", "*") && has(resources, "*", "*/*", "pods", "nodes", "services") ||
		has(groups, "coordination.k8s.io", "*") && has(resources, "*", "*/*", "leases")
}

func addWebhooks(f *fact.Facts, data []byte, at fact.Location) error {
	var c webhooks
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("not a %s: %w", at.Object.Kind, err)
	}
	at.Object.Name = c.Name
	for i, w := range c.Webhooks {
		hook := &fact.Webhook{Name: w.Name, URL: w.ClientConfig.URL, Fails: w.FailurePolicy == nil || *w.FailurePolicy == "Fail", TimeoutSeconds: 10}
		if w.TimeoutSeconds != nil {
			hook.TimeoutSeconds = *w.TimeoutSeconds
		}
		if s := w.ClientConfig.Service; s != nil {
			hook.Service = s.Namespace + "/" + s.Name
		}
		for _, rule := range w.Rules {
			hook.Resources = append(hook.Resources, rule.Resources...)
			hook.Vital = hook.Vital || vital(rule.APIGroups, rule.Resources)
		}
		f.Webhooks.Add(hook, at.Field("webhooks", fmt.Sprint(i)))
	}
	return nil
}

// add decodes an object by its kind, and says whether it was kept. Kinds that no rule
// asks for are counted, and Secrets are not even decoded.
func (r *reader) add(data []byte, at fact.Location) (kept bool, err error) {
	group, version, grouped := strings.Cut(at.Object.APIVersion, "/")
	if !grouped {
		group, version = "", group
	}
	k, ok := table[at.Object.Kind]
	switch {
	case at.Object.Kind == "Config" && group == "" && version == "v1":
		return false, r.addKubeconfig(data, at)
	case ok && k.group == group && k.version == version:
		if err := k.add(r.facts, data, at); err != nil {
			r.broken[k.kind] = at.File + ": " + err.Error()
			return false, err
		}
		return true, nil
	case ok && k.group == group:
		err := fmt.Errorf("%s of version %s: only %s is known here; convert it", at.Object.Kind, at.Object.APIVersion, join(k.group, k.version))
		r.broken[k.kind] = at.File + ": " + err.Error()
		return false, err
	case slices.Contains(fact.CustomGroups, group):
		err := r.addCustom(data, at)
		return err == nil, err
	}
	r.facts.Ignored[at.Object.Kind]++
	return false, nil
}

func join(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

func (r *reader) addCustom(data []byte, at fact.Location) error {
	var object fact.Resource
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("not a %s: %w", at.Object.Kind, err)
	}
	if m, ok := object["metadata"].(map[string]any); ok {
		delete(m, "managedFields")
	}
	at.Object.Namespace, at.Object.Name = object.Text("metadata", "namespace"), object.Text("metadata", "name")
	r.facts.Custom.Add(&object, at)
	return nil
}

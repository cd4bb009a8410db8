package seed

import (
	"fmt"
	"maps"
	"strings"
)

// Object is one of the API.
type Object map[string]any

// Get follows keys down to a value; nil where there is none.
func (o Object) Get(path ...string) any {
	var v any = map[string]any(o)
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// Text is Get for a string; "" where there is none.
func (o Object) Text(path ...string) string {
	s, _ := o.Get(path...).(string)
	return s
}

// Set puts a value below keys, with maps on the way.
func (o Object) Set(value any, path ...string) {
	m := map[string]any(o)
	for _, key := range path[:len(path)-1] {
		next, ok := m[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[key] = next
		}
		m = next
	}
	m[path[len(path)-1]] = value
}

func (o Object) String() string {
	return fmt.Sprintf("%s %s/%s", o.Text("kind"), o.Text("metadata", "namespace"), o.Text("metadata", "name"))
}

// resource is where the API has objects of a kind.
type resource struct {
	group, version, plural string
	namespaced             bool
	// custom says that the API knows the kind only once it is defined.
	custom bool
}

// builtin are the kinds that every apiserver has.
var builtin = map[string]resource{
	"Node":                           {"", "v1", "nodes", false, false},
	"Namespace":                      {"", "v1", "namespaces", false, false},
	"Pod":                            {"", "v1", "pods", true, false},
	"Service":                        {"", "v1", "services", true, false},
	"ConfigMap":                      {"", "v1", "configmaps", true, false},
	"ServiceAccount":                 {"", "v1", "serviceaccounts", true, false},
	"EndpointSlice":                  {"discovery.k8s.io", "v1", "endpointslices", true, false},
	"Deployment":                     {"apps", "v1", "deployments", true, false},
	"DaemonSet":                      {"apps", "v1", "daemonsets", true, false},
	"StatefulSet":                    {"apps", "v1", "statefulsets", true, false},
	"Lease":                          {"coordination.k8s.io", "v1", "leases", true, false},
	"PodDisruptionBudget":            {"policy", "v1", "poddisruptionbudgets", true, false},
	"ValidatingWebhookConfiguration": {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", false, false},
	"MutatingWebhookConfiguration":   {"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", false, false},
	"CertificateSigningRequest":      {"certificates.k8s.io", "v1", "certificatesigningrequests", false, false},
	"ClusterRole":                    {"rbac.authorization.k8s.io", "v1", "clusterroles", false, false},
	"ClusterRoleBinding":             {"rbac.authorization.k8s.io", "v1", "clusterrolebindings", false, false},
	"CustomResourceDefinition":       {"apiextensions.k8s.io", "v1", "customresourcedefinitions", false, false},
}

// resource is where an object belongs.
func (o Object) resource() resource {
	group, version, grouped := strings.Cut(o.Text("apiVersion"), "/")
	if !grouped {
		group, version = "", group
	}
	kind := o.Text("kind")
	if r, ok := builtin[kind]; ok && r.group == group {
		r.version = version
		return r
	}
	return resource{group, version, strings.ToLower(kind) + "s", o.Text("metadata", "namespace") != "", true}
}

// collection is the path of all objects of a kind, in the namespace of this one.
func (o Object) collection() string {
	r := o.resource()
	at := "/api/" + r.version
	if r.group != "" {
		at = "/apis/" + r.group + "/" + r.version
	}
	if r.namespaced {
		at += "/namespaces/" + o.Text("metadata", "namespace")
	}
	return at + "/" + r.plural
}

// path is that of the object itself.
func (o Object) path() string { return o.collection() + "/" + o.Text("metadata", "name") }

// definition is that of the kind of a custom object, with any fields.
func (o Object) definition() Object {
	r := o.resource()
	scope := "Cluster"
	if r.namespaced {
		scope = "Namespaced"
	}
	kind := o.Text("kind")
	return Object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": r.plural + "." + r.group,
			// Groups of Kubernetes' own want a word about their review.
			"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, of a lab"},
		},
		"spec": map[string]any{
			"group": r.group, "scope": scope,
			"names": map[string]any{"plural": r.plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"},
			"versions": []any{map[string]any{
				"name": r.version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}
}

// demanded adds what the API demands of an object and no rule looks at, since
// examples are as short as they can be.
func (o Object) demanded() {
	switch o.Text("kind") {
	case "Deployment", "DaemonSet", "StatefulSet":
		if o.Get("spec", "selector") == nil {
			labels := map[string]any{"app": o.Text("metadata", "name")}
			o.Set(labels, "spec", "selector", "matchLabels")
			o.Set(maps.Clone(labels), "spec", "template", "metadata", "labels")
		}
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		hooks, _ := o["webhooks"].([]any)
		for _, hook := range hooks {
			if m, ok := hook.(map[string]any); ok {
				m["sideEffects"], m["admissionReviewVersions"] = "None", []any{"v1"}
			}
		}
	}
}

// stored is the object as this API has it: Calico's own API is served by Calico alone,
// and stores its objects as those of another group, which clients without it read.
func (o Object) stored() {
	if strings.HasPrefix(o.Text("apiVersion"), "projectcalico.org/") {
		o["apiVersion"] = "crd.projectcalico.org/v1"
	}
}

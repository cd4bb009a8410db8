package zonal

import (
	"cmp"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

const (
	// annotation asks for a mirror of the Service it stands on.
	annotation = "holdfast.dev/zonal"
	// owner is who manages what has managedBy of this value.
	owner = "holdfast-zonal"
	// managedBy marks Services of ours, discovery.LabelManagedBy slices.
	managedBy = "app.kubernetes.io/managed-by"
	// suffix makes the name of the mirror, and of its IPv4 slice.
	suffix = "-zonal"
	// suffix6 comes after suffix in the name of the IPv6 slice.
	suffix6 = "-ipv6"
	// maxName bounds the name of a Service (RFC 1035 label).
	maxName = 63
)

// Key names an object within its kind.
type Key struct{ Namespace, Name string }

func (k Key) String() string { return k.Namespace + "/" + k.Name }

// MarshalText makes status documents say "namespace/name".
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

func (k Key) plus(s string) Key { return Key{k.Namespace, k.Name + s} }

func byKey(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Meta is of an object's metadata what matters here: the whole would triple the
// memory that a cluster's Services take.
type Meta struct {
	Name              string                `json:"name"`
	Namespace         string                `json:"namespace"`
	UID               string                `json:"uid"`
	ResourceVersion   string                `json:"resourceVersion"`
	DeletionTimestamp *string               `json:"deletionTimestamp"`
	Labels            map[string]string     `json:"labels"`
	Annotations       map[string]string     `json:"annotations"`
	OwnerReferences   []meta.OwnerReference `json:"ownerReferences"`
}

// Key is the object's.
func (m *Meta) Key() Key { return Key{m.Namespace, m.Name} }

// controlledBy says that a Service of that name controls the object, whatever
// its UID: a Service that was deleted and made again has another.
func (m *Meta) controlledBy(name string) bool {
	return slices.ContainsFunc(m.OwnerReferences, func(r meta.OwnerReference) bool {
		return r.Controller != nil && *r.Controller && r.APIVersion == "v1" && r.Kind == "Service" && r.Name == name
	})
}

// Service is a core/v1 Service.
type Service struct {
	Metadata Meta             `json:"metadata"`
	Spec     core.ServiceSpec `json:"spec"`
}

// ours says that the Service is a mirror that this package made.
func (s *Service) ours() bool {
	base, ok := strings.CutSuffix(s.Metadata.Name, suffix)
	return ok && s.Metadata.Labels[managedBy] == owner && s.Metadata.controlledBy(base)
}

// asked says that the annotation stands there and is not "false".
func (s *Service) asked() bool {
	value, ok := s.Metadata.Annotations[annotation]
	return ok && value != "false"
}

// matters says that the Service has a part here: the rest is not kept in memory.
func (s *Service) matters() bool {
	return s.asked() || strings.HasSuffix(s.Metadata.Name, suffix)
}

func (s *Service) reference() kubeapi.Reference {
	return kubeapi.Reference{APIVersion: "v1", Kind: "Service", Namespace: s.Metadata.Namespace, Name: s.Metadata.Name, UID: s.Metadata.UID}
}

// Slice is a discovery.k8s.io/v1 EndpointSlice.
type Slice struct {
	Metadata    Meta                     `json:"metadata"`
	AddressType discovery.AddressType    `json:"addressType"`
	Endpoints   []discovery.Endpoint     `json:"endpoints"`
	Ports       []discovery.EndpointPort `json:"ports"`
}

// mirror is the name of the mirror that the slice would belong to; false for
// one that is not ours.
func (s *Slice) mirror() (Key, bool) {
	name := s.Metadata.Name
	if s.Metadata.Labels[discovery.LabelManagedBy] != owner {
		return Key{}, false
	}
	for _, candidate := range []string{name, strings.TrimSuffix(name, suffix6)} {
		if strings.HasSuffix(candidate, suffix) && s.Metadata.controlledBy(candidate) {
			return Key{s.Metadata.Namespace, candidate}, true
		}
	}
	return Key{}, false
}

// ours says that the slice is one that this package made.
func (s *Slice) ours() bool { _, ok := s.mirror(); return ok }

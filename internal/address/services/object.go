package services

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// Key names an object within its kind.
type Key struct{ Namespace, Name string }

func (k Key) String() string { return k.Namespace + "/" + k.Name }

// MarshalText makes status documents say "namespace/name".
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Key) UnmarshalText(text []byte) error {
	namespace, name, ok := strings.Cut(string(text), "/")
	if !ok {
		return fmt.Errorf("%.100q is no namespace/name", text)
	}
	*k = Key{namespace, name}
	return nil
}

func byKey(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Meta is of an object's metadata what matters here.
type Meta struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Created         string            `json:"creationTimestamp"` // RFC 3339 in UTC: sorts as time does
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
}

// Key is the object's.
func (m *Meta) Key() Key { return Key{m.Namespace, m.Name} }

// Service is of a core/v1 Service what matters here.
type Service struct {
	Metadata Meta          `json:"metadata"`
	Spec     Spec          `json:"spec"`
	Status   ServiceStatus `json:"status"`
}

// Spec is that of a Service.
type Spec struct {
	Type        core.ServiceType                  `json:"type"`
	Class       *string                           `json:"loadBalancerClass"`
	Address     string                            `json:"loadBalancerIP"`
	ClusterIP   string                            `json:"clusterIP"`
	ExternalIPs []string                          `json:"externalIPs"`
	Ports       []Port                            `json:"ports"`
	Selector    map[string]string                 `json:"selector"`
	Policy      core.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy"`
	Families    []core.IPFamily                   `json:"ipFamilies"`
	Stack       *core.IPFamilyPolicy              `json:"ipFamilyPolicy"`
	// HealthPort is where kube-proxies say whether they have an endpoint of a
	// Service of policy Local; 0 is none.
	HealthPort int32 `json:"healthCheckNodePort"`
}

// Port is one of a Service.
type Port struct {
	Protocol core.Protocol `json:"protocol"`
	Port     int32         `json:"port"`
}

// ServiceStatus is that of a Service.
type ServiceStatus struct {
	LoadBalancer struct {
		Ingress []Ingress `json:"ingress"`
	} `json:"loadBalancer"`
}

// Ingress is where a Service is reached from outside.
type Ingress struct {
	IP       string                   `json:"ip,omitempty"`
	Hostname string                   `json:"hostname,omitempty"`
	Mode     *core.LoadBalancerIPMode `json:"ipMode,omitempty"`
	Ports    []core.PortStatus        `json:"ports,omitempty"`
}

// matters says that the Service has a part here: the rest is not kept in memory.
func (s *Service) matters() bool {
	return s.Spec.Type == core.ServiceTypeLoadBalancer || len(s.Spec.ExternalIPs) > 0
}

// of says that the Service is of our class; "" are those without one.
func (s *Service) of(class string) bool {
	has := ""
	if s.Spec.Class != nil {
		has = *s.Spec.Class
	}
	return s.Spec.Type == core.ServiceTypeLoadBalancer && has == class
}

func (s *Service) local() bool { return s.Spec.Policy == core.ServiceExternalTrafficPolicyLocal }

// addresses are those that the Service has.
func (s *Service) addresses() []netip.Addr {
	var all []netip.Addr
	for _, i := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(i.IP); err == nil && !slices.Contains(all, a.Unmap()) {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// says reports whether the status is what would be written for the addresses.
func (s *Service) says(addresses []netip.Addr) bool {
	same := slices.EqualFunc(s.Status.LoadBalancer.Ingress, addresses, func(i Ingress, a netip.Addr) bool {
		// Servers older than 1.30 keep no mode, and nil means VIP.
		return i.IP == a.String() && i.Hostname == "" && (i.Mode == nil || *i.Mode == core.LoadBalancerIPModeVIP)
	})
	return same
}

// families that the Service has, the first one first; must says which of them it
// cannot do without.
func (s *Service) families() (all []core.IPFamily, must bool) {
	all = s.Spec.Families
	if len(all) == 0 {
		all = []core.IPFamily{core.IPv4Protocol}
		if a, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil && a.Is6() {
			all[0] = core.IPv6Protocol
		}
	}
	return all, s.Spec.Stack == nil || *s.Spec.Stack != core.IPFamilyPolicyPreferDualStack
}

func familyOf(a netip.Addr) core.IPFamily {
	if a.Is4() {
		return core.IPv4Protocol
	}
	return core.IPv6Protocol
}

// Reference is for events about the Service.
func (s *Service) Reference() kubeapi.Reference {
	return kubeapi.Reference{APIVersion: "v1", Kind: "Service", Namespace: s.Metadata.Namespace, Name: s.Metadata.Name, UID: s.Metadata.UID}
}

// LabelExclude on a Node keeps load balancers from it (core/v1,
// LabelNodeExcludeBalancers).
const LabelExclude = core.LabelNodeExcludeBalancers

// node is of a core/v1 Node what matters here.
type node struct {
	Metadata Meta `json:"metadata"`
}

func (n *node) excluded() bool {
	_, ok := n.Metadata.Labels[LabelExclude]
	return ok
}

// Slice is of a discovery.k8s.io/v1 EndpointSlice what matters here.
type Slice struct {
	Metadata  Meta       `json:"metadata"`
	Endpoints []Endpoint `json:"endpoints"`
}

// Endpoint is one of a slice.
type Endpoint struct {
	Node       *string                      `json:"nodeName"`
	Conditions discovery.EndpointConditions `json:"conditions"`
}

// service is the one that the slice belongs to.
func (s *Slice) service() Key {
	return Key{s.Metadata.Namespace, s.Metadata.Labels[discovery.LabelServiceName]}
}

// nodes are those with a ready endpoint. Nil means ready
// (discovery.k8s.io/v1, EndpointConditions.Ready).
func (s *Slice) nodes() []string {
	var all []string
	for _, e := range s.Endpoints {
		if e.Node != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) && !slices.Contains(all, *e.Node) {
			all = append(all, *e.Node)
		}
	}
	return all
}

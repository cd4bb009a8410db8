package zonal

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Refusal is why a Service gets no mirror.
type Refusal struct {
	// Reason is one word for Events and metrics.
	Reason string
	// Message is a sentence with the remedy.
	Message string
	// Withdraw says that a mirror from before leads nowhere now and is removed.
	Withdraw bool
}

// mirror is what a Service's mirror has to look like.
type mirror struct {
	real   *Service
	name   Key
	slices map[Key]address
}

// address is one endpoint.
type address struct {
	family discovery.AddressType
	ip     string
}

// mirrorOf says what the mirror of a Service that asks for one has to be.
func mirrorOf(s *Service) (mirror, *Refusal) {
	name := s.Metadata.Name
	switch value := s.Metadata.Annotations[annotation]; {
	case value != "true":
		return mirror{}, &Refusal{Reason: "BadAnnotation", Message: fmt.Sprintf(`annotation %s: %.40q; write "true", or "false" for none`, annotation, value)}
	case s.ours():
		return mirror{}, &Refusal{Reason: "OwnMirror", Message: "this is a mirror itself; annotate " + strings.TrimSuffix(name, suffix)}
	case len(name)+len(suffix) > maxName:
		return mirror{}, &Refusal{Reason: "NameTooLong", Message: fmt.Sprintf("%s%s would have %d letters, a Service's name has at most %d; give the Service a name of at most %d", name, suffix, len(name)+len(suffix), maxName, maxName-len(suffix))}
	case s.Spec.Type == core.ServiceTypeExternalName:
		return mirror{}, &Refusal{Reason: "ExternalName", Message: "a Service of type ExternalName has no ClusterIP to point at; remove the annotation", Withdraw: true}
	case s.Spec.ClusterIP == core.ClusterIPNone:
		return mirror{}, &Refusal{Reason: "Headless", Message: "a headless Service has no ClusterIP to point at; annotate one that has, with the same selector", Withdraw: true}
	case len(s.Spec.Ports) == 0:
		return mirror{}, &Refusal{Reason: "NoPorts", Message: "the Service has no ports to mirror; add one", Withdraw: true}
	}
	m := mirror{real: s, name: s.Metadata.Key().plus(suffix), slices: map[Key]address{}}
	for _, ip := range clusterIPs(&s.Spec) {
		parsed, err := netip.ParseAddr(ip)
		switch {
		case err != nil:
		case parsed.Is4():
			m.slices[m.name] = address{discovery.AddressTypeIPv4, ip}
		default:
			m.slices[m.name.plus(suffix6)] = address{discovery.AddressTypeIPv6, ip}
		}
	}
	if len(m.slices) == 0 {
		return mirror{}, &Refusal{Reason: "NoClusterIP", Message: "the Service has no ClusterIP yet; wait for the API to assign one"}
	}
	return m, nil
}

func clusterIPs(spec *core.ServiceSpec) []string {
	if len(spec.ClusterIPs) > 0 {
		return spec.ClusterIPs
	}
	return []string{spec.ClusterIP}
}

// reference is to a Service as the owner of what this package makes. It does not
// hold up the owner's deletion, which would take a right of its own.
func reference(name, uid string) []meta.OwnerReference {
	yes, no := true, false
	return []meta.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: name, UID: uidOf(uid), Controller: &yes, BlockOwnerDeletion: &no}}
}

// owned says that the object is controlled as it should be, and by nobody else.
func owned(m *Meta, name, uid string) bool {
	return reflect.DeepEqual(m.OwnerReferences, reference(name, uid))
}

// ports are those of the Service. The number stays: the endpoint is a ClusterIP,
// behind which the datapath knows the target's.
func (m mirror) ports() []core.ServicePort {
	var all []core.ServicePort
	for _, p := range m.real.Spec.Ports {
		all = append(all, core.ServicePort{
			Name: p.Name, Protocol: protocol(p.Protocol), AppProtocol: p.AppProtocol, Port: p.Port, TargetPort: intstr.FromInt32(p.Port),
		})
	}
	return all
}

func protocol(p core.Protocol) core.Protocol {
	if p == "" {
		return core.ProtocolTCP
	}
	return p
}

func (m mirror) slicePorts() []discovery.EndpointPort {
	var all []discovery.EndpointPort
	for _, p := range m.ports() {
		all = append(all, discovery.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, AppProtocol: p.AppProtocol, Port: &p.Port})
	}
	return all
}

// fields are those of the mirror's spec that this package sets. nil removes.
func (m mirror) fields() map[string]any {
	return map[string]any{
		"type": core.ServiceTypeClusterIP, "ports": m.ports(), "selector": nil,
		"ipFamilies": m.real.Spec.IPFamilies, "ipFamilyPolicy": m.real.Spec.IPFamilyPolicy,
		// The one endpoint is in no zone; a preference would lose it.
		"trafficDistribution": nil, "internalTrafficPolicy": core.ServiceInternalTrafficPolicyCluster,
		"externalName": nil, "loadBalancerSourceRanges": nil,
	}
}

func (m mirror) labels() map[string]string { return map[string]string{managedBy: owner} }

// create is the body of a new mirror.
func (m mirror) create() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{
			"name": m.name.Name, "namespace": m.name.Namespace, "labels": m.labels(),
			"ownerReferences": reference(m.real.Metadata.Name, m.real.Metadata.UID),
		},
		"spec": m.fields(),
	}
}

// patch makes have, a mirror, what it has to be.
func (m mirror) patch(have *Service) map[string]any {
	return map[string]any{
		"metadata": map[string]any{
			"resourceVersion": have.Metadata.ResourceVersion, "labels": m.labels(),
			"ownerReferences": reference(m.real.Metadata.Name, m.real.Metadata.UID),
		},
		"spec": m.fields(),
	}
}

// differs is in which way have is not what it has to be; "" when it is.
func (m mirror) differs(have *Service) string {
	spec := &have.Spec
	switch {
	case !owned(&have.Metadata, m.real.Metadata.Name, m.real.Metadata.UID):
		return "owner"
	case spec.Type != core.ServiceTypeClusterIP || spec.ExternalName != "" || len(spec.LoadBalancerSourceRanges) > 0:
		return "type"
	case len(spec.Selector) > 0:
		return "selector"
	case !samePorts(spec.Ports, m.ports()):
		return "ports"
	case !slices.Equal(spec.IPFamilies, m.real.Spec.IPFamilies) || !reflect.DeepEqual(spec.IPFamilyPolicy, m.real.Spec.IPFamilyPolicy):
		return "families"
	case spec.TrafficDistribution != nil, spec.InternalTrafficPolicy == nil || *spec.InternalTrafficPolicy != core.ServiceInternalTrafficPolicyCluster:
		return "traffic policy"
	}
	return ""
}

// stuck says that have cannot become what it has to be: the API changes neither
// the first family nor the absence of a ClusterIP.
func (m mirror) stuck(have *Service) bool {
	a, b := have.Spec.IPFamilies, m.real.Spec.IPFamilies
	return have.Spec.ClusterIP == core.ClusterIPNone ||
		have.Spec.Type != core.ServiceTypeExternalName && len(a) > 0 && len(b) > 0 && a[0] != b[0]
}

func samePorts(have, want []core.ServicePort) bool {
	return slices.EqualFunc(have, want, func(a, b core.ServicePort) bool {
		return a.Name == b.Name && protocol(a.Protocol) == b.Protocol && reflect.DeepEqual(a.AppProtocol, b.AppProtocol) &&
			a.Port == b.Port && a.TargetPort == b.TargetPort && a.NodePort == 0
	})
}

// sliceFields are all that a slice has beside its metadata and address type.
func (m mirror) sliceFields(a address) map[string]any {
	ready, terminating := true, false
	return map[string]any{
		"endpoints": []discovery.Endpoint{{
			Addresses: []string{a.ip}, Conditions: discovery.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: &terminating},
		}},
		"ports": m.slicePorts(),
	}
}

func (m mirror) sliceLabels() map[string]string {
	return map[string]string{discovery.LabelServiceName: m.name.Name, discovery.LabelManagedBy: owner}
}

// createSlice is the body of a new slice; uid is the mirror's.
func (m mirror) createSlice(name Key, uid string) map[string]any {
	body := m.sliceFields(m.slices[name])
	body["apiVersion"], body["kind"], body["addressType"] = "discovery.k8s.io/v1", "EndpointSlice", m.slices[name].family
	body["metadata"] = map[string]any{
		"name": name.Name, "namespace": name.Namespace, "labels": m.sliceLabels(), "ownerReferences": reference(m.name.Name, uid),
	}
	return body
}

func (m mirror) patchSlice(have *Slice, uid string) map[string]any {
	body := m.sliceFields(m.slices[have.Metadata.Key()])
	body["metadata"] = map[string]any{
		"resourceVersion": have.Metadata.ResourceVersion, "labels": m.sliceLabels(), "ownerReferences": reference(m.name.Name, uid),
	}
	return body
}

// sliceDiffers is in which way a slice is not what it has to be.
func (m mirror) sliceDiffers(have *Slice, uid string) string {
	want := m.slices[have.Metadata.Key()]
	if len(have.Endpoints) != 1 {
		return "endpoints"
	}
	e := have.Endpoints[0]
	c := e.Conditions
	switch {
	case !slices.Equal(e.Addresses, []string{want.ip}), e.Zone != nil, e.Hints != nil, e.NodeName != nil, e.Hostname != nil, e.TargetRef != nil:
		return "endpoints"
	case c.Ready != nil && !*c.Ready, c.Serving != nil && !*c.Serving, c.Terminating != nil && *c.Terminating:
		return "endpoints"
	case !sameSlicePorts(have.Ports, m.slicePorts()):
		return "ports"
	case have.Metadata.Labels[discovery.LabelServiceName] != m.name.Name:
		return "labels"
	case !owned(&have.Metadata, m.name.Name, uid):
		return "owner"
	}
	return ""
}

func sameSlicePorts(have, want []discovery.EndpointPort) bool {
	return slices.EqualFunc(have, want, func(a, b discovery.EndpointPort) bool {
		return deref(a.Name) == deref(b.Name) && protocol(deref(a.Protocol)) == deref(b.Protocol) &&
			reflect.DeepEqual(a.AppProtocol, b.AppProtocol) && deref(a.Port) == deref(b.Port)
	})
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

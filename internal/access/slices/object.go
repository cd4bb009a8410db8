package slices

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	stdslices "slices"
	"strings"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// portName is what clients of the Service find the port by.
const portName = "https"

// labelProxy hides a slice from datapaths that are not of that name.
const labelProxy = "service.kubernetes.io/service-proxy-name"

// ownerOf says who wrote a slice.
func ownerOf(s *discovery.EndpointSlice) plan.Owner {
	by, labelled := s.Labels[discovery.LabelManagedBy]
	switch {
	case by == plan.ManagedBy:
		return plan.Ours
	case s.Name == plan.ServiceName && !labelled && s.Labels[discovery.LabelServiceName] == plan.ServiceName:
		return plan.Reconciler
	}
	return plan.Foreign
}

// sliceOf reads a slice other than the one named kubernetes.
func sliceOf(s *discovery.EndpointSlice) plan.Slice {
	out := plan.Slice{
		Name: s.Name, Version: s.ResourceVersion, Owner: ownerOf(s), Family: plan.Family(s.AddressType),
		UnreadyBy: s.Annotations[plan.UnreadyByAnnotation], Lean: s.Annotations[plan.ReliedOnAnnotation],
		ReadyFrom: s.Annotations[plan.ReadyFromAnnotation],
	}
	for i := range s.Endpoints {
		out.Ready = out.Ready || isReady(&s.Endpoints[i])
	}
	if len(s.Endpoints) > 0 {
		e := &s.Endpoints[0]
		out.Node, out.Zone, out.Hints = deref(e.NodeName), deref(e.Zone), hintsOf(e)
		if len(e.Addresses) > 0 {
			out.Address = e.Addresses[0]
		}
	}
	if len(s.Ports) > 0 {
		out.Port = deref(s.Ports[0].Port)
	}
	want := discovery.EndpointSlice{}
	fillSlice(&want, &out)
	out.Odd = out.Owner == plan.Ours && !sameShape(&want, s)
	return out
}

// sameShape says that what was read is what would be written for it.
func sameShape(want, have *discovery.EndpointSlice) bool {
	if want.AddressType != have.AddressType || len(have.Endpoints) != len(want.Endpoints) || !samePorts(want.Ports, have.Ports) {
		return false
	}
	for _, label := range []string{discovery.LabelServiceName, discovery.LabelManagedBy, labelProxy} {
		w, wanted := want.Labels[label]
		if h, there := have.Labels[label]; w != h || wanted != there {
			return false
		}
	}
	for i := range want.Endpoints {
		if !sameEndpoint(&want.Endpoints[i], &have.Endpoints[i]) {
			return false
		}
	}
	return true
}

func samePorts(want, have []discovery.EndpointPort) bool {
	return stdslices.EqualFunc(want, have, func(w, h discovery.EndpointPort) bool {
		return deref(w.Name) == deref(h.Name) && deref(w.Port) == deref(h.Port) && deref(w.Protocol) == cmp.Or(deref(h.Protocol), core.ProtocolTCP)
	})
}

func sameEndpoint(want, have *discovery.Endpoint) bool {
	return stdslices.Equal(want.Addresses, have.Addresses) && isReady(want) == isReady(have) &&
		!deref(have.Conditions.Terminating) && deref(want.NodeName) == deref(have.NodeName) &&
		deref(want.Zone) == deref(have.Zone) && stdslices.Equal(hintsOf(want), hintsOf(have)) &&
		(have.Hints == nil || len(have.Hints.ForNodes) == 0)
}

// hintsOf are the zones that an endpoint hints, sorted, each once.
func hintsOf(e *discovery.Endpoint) []string {
	if e.Hints == nil {
		return nil
	}
	var all []string
	for _, z := range e.Hints.ForZones {
		all = append(all, z.Name)
	}
	stdslices.Sort(all)
	return stdslices.Compact(all)
}

func isReady(e *discovery.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

// combinedOf reads the slice named kubernetes.
func combinedOf(s *discovery.EndpointSlice) *plan.Combined {
	out := plan.Combined{
		Version: s.ResourceVersion, Owner: ownerOf(s), Family: plan.Family(s.AddressType), Probe: s.Labels[plan.ProbeLabel],
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		for _, a := range e.Addresses {
			m := plan.Member{Address: a, Node: deref(e.NodeName), Zone: deref(e.Zone), Ready: isReady(e)}
			if len(s.Ports) > 0 {
				m.Port = deref(s.Ports[0].Port)
			}
			out.Members = append(out.Members, m)
		}
	}
	stdslices.SortFunc(out.Members, func(a, b plan.Member) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Node, b.Node))
	})
	if out.Owner == plan.Ours {
		want := discovery.EndpointSlice{}
		fillCombined(&want, &out)
		out.Odd = !sameShape(&want, s)
	}
	return &out
}

// fillSlice makes an object what a plan says, except for its name and version.
func fillSlice(o *discovery.EndpointSlice, s *plan.Slice) {
	o.AddressType = discovery.AddressType(s.Family)
	label(&o.Labels, discovery.LabelServiceName, plan.ServiceName)
	label(&o.Labels, discovery.LabelManagedBy, plan.ManagedBy)
	label(&o.Labels, labelProxy, "")
	label(&o.Annotations, plan.UnreadyByAnnotation, s.UnreadyBy)
	label(&o.Annotations, plan.ReliedOnAnnotation, s.Lean)
	label(&o.Annotations, plan.ReadyFromAnnotation, s.ReadyFrom)
	o.Ports = portsOf(s.Port)
	o.Endpoints = []discovery.Endpoint{endpoint(plan.Member{Address: s.Address, Node: s.Node, Zone: s.Zone, Ready: s.Ready}, s.Hints)}
}

// fillCombined does the same for the slice named kubernetes. Its readers ask for
// it by name; without the label of its Service kube-proxy does not look at it,
// and with a proxy's name Cilium does not.
func fillCombined(o *discovery.EndpointSlice, c *plan.Combined) {
	o.AddressType = discovery.AddressType(c.Family)
	label(&o.Labels, discovery.LabelServiceName, "")
	label(&o.Labels, discovery.LabelManagedBy, plan.ManagedBy)
	label(&o.Labels, labelProxy, plan.ProxyName)
	label(&o.Labels, plan.ProbeLabel, c.Probe)
	o.Endpoints, o.Ports = nil, nil
	for _, m := range c.Members {
		o.Endpoints = append(o.Endpoints, endpoint(m, nil))
	}
	if len(c.Members) > 0 {
		o.Ports = portsOf(c.Members[0].Port)
	}
}

// label sets a label or annotation; an empty value takes it away.
func label(all *map[string]string, key, value string) {
	switch {
	case value == "":
		delete(*all, key)
	case *all == nil:
		*all = map[string]string{key: value}
	default:
		(*all)[key] = value
	}
}

func portsOf(port int32) []discovery.EndpointPort {
	name, protocol := portName, core.ProtocolTCP
	return []discovery.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}}
}

func endpoint(m plan.Member, hints []string) discovery.Endpoint {
	terminating := false
	e := discovery.Endpoint{
		Addresses:  []string{m.Address},
		Conditions: discovery.EndpointConditions{Ready: &m.Ready, Serving: &m.Ready, Terminating: &terminating},
	}
	if m.Node != "" {
		e.NodeName = &m.Node
	}
	if m.Zone != "" {
		e.Zone = &m.Zone
	}
	if len(hints) > 0 {
		e.Hints = &discovery.EndpointHints{}
		for _, h := range hints {
			e.Hints.ForZones = append(e.Hints.ForZones, discovery.ForZone{Name: h})
		}
	}
	return e
}

// bare is a new object of that name.
func bare(name string) discovery.EndpointSlice {
	return discovery.EndpointSlice{
		TypeMeta:   meta.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: meta.ObjectMeta{Namespace: plan.Namespace, Name: name},
	}
}

// Names and labels of Leases.
const (
	leaseNamespace = "kube-system"
	leasePrefix    = "holdfast-slices-"
	// lockName is the short Lease that what takes away is written under.
	lockName = "holdfast-slices"
	// labelIdentity marks the Leases of apiservers (controlplane/apiserver,
	// IdentityLeaseComponentLabelKey).
	labelIdentity = "apiserver.kubernetes.io/identity"
	identityValue = "kube-apiserver"
	labelManaged  = "app.kubernetes.io/managed-by"
)

// leaseName is the Lease of a node's agent.
func leaseName(node string) string { return leasePrefix + node }

// leaseOf reads a Lease; false says that it is nobody's sign of life.
func leaseOf(l *coordination.Lease) (plan.Lease, bool) {
	out := plan.Lease{Name: l.Name, Token: l.ResourceVersion, Holder: deref(l.Spec.HolderIdentity)}
	switch node, ok := strings.CutPrefix(l.Name, leasePrefix); {
	case l.Labels[labelIdentity] == identityValue:
		out.Role = plan.Identity
		return out, true
	case ok && node != "" && l.Labels[labelManaged] == plan.ManagedBy:
		out.Role, out.Node = plan.Agent, node
		out.Identity = l.Annotations[plan.ApiserverAnnotation]
		out.Distances = parseDistances(l.Annotations[plan.DistanceAnnotation])
		return out, true
	}
	return plan.Lease{}, false
}

// mostDistances bounds what is believed of an annotation.
const mostDistances = 256

// parseDistances reads {"node": milliseconds}; what is anything else says nothing.
func parseDistances(text string) []plan.Distance {
	var raw map[string]int
	if text == "" || len(text) > 64<<10 || json.Unmarshal([]byte(text), &raw) != nil || len(raw) > mostDistances {
		return nil
	}
	var all []plan.Distance
	for node, ms := range raw {
		if ms >= 0 {
			all = append(all, plan.Distance{Node: node, Millis: ms})
		}
	}
	stdslices.SortFunc(all, func(a, b plan.Distance) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// formatDistances is what parseDistances reads.
func formatDistances(all []plan.Distance) string {
	raw := make(map[string]int, len(all))
	for _, d := range all {
		raw[d.Node] = d.Millis
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return "{}" // which cannot be: strings and numbers
	}
	return string(text)
}

// internalIPs are the addresses of a Node by which its apiserver is reached, the
// first of each family.
func internalIPs(node *core.Node) []plan.Address {
	var all []plan.Address
	for _, a := range node.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if a.Type != core.NodeInternalIP || err != nil {
			continue
		}
		address := addressOf(ip)
		if !stdslices.ContainsFunc(all, func(o plan.Address) bool { return o.Family == address.Family }) {
			all = append(all, address)
		}
	}
	return all
}

func addressOf(ip netip.Addr) plan.Address {
	if ip = ip.Unmap(); ip.Is4() {
		return plan.Address{Family: plan.IPv4, IP: ip.String()}
	}
	return plan.Address{Family: plan.IPv6, IP: ip.String()}
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// readObject decodes an answer of the API.
func readObject[T any](what string, data []byte) (T, error) {
	var object T
	if err := json.Unmarshal(data, &object); err != nil {
		return object, fmt.Errorf("read %s: the answer is none; is this a Kubernetes API?", what)
	}
	return object, nil
}

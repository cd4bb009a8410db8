package slices

import (
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// serviceAt is the Service at an address.
func serviceAt(ip string, port int32) core.Service {
	s := core.Service{ObjectMeta: bare(plan.ServiceName).ObjectMeta}
	s.Spec.ClusterIP, s.Spec.Ports = ip, []core.ServicePort{{Name: portName, Port: port}}
	return s
}

// ourSlice is one of ours, ready and hinted for its zone.
func ourSlice(node, address, zone string, port int32) *discovery.EndpointSlice {
	o := bare(plan.SliceName(node, plan.IPv4))
	fillSlice(&o, &plan.Slice{Family: plan.IPv4, Node: node, Address: address, Port: port, Zone: zone, Hints: []string{zone}, Ready: true})
	return &o
}

func TestPathOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *core.Service, o *discovery.EndpointSlice)
		want   string
	}{
		{"ours", func(*core.Service, *discovery.EndpointSlice) {}, "10.96.0.1:443 10.0.0.1:6443/a/[a]/true"},
		{"unready", func(_ *core.Service, o *discovery.EndpointSlice) { *o.Endpoints[0].Conditions.Ready = false }, "10.96.0.1:443 10.0.0.1:6443/a/[a]/false"},
		{"the apiservers'", func(_ *core.Service, o *discovery.EndpointSlice) {
			o.Name, o.Endpoints = plan.ServiceName, []discovery.Endpoint{{Addresses: []string{"10.0.0.2"}}}
		}, "10.96.0.1:443 10.0.0.2:6443//[]/true"},
		{"that for readers by name", func(_ *core.Service, o *discovery.EndpointSlice) {
			delete(o.Labels, discovery.LabelServiceName)
			o.Labels[labelProxy] = plan.ProxyName
		}, "10.96.0.1:443"},
		{"one hidden from datapaths", func(_ *core.Service, o *discovery.EndpointSlice) { o.Labels[labelProxy] = "x" }, "10.96.0.1:443"},
		{"the other family", func(_ *core.Service, o *discovery.EndpointSlice) { o.AddressType = discovery.AddressTypeIPv6 }, "10.96.0.1:443"},
		{"another port", func(s *core.Service, _ *discovery.EndpointSlice) { s.Spec.Ports[0].Name = "web" }, "10.96.0.1:443"},
		{"IPv6", func(s *core.Service, o *discovery.EndpointSlice) {
			s.Spec.ClusterIP, o.AddressType, o.Endpoints[0].Addresses = "fd00::1", discovery.AddressTypeIPv6, []string{"fd01::1"}
		}, "[fd00::1]:443 [fd01::1]:6443/a/[a]/true"},
		{"no address", func(s *core.Service, _ *discovery.EndpointSlice) { s.Spec.ClusterIP = core.ClusterIPNone }, `the Service default/kubernetes has no address or no port (clusterIP "None")`},
	} {
		t.Run(c.name, func(t *testing.T) {
			service, o := serviceAt("10.96.0.1", 443), ourSlice("cp1", "10.0.0.1", "a", 6443)
			c.change(&service, o)
			p, err := pathOver(&service, []*discovery.EndpointSlice{o})
			got := p.address
			for _, e := range p.endpoints {
				got += fmt.Sprintf(" %s/%s/%v/%t", e.Address, e.Zone, e.Hints, e.Ready)
			}
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if _, err := pathOver(nil, nil); err == nil || !strings.Contains(err.Error(), "no Service default/kubernetes") {
		t.Error(err)
	}
}

package slices

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	stdslices "slices"
	"strconv"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/landing"
	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// path is what clients of the Service see of it: its address and endpoints.
type path struct {
	// address is host and port of the Service.
	address   string
	endpoints []landing.Endpoint
	// affinity says that the Service keeps a client with one endpoint.
	affinity bool
}

// pathOver reads it from the objects, as kube-proxy does: slices that name the
// Service and no other proxy, of the family of its address, with a port of its
// port's name.
func pathOver(service *core.Service, all []*discovery.EndpointSlice) (path, error) {
	if service == nil {
		return path{}, errors.New("there is no Service default/kubernetes; an apiserver makes it anew within seconds")
	}
	ip, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil || len(service.Spec.Ports) == 0 {
		return path{}, fmt.Errorf("the Service default/kubernetes has no address or no port (clusterIP %q)", service.Spec.ClusterIP)
	}
	port := &service.Spec.Ports[0]
	p := path{
		address:  net.JoinHostPort(ip.String(), strconv.Itoa(int(port.Port))),
		affinity: service.Spec.SessionAffinity == core.ServiceAffinityClientIP,
	}
	family := addressOf(ip).Family
	for _, s := range all {
		_, elsewhere := s.Labels[labelProxy]
		if elsewhere || s.Labels[discovery.LabelServiceName] != plan.ServiceName || plan.Family(s.AddressType) != family {
			continue
		}
		p.endpoints = append(p.endpoints, endpointsAt(s, port.Name)...)
	}
	stdslices.SortStableFunc(p.endpoints, func(a, b landing.Endpoint) int { return cmp.Compare(a.Address, b.Address) })
	return p, nil
}

// endpointsAt are the endpoints of a slice at the port of that name.
func endpointsAt(s *discovery.EndpointSlice, name string) []landing.Endpoint {
	var all []landing.Endpoint
	for _, port := range s.Ports {
		if deref(port.Name) != name || port.Port == nil {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if len(e.Addresses) == 0 {
				continue
			}
			all = append(all, landing.Endpoint{
				Address: net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*port.Port))),
				Node:    deref(e.NodeName), Zone: deref(e.Zone), Hints: hintsOf(e), Ready: isReady(e),
			})
		}
	}
	return all
}

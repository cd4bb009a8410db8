package source

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// endpointSlice is discovery.k8s.io/v1 EndpointSlice, as far as it matters here.
type endpointSlice struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	AddressType string      `json:"addressType"`
	Endpoints   []endpoint  `json:"endpoints"`
	Ports       []slicePort `json:"ports"`
}

type endpoint struct {
	// Addresses: none beyond the first has a meaning (its API documentation).
	Addresses  []string `json:"addresses"`
	Conditions struct {
		Ready       *bool `json:"ready"`
		Serving     *bool `json:"serving"`
		Terminating *bool `json:"terminating"`
	} `json:"conditions"`
	Hostname  *string `json:"hostname"`
	NodeName  *string `json:"nodeName"`
	Zone      *string `json:"zone"`
	TargetRef *struct {
		Name string `json:"name"`
	} `json:"targetRef"`
}

type slicePort struct {
	Name     *string `json:"name"`
	Protocol *string `json:"protocol"`
	Port     *int32  `json:"port"`
}

// backends unites the slices of one Service. port is the name of the port to
// use in slices that have several. reasons tell what was left out. An endpoint
// may stand in two slices while it moves from one to the other: then it is
// listed once, as the better of the two.
func backends(all map[string]endpointSlice, port string) (list []Backend, reasons []string) {
	at := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		number, err := s.port(port)
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("slice %s: %v", name, err))
			continue
		}
		for _, e := range s.Endpoints {
			b, err := s.backend(e, number)
			if err != nil {
				reasons = append(reasons, fmt.Sprintf("slice %s: %v", name, err))
				continue
			}
			if i, ok := at[b.Address]; !ok {
				at[b.Address] = len(list)
				list = append(list, b)
			} else if better(b, list[i]) {
				list[i] = b
			}
		}
	}
	return list, reasons
}

func better(a, b Backend) bool {
	if a.Serving != b.Serving {
		return a.Serving
	}
	return !a.Terminating && b.Terminating
}

// port returns the number of the TCP port of that name, or of the only one.
func (s *endpointSlice) port(name string) (int32, error) {
	if s.AddressType != "IPv4" && s.AddressType != "IPv6" {
		return 0, fmt.Errorf("addressType %q: only IPv4 and IPv6 are used", s.AddressType)
	}
	var tcp []slicePort
	for _, p := range s.Ports {
		if deref(p.Protocol, "TCP") == "TCP" {
			tcp = append(tcp, p)
		}
	}
	i := slices.IndexFunc(tcp, func(p slicePort) bool { return deref(p.Name, "") == name })
	if i < 0 && len(tcp) == 1 {
		i = 0
	}
	switch {
	case i < 0:
		return 0, fmt.Errorf("no TCP port named %q among %d; name the one to use", name, len(tcp))
	case tcp[i].Port == nil:
		return 0, fmt.Errorf("port %q has no number", name)
	case *tcp[i].Port < 1 || *tcp[i].Port > 65535:
		return 0, fmt.Errorf("port %d: not from 1 to 65535", *tcp[i].Port)
	}
	return *tcp[i].Port, nil
}

func (s *endpointSlice) backend(e endpoint, port int32) (Backend, error) {
	if len(e.Addresses) == 0 {
		return Backend{}, fmt.Errorf("an endpoint without address")
	}
	ip, err := netip.ParseAddr(e.Addresses[0])
	if err != nil {
		return Backend{}, fmt.Errorf("address %.80q: not an IP address", e.Addresses[0])
	}
	if ip = ip.Unmap(); ip.Is4() != (s.AddressType == "IPv4") {
		return Backend{}, fmt.Errorf("address %s: of the wrong family in a slice of %s", ip, s.AddressType)
	}
	b := Backend{
		Network: "tcp", Address: netip.AddrPortFrom(ip, uint16(port)).String(),
		Zone: deref(e.Zone, ""), Node: deref(e.NodeName, ""), Name: deref(e.Hostname, ""),
		// Unset means ready; serving falls back to it for slices from before 1.22.
		Serving:     deref(e.Conditions.Serving, deref(e.Conditions.Ready, true)),
		Terminating: deref(e.Conditions.Terminating, false),
	}
	if e.TargetRef != nil {
		fill(&b.Name, e.TargetRef.Name)
	}
	return b, nil
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

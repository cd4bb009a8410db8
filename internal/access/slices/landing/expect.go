package landing

import (
	"fmt"
	"slices"
	"strings"
)

// Endpoint is one address of the Service, as an EndpointSlice names it.
type Endpoint struct {
	// Address is host and port.
	Address string
	Node    string
	Zone    string
	// Hints are the zones of hints.forZones.
	Hints []string
	Ready bool
}

// Expectation is where connections of a node go if its datapath honours hints.
type Expectation struct {
	// Addresses are sorted, each once; none where Doubt says why.
	Addresses []string
	// Others are the ready ones that are left out.
	Others []string
	// Doubt is why connections may go anywhere, or why it would not show that
	// they do, with the remedy; "" where strays can be told.
	Doubt string
}

// Expect follows kube-proxy's rule (pkg/proxy/topology.go,
// topologyModeFromHints): hints count while every ready endpoint has some and
// one is for the zone.
func Expect(node, zone string, all []Endpoint) Expectation {
	var inside, outside, bare []string
	for i := range all {
		e := &all[i]
		switch {
		case !e.Ready:
		case len(e.Hints) == 0:
			bare = append(bare, e.Address)
		case slices.Contains(e.Hints, zone):
			inside = append(inside, e.Address)
		default:
			outside = append(outside, e.Address)
		}
	}
	slices.Sort(inside)
	inside = slices.Compact(inside)
	outside = slices.DeleteFunc(outside, func(a string) bool { return slices.Contains(inside, a) })
	slices.Sort(outside)
	outside = slices.Compact(outside)
	doubt := ""
	switch {
	case zone == "":
		doubt = fmt.Sprintf("node %s has no zone: kubectl label node %s topology.kubernetes.io/zone=NAME", node, node)
	case len(bare) > 0:
		doubt = fmt.Sprintf("%s has no hint, which switches zones off for all: let `holdfast slices` alone publish endpoints (see holdfast slices status)", list(bare))
	case len(inside)+len(outside) == 0:
		doubt = "no endpoint is ready: mend an apiserver"
	case len(inside) == 0:
		doubt = fmt.Sprintf("no ready endpoint is hinted for zone %s, so its connections go to all: see holdfast slices status", zone)
	case len(outside) == 0:
		return Expectation{Addresses: inside, Doubt: fmt.Sprintf("every ready endpoint is hinted for zone %s: it cannot show whether zones are honoured; try again when another zone has one, too", zone)}
	}
	if doubt != "" {
		return Expectation{Doubt: doubt}
	}
	return Expectation{Addresses: inside, Others: outside}
}

// Has says that the address is where connections should go.
func (e *Expectation) Has(address string) bool { return slices.Contains(e.Addresses, address) }

// share is the part of the connections that would stay by chance, were hints
// passed over: 1 where all of them would.
func (e *Expectation) share() float64 {
	if e.Doubt != "" || len(e.Others) == 0 {
		return 1
	}
	return float64(len(e.Addresses)) / float64(len(e.Addresses)+len(e.Others))
}

func (e *Expectation) equal(o *Expectation) bool {
	return e.Doubt == o.Doubt && slices.Equal(e.Addresses, o.Addresses) && slices.Equal(e.Others, o.Others)
}

// list names the first few of many.
func list(all []string) string {
	if few := 3; len(all) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:few], ", "), len(all)-few)
	}
	return strings.Join(all, ", ")
}

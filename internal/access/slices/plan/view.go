package plan

import "slices"

// Family is an address type of EndpointSlices.
type Family string

const (
	IPv4 Family = "IPv4"
	IPv6 Family = "IPv6"
)

var families = [...]Family{IPv4, IPv6}

// Owner says who wrote an object.
type Owner uint8

const (
	// Foreign is nobody that the plan knows; it is never written.
	Foreign Owner = iota
	// Ours carries ManagedBy.
	Ours
	// Reconciler is the apiservers' own: the slice kubernetes with the label
	// kubernetes.io/service-name and without ManagedBy.
	Reconciler
)

// Slice is what matters of an EndpointSlice in default, other than the one
// named kubernetes, that belongs to the Service kubernetes: it has the label
// kubernetes.io/service-name=kubernetes, or is ours, or has one of our names.
type Slice struct {
	Name string
	// Version is the resourceVersion that was read. In a Write it is the one
	// that must still stand; empty creates.
	Version string
	Owner   Owner
	Family  Family
	Node    string
	Address string
	Port    int32
	Zone    string
	// Hints are the zones of hints.forZones, sorted, each once. The API takes
	// up to MaxHints.
	Hints []string
	// Ready is conditions.ready; absent means true.
	Ready bool
	// UnreadyBy is UnreadyByAnnotation, or empty.
	UnreadyBy string
	// ReadyFrom is ReadyFromAnnotation: the Version that its owner made ready when
	// it last turned so, empty for one that was published ready. Only its change
	// matters, which a watch cannot hide that misses what was in between.
	ReadyFrom string
	// Lean is ReliedOnAnnotation: which state of which slices somebody wanted
	// to end, relying on this one. Its change is what keeps the last server of a
	// zone; what it says only chooses between two adopters.
	Lean string
	// Odd says that the object is ours but not in the shape we write: not one
	// endpoint with one address and one port named https, or labels missing.
	// Its owner rewrites it. Ready is then whether any endpoint is.
	Odd bool
}

// Hinted says that the slice hints the zone.
func (s *Slice) Hinted(zone string) bool { return slices.Contains(s.Hints, zone) }

func (s *Slice) equal(o *Slice) bool {
	return s.Name == o.Name && s.Owner == o.Owner && s.Family == o.Family && s.Node == o.Node && s.Address == o.Address &&
		s.Port == o.Port && s.Zone == o.Zone && s.Ready == o.Ready && s.UnreadyBy == o.UnreadyBy && s.ReadyFrom == o.ReadyFrom && s.Lean == o.Lean &&
		s.Odd == o.Odd && slices.Equal(s.Hints, o.Hints)
}

// Member is one endpoint of the slice kubernetes.
type Member struct {
	Address, Node, Zone string
	Port                int32
	Ready               bool
}

// Combined is what matters of the EndpointSlice named kubernetes. When it is
// ours it has ManagedBy and service.kubernetes.io/service-proxy-name=holdfast
// and not kubernetes.io/service-name, so that no datapath reads it.
type Combined struct {
	Version string
	Owner   Owner
	Family  Family
	// Probe is the value of ProbeLabel: the node that put it there, or empty.
	Probe string
	// Members are sorted by address.
	Members []Member
	// Odd is as in Slice.
	Odd bool
}

// Service is what matters of the Service default/kubernetes.
type Service struct {
	// Version is empty when there is no such Service.
	Version string
	Traffic string
}

// Zone is a value of the label topology.kubernetes.io/zone.
type Zone struct {
	Name string
	// Nodes is how many Nodes carry it.
	Nodes int
}

// Role says whose sign of life a Lease is.
type Role uint8

const (
	// Agent is the Lease holdfast-slices-<node>.
	Agent Role = iota
	// Identity is the Lease by which an apiserver says that it lives.
	Identity
)

// Distance is how far a node's apiserver is.
type Distance struct {
	Node   string
	Millis int
}

// Lease is what matters of a Lease in kube-system.
type Lease struct {
	Role Role
	Name string
	// Token changes with each renewal: the resourceVersion.
	Token string
	// Holder is spec.holderIdentity.
	Holder string
	// Node, Identity and Distances are of agents only. Identity is the name of
	// the identity Lease of the node's apiserver, empty if the agent found none.
	Node, Identity string
	Distances      []Distance
}

// View is what one agent was told, by its watches or by reading anew.
// Collections are sorted by name.
type View struct {
	Slices   []Slice
	Combined *Combined
	// Endpoints is nil where there is none. That, and what it says, counts only
	// when EndpointsKnown: it has been read.
	Endpoints      *Endpoints
	EndpointsKnown bool
	Service        Service
	// Zones and Unzoned are the Nodes by zone, and the names of those without
	// one. They count only when ZonesKnown: a list of Nodes has been read.
	Zones      []Zone
	Unzoned    []string
	ZonesKnown bool
	Leases     []Lease
}

func (v *View) slice(name string) *Slice {
	for i := range v.Slices {
		if v.Slices[i].Name == name {
			return &v.Slices[i]
		}
	}
	return nil
}

func (v *View) lease(role Role, name string) *Lease {
	for i := range v.Leases {
		if l := &v.Leases[i]; l.Role == role && l.Name == name {
			return l
		}
	}
	return nil
}

// nodes is how many Nodes a zone has.
func (v *View) nodes(zone string) int {
	for i := range v.Zones {
		if v.Zones[i].Name == zone {
			return v.Zones[i].Nodes
		}
	}
	return 0
}

// Health is what an owner knows of its own apiserver.
type Health uint8

const (
	// Unknown: no check has come to an end yet. Nothing follows from it.
	Unknown Health = iota
	Ready
	Unready
)

// Address is where a node's apiserver is reached.
type Address struct {
	Family Family
	IP     string
}

// Self is the agent that plans.
type Self struct {
	Node string
	// Zone is the label of the own Node; empty if it has none.
	Zone string
	// Holder is what the agent writes as holderIdentity of its own Lease. It
	// stays the same when an agent restarts on its machine, and differs between
	// two machines that are given one node name.
	Holder string
	// Addresses has at most one per family.
	Addresses []Address
	Port      int32
	Health    Health
}

func (s *Self) address(f Family) string {
	for _, a := range s.Addresses {
		if a.Family == f {
			return a.IP
		}
	}
	return ""
}

package plan

import "time"

// Names and labels that the plan speaks of. The shell writes them.
const (
	// ServiceName is the Service, and the slice that readers ask for by name.
	ServiceName = "kubernetes"
	Namespace   = "default"
	// ManagedBy is the value of endpointslice.kubernetes.io/managed-by on what
	// is ours; another value, or none, is somebody else's and is not touched.
	ManagedBy = "holdfast-slices"
	// ProxyName is the value of service.kubernetes.io/service-proxy-name that
	// hides the slice kubernetes from Cilium.
	ProxyName = "holdfast"

	// UnreadyByAnnotation names the node whose agent marked an endpoint unready.
	UnreadyByAnnotation = "holdfast.dev/unready-by"
	// ReadyFromAnnotation is Slice.ReadyFrom.
	ReadyFromAnnotation = "holdfast.dev/ready-from"
	// ReliedOnAnnotation is Slice.Lean.
	ReliedOnAnnotation = "holdfast.dev/relied-on"
	// ProbeLabel is Combined.Probe.
	ProbeLabel = "holdfast.dev/probe"
	// ApiserverAnnotation, on an agent's Lease, is Lease.Identity.
	ApiserverAnnotation = "holdfast.dev/apiserver"
	// DistanceAnnotation, on an agent's Lease, is Lease.Distances.
	DistanceAnnotation = "holdfast.dev/rtt"

	// TurnLasts is the duration of the short Lease. One transaction is about ten
	// requests, three of them after one another, of up to 200 ms each where the
	// leader of etcd is far; whoever is killed in the middle holds up the others
	// for this long.
	TurnLasts = 3 * time.Second
	// AloneAfter is how long an owner whose apiserver is unready tries for the
	// Lease before it withdraws without.
	AloneAfter = time.Second

	// MaxHints is how many zones one endpoint can hint (Kubernetes,
	// pkg/apis/discovery/validation: maxZoneHints).
	MaxHints = 8
)

// SliceName is the name of a node's slice.
func SliceName(node string, f Family) string {
	if f == IPv6 {
		return ServiceName + "-" + node + "-ipv6"
	}
	return ServiceName + "-" + node
}

// Settings bind every agent of a cluster alike.
type Settings struct {
	// Witnesses are zones whose endpoints adopt first, best first.
	Witnesses []string
	// GiveBack is how long a zone's own endpoint must have been ready without a
	// break before its adopter lets go.
	GiveBack time.Duration
	// Lapse is how long both signs of life must have been unchanged. An identity
	// Lease is renewed every 10 s (apiserver, IdentityLeaseRenewIntervalPeriod).
	Lapse time.Duration
	// Gap is the longest time between two own signs of life that counts as
	// watching without a break. Leases are renewed every 10 s, with up to 4 %
	// jitter. A watch that stalls unnoticed hides at most a renewal's 10.4 s and
	// Gap, which is less than Lapse.
	Gap time.Duration
	// Survive is how long the probe must stand on the slice kubernetes before
	// the apiservers' reconciler counts as off. It rewrites within 10 s
	// (controlplane, DefaultEndpointReconcilerInterval).
	Survive time.Duration
	// Reprobe is how long a reconciler that was seen writing is left alone.
	Reprobe time.Duration
	// ReprobeChanged is the same after it changed the slice otherwise: it may
	// have been the last write of a reconciler that is being switched off.
	ReprobeChanged time.Duration
	// Traffic is the value for trafficDistribution that is set where the datapath
	// does not honour the one that is there; empty leaves the Service alone.
	Traffic string
	// Honoured are the values that the datapath honours, as far as this agent
	// knows. What another agent has set stays while it is one of them: so agents
	// that know different things agree, on what all of them know to be honoured.
	Honoured []string
}

// Default is what a person gets who chooses nothing.
func Default() Settings {
	return Settings{
		GiveBack: 10 * time.Second, Lapse: 30 * time.Second, Gap: 12 * time.Second,
		Survive: 25 * time.Second, Reprobe: time.Minute, ReprobeChanged: 15 * time.Second,
	}
}

package plan

import "time"

// Op is what a Write does to one object.
type Op uint8

const (
	// CreateSlice and UpdateSlice make an EndpointSlice what Slice says.
	CreateSlice Op = iota
	UpdateSlice
	// DeleteSlice removes it, at that version.
	DeleteSlice
	// CreateCombined and UpdateCombined make the slice kubernetes ours, and what
	// Combined says; the update may be of the reconciler's.
	CreateCombined
	UpdateCombined
	// DeleteCombined makes room for one of another family.
	DeleteCombined
	// ProbeCombined sets ProbeLabel on the reconciler's slice and nothing else.
	ProbeCombined
	// PatchService sets trafficDistribution to Traffic.
	PatchService
	// CreateEndpoints and UpdateEndpoints make the object Endpoints what
	// Endpoints says.
	CreateEndpoints
	UpdateEndpoints
)

var opNames = [...]string{
	"create-slice", "update-slice", "delete-slice", "create-combined", "update-combined", "delete-combined", "probe-combined", "patch-service",
	"create-endpoints", "update-endpoints",
}

func (o Op) String() string { return opNames[o] }

// Write is one request. Every write but a create must carry the Version that
// stands in it, and must fail if the object has another by then.
type Write struct {
	Op Op
	// Slice is set for slices, Combined for the slice kubernetes, Service and
	// Traffic for the Service, Endpoints for the object Endpoints.
	Slice     Slice
	Combined  Combined
	Service   Service
	Traffic   string
	Endpoints Endpoints
	// Takes says that the write takes something away. It must not be sent
	// unless every write before it in the same Plan is known to have been done.
	Takes bool
	// Why is one line for a log and an Event; empty for a mere lean, which
	// changes nothing that anybody reads.
	Why string
}

// Version is the resourceVersion that must still stand; empty for a create.
func (w *Write) Version() string {
	switch w.Op {
	case CreateSlice, UpdateSlice, DeleteSlice:
		return w.Slice.Version
	case PatchService:
		return w.Service.Version
	case CreateEndpoints, UpdateEndpoints:
		return w.Endpoints.Version
	}
	return w.Combined.Version
}

// Facts are what has been so for long enough, as one agent saw it.
type Facts struct {
	// Lapsed are nodes without a sign of life.
	Lapsed []Lapse
	// Quiet are nodes whose agent is late; they are adopters of last resort.
	Quiet []Silence
	// Unreached are nodes whose apiserver this agent's node has failed to connect
	// to, again and again. They adopt its zone last: the zone's clients take the
	// same ways.
	Unreached []string
	// Held are slices that this agent was refused to make unready, and does not try
	// again yet. Until then they serve as all others see them: to have somebody
	// adopt their zones beside them is undone by the others, again and again.
	Held []string
	// Steady are slices that have been ready for GiveBack without a break.
	Steady []string
	// Phase is what is known of the apiservers' reconciler, and Probed the
	// version of the slice kubernetes that it is known for.
	Phase  Phase
	Probed string
	// Rival is the holder of this node's agent Lease if it is somebody else who
	// may still be renewing it. The agent then writes nothing at all.
	Rival string
	// Rivalry says that the rival was seen renewing: it is the elder.
	Rivalry bool
	// Due is when time alone may change these facts, from now; 0 is never.
	Due time.Duration
}

// Silence is a node whose agent's Lease stands still at a token.
type Silence struct{ Node, Agent, Token string }

// Standing is a slice that has been ready for some time, made so from a version.
type Standing struct{ Slice, ReadyFrom string }

// Lapse is a node whose two Leases stand still.
type Lapse struct {
	Node string
	// Ready are its slices that have been ready all that time.
	Ready []Standing
	// Agent and Identity are the Leases, with the tokens that stood still; an
	// empty token means that the Lease is gone.
	Agent, Identity           string
	AgentToken, IdentityToken string
	For                       time.Duration
}

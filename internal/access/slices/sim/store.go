package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

const (
	// most is the largest number of control-plane nodes.
	most = 5
	// families is how many address families a node may have.
	families = 2
)

// object is one thing in the store.
type object int

const (
	firstSlice    object = 0
	firstAgent           = firstSlice + most*families
	firstIdentity        = firstAgent + most
	objCombined          = firstIdentity + most
	objService           = objCombined + 1
	objNodes             = objService + 1
	objEndpoints         = objNodes + 1
	objects              = objEndpoints + 1
)

// heads says for each object which of its states is meant; -1 is none.
type heads [objects]int32

// differ says that there are other things than Leases that differ.
func (h *heads) differ(o *heads) bool {
	for i := range h {
		if (i < int(firstAgent) || i >= int(objCombined)) && h[i] != o[i] {
			return true
		}
	}
	return false
}

// record is the Lease by which agents take turns.
type record struct {
	exists bool
	holder int8 // -1 is nobody
	rev    int
}

// nodes are all Nodes of the cluster.
type nodes struct{ zones []plan.Zone }

// store is what etcd has: every state that any object ever had in this
// schedule, and which is the latest.
type store struct {
	rev      int
	head     heads
	slices   []plan.Slice
	combined []plan.Combined
	services []plan.Service
	leases   []plan.Lease
	leasedAt []time.Duration // when each state of a Lease was written
	nodes    []nodes
	// endpoints are the states of the object Endpoints.
	endpoints []plan.Endpoints
	lock      record
}

func (s *store) reset() {
	*s = store{
		slices: s.slices[:0], combined: s.combined[:0], services: s.services[:0], leases: s.leases[:0],
		leasedAt: s.leasedAt[:0], nodes: s.nodes[:0], endpoints: s.endpoints[:0],
		lock: record{holder: -1},
	}
	for i := range s.head {
		s.head[i] = -1
	}
}

// next is the version of the write that is being done.
func (s *store) next() string {
	s.rev++
	return strconv.Itoa(s.rev)
}

func (s *store) putSlice(o object, v plan.Slice) {
	v.Version = s.next()
	s.slices = append(s.slices, v)
	s.head[o] = int32(len(s.slices) - 1)
}

func (s *store) putCombined(v plan.Combined) {
	v.Version = s.next()
	s.combined = append(s.combined, v)
	s.head[objCombined] = int32(len(s.combined) - 1)
}

func (s *store) putEndpoints(v plan.Endpoints) {
	v.Version = s.next()
	s.endpoints = append(s.endpoints, v)
	s.head[objEndpoints] = int32(len(s.endpoints) - 1)
}

func (s *store) putService(v plan.Service) {
	v.Version = s.next()
	s.services = append(s.services, v)
	s.head[objService] = int32(len(s.services) - 1)
}

func (s *store) putLease(o object, now time.Duration, v plan.Lease) {
	v.Token = s.next()
	s.leases, s.leasedAt = append(s.leases, v), append(s.leasedAt, now)
	s.head[o] = int32(len(s.leases) - 1)
}

func (s *store) putNodes(zones []plan.Zone) {
	s.next()
	s.nodes = append(s.nodes, nodes{zones})
	s.head[objNodes] = int32(len(s.nodes) - 1)
}

func (s *store) drop(o object) {
	s.next()
	s.head[o] = -1
}

func (s *store) slice(o object) *plan.Slice {
	if s.head[o] < 0 {
		return nil
	}
	return &s.slices[s.head[o]]
}

func (s *store) kubernetes() *plan.Combined {
	if s.head[objCombined] < 0 {
		return nil
	}
	return &s.combined[s.head[objCombined]]
}

func (s *store) object() *plan.Endpoints {
	if s.head[objEndpoints] < 0 {
		return nil
	}
	return &s.endpoints[s.head[objEndpoints]]
}

// view fills v with the states that h means.
func (s *store) view(h *heads, v *plan.View) {
	v.Slices, v.Leases, v.Combined, v.Service = v.Slices[:0], v.Leases[:0], nil, plan.Service{}
	v.Zones, v.ZonesKnown, v.Endpoints, v.EndpointsKnown = nil, false, nil, true
	for o, i := range h {
		switch o := object(o); {
		case i < 0:
		case o < firstAgent:
			v.Slices = append(v.Slices, s.slices[i])
		case o < objCombined:
			v.Leases = append(v.Leases, s.leases[i])
		case o == objCombined:
			v.Combined = &s.combined[i]
		case o == objService:
			v.Service = s.services[i]
		case o == objNodes:
			v.Zones, v.ZonesKnown = s.nodes[i].zones, true
		case o == objEndpoints:
			v.Endpoints = &s.endpoints[i]
		}
	}
}

// apply does one write of an agent, if the version it is based on still stands.
// Content that does not change makes no new version, as in the real store.
func (s *store) apply(w *plan.Write) (done, changed bool) {
	switch w.Op {
	case plan.CreateSlice, plan.UpdateSlice, plan.DeleteSlice:
		return s.applySlice(w)
	case plan.CreateEndpoints, plan.UpdateEndpoints:
		is := s.object()
		if (is == nil) != (w.Op == plan.CreateEndpoints) || is != nil && is.Version != w.Endpoints.Version {
			return false, false
		}
		s.putEndpoints(w.Endpoints)
		return true, true
	case plan.PatchService:
		h := s.head[objService]
		if h < 0 || s.services[h].Version != w.Service.Version {
			return false, false
		}
		s.putService(plan.Service{Traffic: w.Traffic})
		return true, true
	}
	is := s.kubernetes()
	switch {
	case (is == nil) != (w.Op == plan.CreateCombined), is != nil && is.Version != w.Combined.Version:
		return false, false
	case w.Op == plan.DeleteCombined:
		s.drop(objCombined)
	default:
		s.putCombined(w.Combined)
	}
	return true, true
}

func (s *store) applySlice(w *plan.Write) (done, changed bool) {
	o := objectOf(&w.Slice)
	is := s.slice(o)
	switch {
	case (is == nil) != (w.Op == plan.CreateSlice), is != nil && is.Version != w.Slice.Version:
		return false, false
	case w.Op == plan.DeleteSlice:
		s.drop(o)
	case is != nil && same(is, &w.Slice):
		return true, false
	default:
		s.putSlice(o, w.Slice)
	}
	return true, true
}

func same(a, b *plan.Slice) bool {
	return a.Zone == b.Zone && a.Ready == b.Ready && a.UnreadyBy == b.UnreadyBy && a.ReadyFrom == b.ReadyFrom && a.Lean == b.Lean && a.Address == b.Address &&
		a.Odd == b.Odd && a.Owner == b.Owner && slices.Equal(a.Hints, b.Hints)
}

// objectOf is where the slice of a node is kept.
func objectOf(s *plan.Slice) object { return sliceObject(index(s.Node), s.Family) }

func sliceObject(node int, f plan.Family) object {
	if f == plan.IPv6 {
		return firstSlice + object(node*families+1)
	}
	return firstSlice + object(node*families)
}

// name is a node's name: "1" for node 0.
func name(node int) string { return names[node] }

func index(name string) int { return int(name[0] - '1') }

var (
	names      = [most]string{"1", "2", "3", "4", "5"}
	identities = [most]string{"apiserver-1", "apiserver-2", "apiserver-3", "apiserver-4", "apiserver-5"}
	leases     = [most]string{"holdfast-slices-1", "holdfast-slices-2", "holdfast-slices-3", "holdfast-slices-4", "holdfast-slices-5"}
	addresses  = [most]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"}
	addresses6 = [most]string{"fd00::1", "fd00::2", "fd00::3", "fd00::4", "fd00::5"}
	zoneNames  = []string{"a", "b", "c", "d", "e", "f", "g"}
)

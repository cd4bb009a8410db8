package slices

import (
	"maps"
	stdslices "slices"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// sight is the world as one reading or the watches show it, with the objects
// that a write starts from.
type sight struct {
	view    plan.View
	raw     map[string]*discovery.EndpointSlice // by name
	service *core.Service                       // nil: there is none
	// endpoints is nil where there is none, or it is not known.
	endpoints *oldEndpoints
}

// collection is one of the things that are followed.
type collection int

// The collections. Slices and the one named kubernetes are followed apart: no
// label is on both while the latter is ours.
const (
	ofSlices collection = iota
	ofCombined
	ofService
	ofEndpoints
	ofLeases
	ofNodes
	collections
)

var collectionNames = [collections]string{"endpointslices", "endpointslice kubernetes", "service kubernetes", "endpoints kubernetes", "leases", "nodes"}

func (c collection) String() string { return collectionNames[c] }

// world is what the watches have shown so far, and answers that are newer. Any
// goroutine may use it.
type world struct {
	clock func() time.Time

	mu        sync.Mutex
	known     [collections]bool
	slices    map[string]*discovery.EndpointSlice // but for the one named kubernetes
	joint     *discovery.EndpointSlice            // that one
	answers   map[string]answer                   // of both
	service   *core.Service
	endpoints *oldEndpoints // the object of that kind
	leases    map[string]signal
	nodes     map[string]string // name → zone
}

func newWorld() *world {
	return &world{
		clock: time.Now, slices: map[string]*discovery.EndpointSlice{}, answers: map[string]answer{},
		leases: map[string]signal{}, nodes: map[string]string{},
	}
}

// complete says that the collections without which nothing is decided have been
// read once. Nodes, the Service and the object Endpoints are not among them.
func (w *world) complete() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[ofSlices] && w.known[ofCombined] && w.known[ofLeases]
}

// has says that a collection has been read once.
func (w *world) has(c collection) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[c]
}

// missing names the first of those that was not read yet.
func (w *world) missing() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range []collection{ofSlices, ofCombined, ofLeases} {
		if !w.known[c] {
			return c.String()
		}
	}
	return ""
}

func (w *world) replaceSlices(all []discovery.EndpointSlice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[ofSlices] = true
	clear(w.slices)
	for i := range all {
		if all[i].Name != plan.ServiceName {
			w.slices[all[i].Name] = trim(&all[i])
			w.settle(all[i].Name, all[i].ResourceVersion)
		}
	}
}

func (w *world) applySlice(deleted bool, s *discovery.EndpointSlice) {
	if s.Name == plan.ServiceName {
		return // the other watch tells of it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if deleted {
		delete(w.slices, s.Name)
	} else {
		w.slices[s.Name] = trim(s)
	}
	w.settle(s.Name, s.ResourceVersion)
}

func (w *world) replaceCombined(all []discovery.EndpointSlice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[ofCombined] = true
	w.joint = nil
	for i := range all {
		w.joint = trim(&all[i])
		w.settle(all[i].Name, all[i].ResourceVersion)
	}
}

func (w *world) applyCombined(deleted bool, s *discovery.EndpointSlice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.joint = trim(s)
	if deleted {
		w.joint = nil
	}
	w.settle(s.Name, s.ResourceVersion)
}

// trim drops what nobody here reads.
func trim(s *discovery.EndpointSlice) *discovery.EndpointSlice {
	s.ManagedFields = nil
	return s
}

func (w *world) replaceService(all []core.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[ofService] = true
	w.service = nil
	for i := range all {
		all[i].ManagedFields = nil
		w.service = &all[i]
	}
}

func (w *world) applyService(deleted bool, s *core.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.service != nil && newer(w.service.ResourceVersion, s.ResourceVersion):
	case deleted:
		w.service = nil
	default:
		s.ManagedFields = nil
		w.service = s
	}
}

// node is what matters of a Node, from its metadata.
type node struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

func (w *world) replaceNodes(all []node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[ofNodes] = true
	clear(w.nodes)
	for i := range all {
		w.nodes[all[i].Metadata.Name] = all[i].Metadata.Labels[core.LabelTopologyZone]
	}
}

func (w *world) applyNode(deleted bool, n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if deleted {
		delete(w.nodes, n.Metadata.Name)
		return
	}
	w.nodes[n.Metadata.Name] = n.Metadata.Labels[core.LabelTopologyZone]
}

// zoneOf is the zone of a Node; known says that Nodes have been read, exists
// that it is among them.
func (w *world) zoneOf(name string) (zone string, exists, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	zone, exists = w.nodes[name]
	return zone, exists, w.known[ofNodes]
}

// look is the world as it is known now.
func (w *world) look() sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := sight{raw: maps.Clone(w.slices), service: w.service}
	if w.joint != nil {
		s.raw[plan.ServiceName] = w.joint
	}
	w.overlay(s.raw)
	for _, l := range w.leases {
		s.view.Leases = append(s.view.Leases, l.Lease)
	}
	w.zones(&s.view)
	s.arrange()
	s.setEndpoints(w.endpoints, w.known[ofEndpoints])
	return s
}

// zones counts the Nodes of each zone. w.mu is held.
func (w *world) zones(v *plan.View) {
	v.ZonesKnown = w.known[ofNodes]
	count := map[string]int{}
	for name, zone := range w.nodes {
		if zone == "" {
			v.Unzoned = append(v.Unzoned, name)
			continue
		}
		count[zone]++
	}
	stdslices.Sort(v.Unzoned)
	for _, name := range stdslices.Sorted(maps.Keys(count)) {
		v.Zones = append(v.Zones, plan.Zone{Name: name, Nodes: count[name]})
	}
}

// read makes a sight of what was just read, with Nodes and strays as they are
// known: slices that have lost the label they are listed by.
func (w *world) read(all []discovery.EndpointSlice, joint *discovery.EndpointSlice, service *core.Service, leases []coordination.Lease) sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := sight{raw: map[string]*discovery.EndpointSlice{}, service: service}
	for name, a := range w.answers {
		if a.stray() {
			s.raw[name] = a.object
		}
	}
	for i := range all {
		if all[i].Name != plan.ServiceName {
			s.raw[all[i].Name] = trim(&all[i])
		}
	}
	if joint != nil {
		s.raw[plan.ServiceName] = trim(joint)
	}
	for i := range leases {
		if l, ok := leaseOf(&leases[i]); ok {
			s.view.Leases = append(s.view.Leases, l)
		}
	}
	w.zones(&s.view)
	s.arrange()
	return s
}

// arrange fills in the view from the objects.
func (s *sight) arrange() {
	for _, name := range stdslices.Sorted(maps.Keys(s.raw)) {
		if name == plan.ServiceName {
			s.view.Combined = combinedOf(s.raw[name])
			continue
		}
		s.view.Slices = append(s.view.Slices, sliceOf(s.raw[name]))
	}
	if s.service != nil {
		s.view.Service = plan.Service{Version: s.service.ResourceVersion, Traffic: deref(s.service.Spec.TrafficDistribution)}
	}
	stdslices.SortFunc(s.view.Leases, func(a, b plan.Lease) int { return strings.Compare(a.Name, b.Name) })
}

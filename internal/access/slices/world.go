package slices

import (
	"cmp"
	"maps"
	stdslices "slices"
	"strconv"
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

// lateAfter bounds how long an answer to an own write is preferred to a watch
// that has not come so far; a watch that takes longer has ended, and lists.
const lateAfter = 30 * time.Second

// answer is an object as a write or a reading of our own showed it, before the
// watch did. A nil object was deleted.
type answer struct {
	object  *discovery.EndpointSlice
	version string
	at      time.Time
}

// stray says that the object has not the label by which slices are listed, so no
// watch shows it: it is believed until it is read again.
func (a answer) stray() bool {
	return a.object != nil && a.object.Labels[discovery.LabelServiceName] != plan.ServiceName && a.object.Name != plan.ServiceName
}

// signal is a Lease with what plan does not ask of it.
type signal struct {
	plan.Lease
	// host is the label kubernetes.io/hostname.
	host string
	// skew is how far the renewer's clock is from ours, as of the last renewal
	// that arrived as long after the one before as it was made after it; 0 until
	// then. What a watch brings late, or all at once, tells of no clock.
	skew time.Duration
	// arrived is when the last renewal did, on our monotonic clock, and renewed
	// the time that stands in it.
	arrived, renewed time.Time
}

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

// settle drops an answer that the watch has caught up with. w.mu is held.
func (w *world) settle(name, version string) {
	if a, ok := w.answers[name]; ok && !newer(a.version, version) {
		delete(w.answers, name)
	}
}

// newer says that version a of one object was written after b. They are
// revisions of etcd; what is no number is not compared.
func newer(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x > y
}

// learn takes in an object from an answer.
func (w *world) learn(s *discovery.EndpointSlice) {
	w.put(s.Name, answer{trim(s), s.ResourceVersion, w.clock()})
}

// learnAll takes in what was read all at once: where a watch lags behind, the
// next decision is not made on what is known to be over.
func (w *world) learnAll(all *slicesList, joint *discovery.EndpointSlice, service *core.Service) {
	there := map[string]bool{}
	for i := range all.Items {
		if all.Items[i].Name != plan.ServiceName {
			there[all.Items[i].Name] = true
			w.learn(&all.Items[i])
		}
	}
	if joint != nil {
		w.learn(joint)
	}
	if service != nil {
		w.learnService(service)
	}
	for _, name := range w.listed() {
		if !there[name] && all.Metadata.ResourceVersion != "" {
			w.unlearn(name, all.Metadata.ResourceVersion)
		}
	}
}

// listed are the slices that a watch has shown, but for the one named kubernetes
// and those that are known to have lost the label since.
func (w *world) listed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for name := range w.slices {
		if !w.answers[name].stray() {
			all = append(all, name)
		}
	}
	return all
}

// strays are the slices that no watch shows and that were not read, or asked for
// here, for so long.
func (w *world) strays(unread time.Duration) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for name, a := range w.answers {
		if a.stray() && w.clock().Sub(a.at) >= unread {
			a.at = w.clock()
			w.answers[name] = a
			all = append(all, name)
		}
	}
	return all
}

// lose drops what an answer told of an object that is not there any more.
func (w *world) lose(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.answers, name)
}

// learnService takes in the Service from an answer.
func (w *world) learnService(s *core.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.service == nil || newer(s.ResourceVersion, w.service.ResourceVersion) {
		s.ManagedFields = nil
		w.service = s
	}
}

// unlearn notes that an object of that version was deleted.
func (w *world) unlearn(name, version string) {
	w.put(name, answer{nil, version, w.clock()})
}

func (w *world) put(name string, a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.slices[name]
	if name == plan.ServiceName {
		seen = w.joint
	}
	if seen != nil && (newer(seen.ResourceVersion, a.version) || a.object != nil && seen.ResourceVersion == a.version) {
		return
	}
	if old, ok := w.answers[name]; !ok || !newer(old.version, a.version) {
		w.answers[name] = a
	}
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

func (w *world) replaceLeases(all []coordination.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[ofLeases] = true
	old := w.leases
	w.leases = map[string]signal{}
	for i := range all {
		if l, ok := leaseOf(&all[i]); ok {
			s := old[l.Name]
			s.Lease, s.host = l, all[i].Labels[core.LabelHostname]
			w.leases[l.Name] = s
		}
	}
}

func (w *world) applyLease(deleted bool, o *coordination.Lease) {
	l, ok := leaseOf(o)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if deleted {
		delete(w.leases, l.Name)
		return
	}
	s := w.leases[l.Name]
	s.Lease, s.host = l, o.Labels[core.LabelHostname]
	if o.Spec.RenewTime != nil && l.Holder != "" {
		s.arrive(w.clock(), o.Spec.RenewTime.Time)
	}
	w.leases[l.Name] = s
}

// mostLate is by how much two renewals may come closer, or apart, on their way.
const mostLate = 2 * time.Second

func (s *signal) arrive(now, renewed time.Time) {
	if s.renewed.Equal(renewed) {
		return // something else of the Lease changed
	}
	late := now.Sub(s.arrived) - renewed.Sub(s.renewed)
	if !s.arrived.IsZero() && late.Abs() < mostLate {
		s.skew = now.Round(0).Sub(renewed)
	}
	s.arrived, s.renewed = now, renewed
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

// identityOf finds the identity Lease of the apiserver of a host, under the
// first of the names by which one is found.
func (w *world) identityOf(hosts ...string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, host := range hosts {
		for name, l := range w.leases {
			if l.Role == plan.Identity && l.host == host && host != "" {
				return name
			}
		}
	}
	return ""
}

// lease is the Lease of that name.
func (w *world) lease(name string) (signal, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.leases[name]
	return s, ok
}

// signals are all Leases, by name.
func (w *world) signals() []signal {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := stdslices.Collect(maps.Values(w.leases))
	stdslices.SortFunc(all, func(a, b signal) int { return cmp.Compare(a.Name, b.Name) })
	return all
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

// overlay puts answers over what a watch or a list has shown. w.mu is held.
func (w *world) overlay(raw map[string]*discovery.EndpointSlice) {
	for name, a := range w.answers {
		switch {
		case w.clock().Sub(a.at) > lateAfter && !a.stray():
			delete(w.answers, name)
		case a.object == nil:
			if old := raw[name]; old != nil && !newer(old.ResourceVersion, a.version) {
				delete(raw, name)
			}
		default:
			if old := raw[name]; old == nil || newer(a.version, old.ResourceVersion) {
				raw[name] = a.object
			}
		}
	}
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

package services

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// world is an API with Services, and an ear for Events.
type world struct {
	services map[string]*Service // by path
	version  int
	writes   []string
	events   []string
	refuse   int // code of the next answers to writes
	room     int // for Events
}

func newWorld(all ...Service) *world {
	w := &world{services: map[string]*Service{}, version: 100, room: 1000}
	for i := range all {
		s := all[i]
		w.touch(&s)
		w.services[pathOf(&s)] = &s
	}
	return w
}

func pathOf(s *Service) string {
	return "/api/v1/namespaces/" + s.Metadata.Namespace + "/services/" + s.Metadata.Name
}

func (w *world) touch(s *Service) {
	w.version++
	s.Metadata.ResourceVersion = strconv.Itoa(w.version)
}

func (w *world) Get(_ context.Context, path string, query url.Values) ([]byte, error) {
	if path != "/api/v1/services" {
		if s := w.services[path]; s != nil {
			return json.Marshal(s)
		}
		return nil, &kubeapi.StatusError{Code: http.StatusNotFound}
	}
	all := w.all()
	// Pages of two.
	from, _ := strconv.Atoi(query.Get("continue"))
	to := min(from+2, len(all))
	next := ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return json.Marshal(map[string]any{"metadata": map[string]string{"continue": next}, "items": all[from:to]})
}

func (w *world) all() []Service {
	var all []Service
	for _, s := range w.services {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Service) int { return byKey(a.Metadata.Key(), b.Metadata.Key()) })
	return all
}

func (w *world) Patch(_ context.Context, path string, body []byte) ([]byte, error) {
	s := w.services[strings.TrimSuffix(path, "/status")]
	var patch struct {
		Metadata Meta          `json:"metadata"`
		Status   ServiceStatus `json:"status"`
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, err
	}
	switch {
	case w.refuse != 0:
		return nil, &kubeapi.StatusError{Op: "patch", Code: w.refuse}
	case s == nil:
		return nil, &kubeapi.StatusError{Code: http.StatusNotFound}
	case patch.Metadata.ResourceVersion != s.Metadata.ResourceVersion || patch.Metadata.UID != s.Metadata.UID:
		return nil, &kubeapi.StatusError{Code: http.StatusConflict}
	}
	s.Status = patch.Status
	w.touch(s)
	w.writes = append(w.writes, s.Metadata.Name+" = "+join(s.addresses()))
	return json.Marshal(s)
}

func (w *world) Record(about kubeapi.Reference, _, reason, _ string) {
	w.events = append(w.events, about.Name+": "+reason)
	w.room--
}

func (w *world) Room() int { return w.room }

// take returns what was written and said since it was last asked.
func (w *world) take() []string {
	all := append(w.writes, w.events...)
	w.writes, w.events = nil, nil
	return all
}

func newAllocator(t *testing.T, w *world, opened *[]string, lines ...string) *allocator {
	t.Helper()
	return &allocator{
		config: pools(t, lines...), view: newView(func() {}), client: func() (api, error) { return w, nil }, events: w,
		log: slog.New(slog.DiscardHandler), said: map[string][]string{},
		opened: func(_ context.Context, a netip.Addr) { *opened = append(*opened, a.String()) },
	}
}

func (w *world) passes(t *testing.T, a *allocator, want ...string) {
	t.Helper()
	if _, err := a.decide(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.take(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An allocator writes once, says once, and what the follower tells late does not
// lead it astray.
func TestAllocator(t *testing.T) {
	w := newWorld(service("x"), service("y", note(AnnotationAddresses, "nonsense")), service("z"))
	var opened []string
	a := newAllocator(t, w, &opened, "a 192.0.2.1-192.0.2.9")
	old := w.all()
	// The follower has not told of anything yet: the allocator reads by itself.
	w.passes(t, a, "x = 192.0.2.1", "z = 192.0.2.2", "x: AddressAssigned", "z: AddressAssigned", "y: AddressMalformed")
	if !slices.Equal(opened, []string{"192.0.2.1", "192.0.2.2"}) {
		t.Errorf("records made for %q", opened)
	}
	w.passes(t, a)
	// A list of a cache that is behind.
	a.view.replaceServices(old)
	w.passes(t, a)
	a.view.replaceServices(w.all())
	w.passes(t, a)
	if len(a.view.newer) > 0 {
		t.Errorf("still remembers %v", a.view.newer)
	}
	// Another complaint is said; the same one after it was mended as well.
	y := w.services["/api/v1/namespaces/default/services/y"]
	for _, step := range []struct{ asks, want string }{{"198.51.100.1", "y: AddressOutsidePools"}, {"nonsense", "y: AddressMalformed"}} {
		y.Metadata.Annotations[AnnotationAddresses] = step.asks
		w.touch(y)
		a.view.applyService(kubeapi.Event[Service]{Object: *y})
		w.passes(t, a, step.want)
		w.passes(t, a)
	}
	// Deletion frees.
	delete(w.services, "/api/v1/namespaces/default/services/x")
	a.view.replaceServices(w.all())
	v := service("v")
	w.touch(&v)
	w.services[pathOf(&v)] = &v
	a.view.applyService(kubeapi.Event[Service]{Object: v})
	w.passes(t, a, "v = 192.0.2.1", "v: AddressAssigned")
}

// What has changed meanwhile is read again, and decided about anew.
func TestAllocatorReadsAgain(t *testing.T) {
	w := newWorld(service("x"))
	var opened []string
	a := newAllocator(t, w, &opened, "a 192.0.2.1-192.0.2.9")
	a.fresh = true
	a.view.replaceServices(w.all())
	x := w.services["/api/v1/namespaces/default/services/x"]
	x.Metadata.Annotations = map[string]string{AnnotationAddresses: "192.0.2.7"}
	w.touch(x)
	w.passes(t, a)
	w.passes(t, a, "x = 192.0.2.7", "x: AddressAssigned")

	w.refuse = http.StatusForbidden
	x.Metadata.Annotations = map[string]string{AnnotationAddresses: "192.0.2.8"}
	w.touch(x)
	a.view.applyService(kubeapi.Event[Service]{Object: *x})
	if _, err := a.decide(t.Context()); kubeapi.Code(err) != http.StatusForbidden {
		t.Errorf("a refusal: %v", err)
	}
	delete(w.services, pathOf(x))
	w.refuse = 0
	if _, err := a.decide(t.Context()); err != nil {
		t.Errorf("a Service that is gone: %v", err)
	}
}

// TestManyTroubles has no complaint lost among many.
func TestManyTroubles(t *testing.T) {
	w := newWorld()
	for i := range 100 {
		s := service(fmt.Sprintf("s%d", i), note(AnnotationAddresses, "nonsense"))
		w.services[pathOf(&s)] = &s
	}
	var opened []string
	a := newAllocator(t, w, &opened, "a 192.0.2.1")
	said := map[string]bool{}
	for range 4 {
		if _, err := a.decide(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := w.take()
		w.room = 30
		for _, e := range got {
			if said[e] {
				t.Errorf("said twice: %s", e)
			}
			said[e] = true
		}
	}
	if len(said) != 100 {
		t.Errorf("%d of 100 said", len(said))
	}
}

func TestMembers(t *testing.T) {
	self := lease.Peer{Name: "n2", Address: netip.MustParseAddrPort("192.0.2.2:9390")}
	m := &members{self: self, report: func(error) {}, changed: func() {}, all: map[string]member{}}
	if all, known := m.peers(); known || len(all) != 1 || all[0] != self {
		t.Errorf("before anything is read: %v, %v", all, known)
	}
	of := func(name, at, version string) *coordination.Lease {
		l := &coordination.Lease{}
		l.Name, l.ResourceVersion, l.Annotations = memberPrefix+name, version, map[string]string{annotationAt: at}
		l.Spec.HolderIdentity = &name
		return l
	}
	for _, l := range []*coordination.Lease{of("n3", "192.0.2.3:9390", "1"), of("n1", "192.0.2.1:9390", "1"), of("n2", "192.0.2.99:1", "1"), of("n4", "nonsense", "1")} {
		m.set(l, m.all)
	}
	all, _ := m.peers()
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"n1", "n2", "n3"}) || all[1] != self {
		t.Errorf("peers %v", all)
	}
	if got := m.silent(0); len(got) != 2 || got[memberPrefix+"n1"] != "1" {
		t.Errorf("silent: %v", got)
	}
	if got := m.silent(time.Hour); len(got) != 0 {
		t.Errorf("silent for an hour: %v", got)
	}
	long := strings.Repeat("x", 250)
	if n := PeerName(long); len(n) > 63 || n == PeerName(long+"y") || PeerName("n1") != "n1" {
		t.Errorf("name %q", n)
	}
}

// TestViewTells has the view tell of what matters, and of nothing else.
func TestViewTells(t *testing.T) {
	told := 0
	v := newView(func() { told++ })
	slice := func(nodes ...string) kubeapi.Event[Slice] {
		s := Slice{Metadata: Meta{Name: "web-1", Namespace: "default", Labels: map[string]string{"kubernetes.io/service-name": "web"}}}
		for _, n := range nodes {
			s.Endpoints = append(s.Endpoints, Endpoint{Node: &n})
		}
		return kubeapi.Event[Slice]{Object: s}
	}
	inner := service("inner")
	inner.Spec.Type = "ClusterIP"
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() { v.applySlice(slice("a", "b")) }, 1},
		{func() { v.applySlice(slice("b", "a", "a")) }, 0},
		{func() { v.applySlice(slice("b")) }, 1},
		{func() { e := slice("b"); e.Deleted = true; v.applySlice(e) }, 1},
		{func() { v.applyService(kubeapi.Event[Service]{Object: inner}) }, 0},
		{func() { v.applyService(kubeapi.Event[Service]{Object: service("web")}) }, 1},
		{func() { v.applyService(kubeapi.Event[Service]{Object: service("web"), Deleted: true}) }, 1},
		{func() { v.replaceNode([]node{{}}) }, 0},
		{func() {
			v.applyNode(kubeapi.Event[node]{Object: node{Meta{Labels: map[string]string{LabelExclude: ""}}}})
		}, 1},
		{func() { v.replaceNode(nil) }, 1},
	} {
		told = 0
		if step.do(); told != step.want {
			t.Errorf("step %d: told %d times, want %d", i, told, step.want)
		}
	}
}

package slices

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// api is as much of the API as one agent asks for: objects by path, versions,
// compare-and-swap, lists, and patches that merge. There are no watches: a test
// shows the world what it likes.
type api struct {
	*httptest.Server

	mu      sync.Mutex
	version int
	objects map[string]map[string]any
	// refuse answers a write instead of the API, unless it returns 0; meddle
	// changes what is about to be stored.
	refuse func(method, path string) int
	meddle func(path string, object map[string]any)
	writes map[string]int // by method and path
}

func newAPI(t *testing.T) *api {
	f := &api{objects: map[string]map[string]any{}, writes: map[string]int{}, version: 100}
	f.Server = httptest.NewTLSServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	code, answer := f.answer(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *api) answer(r *http.Request) (int, map[string]any) {
	status := func(code int) (int, map[string]any) { return code, map[string]any{"kind": "Status", "code": code} }
	path := r.URL.Path
	old := f.objects[path]
	if r.Method == http.MethodGet {
		switch {
		case strings.HasSuffix(path, "/endpointslices") || strings.HasSuffix(path, "/leases"):
			return http.StatusOK, f.list(path, r.URL.Query().Get("labelSelector"))
		case r.URL.Query().Get("fieldSelector") != "":
			return http.StatusOK, f.named(path, r.URL.Query().Get("fieldSelector"))
		case old == nil:
			return status(http.StatusNotFound)
		}
		return http.StatusOK, old
	}
	f.writes[r.Method+" "+path]++
	if f.refuse != nil {
		if code := f.refuse(r.Method, path); code != 0 {
			return status(code)
		}
	}
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	if r.Method == http.MethodPost {
		path += "/" + fmt.Sprint(body["metadata"].(map[string]any)["name"])
		if old = f.objects[path]; old != nil {
			return status(http.StatusConflict)
		}
		return http.StatusCreated, f.store(path, body)
	}
	if old == nil {
		return status(http.StatusNotFound)
	}
	for _, at := range []string{"metadata", "preconditions"} {
		if must, _ := body[at].(map[string]any); must["resourceVersion"] != nil && must["resourceVersion"] != versionOf(old) {
			return status(http.StatusConflict)
		}
	}
	switch r.Method {
	case http.MethodDelete:
		delete(f.objects, path)
		return status(http.StatusOK)
	case http.MethodPatch:
		body = merge(old, body)
	}
	return http.StatusOK, f.store(path, body)
}

func (f *api) list(path, selector string) map[string]any {
	key, value, _ := strings.Cut(selector, "=")
	items := []any{}
	for name, o := range f.objects {
		labels, _ := o["metadata"].(map[string]any)["labels"].(map[string]any)
		if l, ok := labels[key]; strings.HasPrefix(name, path+"/") && ok && (value == "" || l == value) {
			items = append(items, o)
		}
	}
	return map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(f.version)}, "items": items}
}

// named lists the one object that a field selector names.
func (f *api) named(path, selector string) map[string]any {
	items := []any{}
	if o := f.objects[path+"/"+strings.TrimPrefix(selector, "metadata.name=")]; o != nil {
		items = append(items, o)
	}
	return map[string]any{"items": items}
}

func (f *api) store(path string, object map[string]any) map[string]any {
	if f.meddle != nil {
		f.meddle(path, object)
	}
	f.version++
	object["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(f.version)
	f.objects[path] = object
	return object
}

func versionOf(o map[string]any) any { return o["metadata"].(map[string]any)["resourceVersion"] }

// merge is a merge patch (RFC 7386).
func merge(old, patch map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range old {
		out[k] = v
	}
	for k, v := range patch {
		sub, isMap := v.(map[string]any)
		was, wasMap := out[k].(map[string]any)
		switch {
		case v == nil:
			delete(out, k)
		case isMap && wasMap:
			out[k] = merge(was, sub)
		default:
			out[k] = v
		}
	}
	return out
}

// put stores an object, and returns it as it is then.
func put[T any](t *testing.T, f *api, path string, object T) T {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	data, _ = json.Marshal(f.store(path, raw))
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// count is how many writes there were whose method and path contain text.
func (f *api) count(text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for what, times := range f.writes {
		if strings.Contains(what, text) {
			n += times
		}
	}
	return n
}

// rig is the agent of cp1 at such an API, with a clock of the test's.
type rig struct {
	*agent
	t   *testing.T
	api *api
	at  time.Time
}

func newRig(t *testing.T) *rig {
	t.Helper()
	f := newAPI(t)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	text := fmt.Sprintf("current-context: c\nclusters: [{name: k, cluster: {server: %q, certificate-authority: %q}}]\n"+
		"users: [{name: u, user: {token: x}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n", f.URL, caFile)
	for name, data := range map[string][]byte{config: []byte(text), caFile: ca} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := defaultSettings()
	s.Node, s.Zone, s.Apiserver.CA = "cp1", "a", caFile
	s.API.Servers, s.API.Kubeconfig = nil, config
	a, err := newAgent(s, telemetry.Require(condAPI), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.own, a.health = []plan.Address{{Family: plan.IPv4, IP: "10.0.0.1"}}, plan.Ready
	r := &rig{agent: a, t: t, api: f, at: time.Now()}
	a.clock = func() time.Time { return r.at }
	a.lock.Identity = lease.NewIdentity("cp1")
	put(t, f, leasesPath+"/"+lockName, coordination.Lease{ObjectMeta: bare(lockName).ObjectMeta})
	return r
}

// slice stores one of ours, ready, and shows it to the world.
func (r *rig) slice(node, address, zone string) {
	o := bare(plan.SliceName(node, plan.IPv4))
	fillSlice(&o, &plan.Slice{Family: plan.IPv4, Node: node, Address: address, Port: 6443, Zone: zone, Hints: []string{zone}, Ready: true})
	o = put(r.t, r.api, pathOf(o.Name), o)
	r.world.applySlice(false, &o)
}

// begin stores a Service, and has all lists read.
func (r *rig) begin() {
	service := core.Service{ObjectMeta: bare(plan.ServiceName).ObjectMeta}
	service = put(r.t, r.api, servicesPath+"/"+plan.ServiceName, service)
	r.world.replaceSlices(nil)
	r.world.replaceCombined(nil)
	r.world.replaceLeases(nil)
	r.world.replaceNodes(nil)
	r.world.replaceService([]core.Service{service})
}

// goes has the loop go round in every step, as if it were nudged all the time.
func (r *rig) goes(d, step time.Duration) {
	r.t.Helper()
	for end := r.at.Add(d); r.at.Before(end); r.at = r.at.Add(step) {
		if err := r.pass(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) problem(code string) string {
	for _, p := range r.problems.all() {
		if p.Code == code {
			return p.Text
		}
	}
	return ""
}

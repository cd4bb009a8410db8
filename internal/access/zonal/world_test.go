package zonal

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

type object = map[string]any

// world is an API server with the rules about Services and EndpointSlices that
// matter here (kubernetes pkg/apis/core/validation, registry/core/service).
type world struct {
	objects map[string]object // by path
	version int
	ips     int
	// fail, when set, is asked before each write.
	fail func(verb, path string) error
	// wrote is told each write by the code under test.
	wrote func(verb, path string, o object)
	// mutate, when set, changes each Service before it is stored, as a webhook does.
	mutate func(o object)
}

func newWorld() *world { return &world{objects: map[string]object{}} }

func status(code int, text string) error {
	return &kubeapi.StatusError{Op: "x", Code: code, Message: text}
}

func copied(v any) object {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		panic(err)
	}
	return o
}

func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func sub(o object, key string) object {
	m, _ := o[key].(object)
	if m == nil {
		m = object{}
	}
	return m
}

func list(o object, key string) []any { l, _ := o[key].([]any); return l }

func text(o object, key string) string { s, _ := o[key].(string); return s }

// merge applies a JSON merge patch (RFC 7386).
func merge(into, patch object) {
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(into, k)
		case object:
			inner := sub(into, k)
			merge(inner, v)
			into[k] = inner
		default:
			into[k] = v
		}
	}
}

func (w *world) Get(_ context.Context, path string, _ url.Values) ([]byte, error) {
	o, ok := w.objects[path]
	if !ok {
		return nil, status(http.StatusNotFound, "not found")
	}
	return encoded(o), nil
}

func (w *world) refuse(verb, path string) error {
	if w.fail == nil {
		return nil
	}
	return w.fail(verb, path)
}

func (w *world) tell(verb, path string, o object) {
	if w.wrote != nil {
		w.wrote(verb, path, o)
	}
}

func (w *world) Create(_ context.Context, path string, body []byte) ([]byte, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, err
	}
	name := path + "/" + text(sub(o, "metadata"), "name")
	if err := w.refuse("create", name); err != nil {
		return nil, err
	}
	if _, ok := w.objects[name]; ok {
		return nil, status(http.StatusConflict, "exists")
	}
	if err := w.put(name, o, nil); err != nil {
		return nil, err
	}
	w.tell("create", name, w.objects[name])
	return encoded(w.objects[name]), nil
}

func (w *world) Patch(_ context.Context, path string, body []byte) ([]byte, error) {
	if err := w.refuse("patch", path); err != nil {
		return nil, err
	}
	old, ok := w.objects[path]
	if !ok {
		return nil, status(http.StatusNotFound, "not found")
	}
	var patch object
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, err
	}
	if v := text(sub(patch, "metadata"), "resourceVersion"); v == "" || v != text(sub(old, "metadata"), "resourceVersion") {
		return nil, status(http.StatusConflict, "version")
	}
	fresh := copied(old)
	merge(fresh, patch)
	if err := w.put(path, fresh, old); err != nil {
		return nil, err
	}
	w.tell("patch", path, w.objects[path])
	return encoded(w.objects[path]), nil
}

func (w *world) Delete(_ context.Context, path string, must kubeapi.Preconditions) error {
	if err := w.refuse("delete", path); err != nil {
		return err
	}
	old, ok := w.objects[path]
	if !ok {
		return status(http.StatusNotFound, "not found")
	}
	meta := sub(old, "metadata")
	if must.UID != text(meta, "uid") || must.ResourceVersion != text(meta, "resourceVersion") {
		return status(http.StatusConflict, "precondition")
	}
	delete(w.objects, path)
	w.tell("delete", path, old)
	return nil
}

// put validates and stores an object; old is nil for a new one.
func (w *world) put(path string, o, old object) error {
	o = copied(o)
	var err error
	if strings.Contains(path, "/services/") {
		if w.mutate != nil {
			w.mutate(o)
		}
		err = w.service(o, old)
	} else {
		err = endpointSlice(o, old)
	}
	if err != nil {
		return err
	}
	meta := sub(o, "metadata")
	w.version++
	if old == nil {
		meta["uid"] = fmt.Sprint("uid-", w.version)
	}
	meta["resourceVersion"] = strconv.Itoa(w.version)
	o["metadata"] = meta
	w.objects[path] = copied(o)
	return nil
}

func invalid(format string, args ...any) error {
	return status(http.StatusUnprocessableEntity, fmt.Sprintf(format, args...))
}

// service completes a Service as the API does.
func (w *world) service(o, old object) error {
	spec := sub(o, "spec")
	o["spec"] = spec
	if text(spec, "type") == "" {
		spec["type"] = "ClusterIP"
	}
	external := text(spec, "type") == "ExternalName"
	if external {
		for _, k := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} {
			delete(spec, k)
		}
		if text(spec, "externalName") == "" {
			return invalid("externalName is required")
		}
		return nil
	}
	delete(spec, "externalName")
	complete(spec)
	if len(list(spec, "loadBalancerSourceRanges")) > 0 && text(spec, "type") != "LoadBalancer" {
		return invalid("loadBalancerSourceRanges")
	}
	if len(list(spec, "ports")) == 0 && text(spec, "clusterIP") != "None" {
		return invalid("ports are required")
	}
	was := sub(old, "spec")
	if old != nil && text(was, "type") != "ExternalName" {
		if list(was, "ipFamilies")[0] != list(spec, "ipFamilies")[0] {
			return invalid("primary family is immutable")
		}
		if text(spec, "clusterIP") != text(was, "clusterIP") {
			return invalid("clusterIP is immutable")
		}
	}
	return w.assign(spec)
}

// complete fills defaults in.
func complete(spec object) {
	if len(list(spec, "ipFamilies")) == 0 {
		spec["ipFamilies"] = []any{"IPv4"}
	}
	if text(spec, "ipFamilyPolicy") == "" {
		spec["ipFamilyPolicy"] = "SingleStack"
	}
	if text(spec, "internalTrafficPolicy") == "" {
		spec["internalTrafficPolicy"] = "Cluster"
	}
	for i, each := range list(spec, "ports") {
		p := each.(object)
		if text(p, "protocol") == "" {
			p["protocol"] = "TCP"
		}
		if p["targetPort"] == nil {
			p["targetPort"] = p["port"]
		}
		if text(spec, "type") == "ClusterIP" {
			delete(p, "nodePort")
		} else {
			p["nodePort"] = float64(30000 + i)
		}
	}
}

// assign gives a ClusterIP per family, and takes those of families that went.
func (w *world) assign(spec object) error {
	if text(spec, "clusterIP") == "None" {
		spec["clusterIPs"] = []any{"None"}
		return nil
	}
	families := list(spec, "ipFamilies")
	if text(spec, "ipFamilyPolicy") == "SingleStack" && len(families) > 1 {
		return invalid("SingleStack with two families")
	}
	have := list(spec, "clusterIPs")
	var ips []any
	for i, f := range families {
		if i < len(have) {
			ips = append(ips, have[i])
			continue
		}
		w.ips++
		if f == "IPv4" {
			ips = append(ips, fmt.Sprintf("10.96.%d.%d", w.ips/250%250, w.ips%250+1))
		} else {
			ips = append(ips, fmt.Sprintf("fd00::%x", w.ips+1))
		}
	}
	spec["clusterIPs"], spec["clusterIP"] = ips, ips[0]
	return nil
}

func endpointSlice(o, old object) error {
	if old != nil && text(o, "addressType") != text(old, "addressType") {
		return invalid("addressType is immutable")
	}
	for _, e := range list(o, "endpoints") {
		for _, a := range list(e.(object), "addresses") {
			if strings.Contains(a.(string), ":") != (text(o, "addressType") == "IPv6") {
				return invalid("address of another family")
			}
		}
	}
	return nil
}

// collect does what Kubernetes' garbage collector does: what is owned by nobody
// who exists goes.
func (w *world) collect() {
	for again := true; again; {
		again = false
		uids := map[string]bool{}
		for _, o := range w.objects {
			uids[text(sub(o, "metadata"), "uid")] = true
		}
		for path, o := range w.objects {
			refs := list(sub(o, "metadata"), "ownerReferences")
			if len(refs) > 0 && !slices.ContainsFunc(refs, func(r any) bool { return uids[text(r.(object), "uid")] }) {
				delete(w.objects, path)
				again = true
			}
		}
	}
}

// look tells a view what there is, as the followers would.
func (w *world) look(v *view) {
	var services []Service
	var ours []Slice
	for _, path := range slices.Sorted(maps.Keys(w.objects)) {
		data := encoded(w.objects[path])
		if strings.Contains(path, "/services/") {
			var s Service
			if err := json.Unmarshal(data, &s); err != nil {
				panic(err)
			}
			services = append(services, s)
			continue
		}
		var s Slice
		if err := json.Unmarshal(data, &s); err != nil {
			panic(err)
		}
		if s.Metadata.Labels["endpointslice.kubernetes.io/managed-by"] == owner {
			ours = append(ours, s)
		}
	}
	v.replaceServices("", services)
	v.replaceSlices("", ours)
}

// pass looks and performs until nothing is left to do, and returns how many
// rounds it took.
func (w *world) settle(v *view) (rounds int) {
	for ; rounds < 20; rounds++ {
		w.look(v)
		for _, name := range v.takenNames() {
			_ = free(context.Background(), w, v, name)
		}
		plan := Decide(v.snapshot())
		if len(plan.Actions) == 0 {
			return rounds
		}
		for _, a := range plan.Actions {
			_ = perform(context.Background(), w, v, a)
		}
	}
	return rounds
}

func same(a, b object) bool { return reflect.DeepEqual(a, b) }

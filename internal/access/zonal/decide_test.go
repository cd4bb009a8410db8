package zonal

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

const (
	servicesPath = "/api/v1/namespaces/shop/services/"
	slicesPath   = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/"
)

// real puts a Service there, annotated unless annotation is "".
func (w *world) real(t *testing.T, name, value string, spec object) {
	t.Helper()
	meta := object{"name": name, "namespace": "shop"}
	if value != "" {
		meta["annotations"] = object{annotation: value}
	}
	if spec["ports"] == nil && spec["clusterIP"] != "None" {
		spec["ports"] = []any{object{"name": "http", "port": 80.0, "targetPort": 8080.0, "appProtocol": "http"}}
	}
	if err := w.put(servicesPath+name, object{"metadata": meta, "spec": spec}, nil); err != nil {
		t.Fatal(err)
	}
}

// edit merges a patch into an object, as a person would.
func (w *world) edit(t *testing.T, path, patch string) {
	t.Helper()
	var p object
	if err := json.Unmarshal([]byte(patch), &p); err != nil {
		t.Fatal(err)
	}
	fresh := copied(w.objects[path])
	merge(fresh, p)
	if err := w.put(path, fresh, w.objects[path]); err != nil {
		t.Fatal(err)
	}
}

// transcript settles the world and tells each write in one line.
func (w *world) transcript(v *view) (lines []string) {
	w.wrote = func(verb, path string, _ object) {
		lines = append(lines, verb+" "+path[strings.Index(path, "/shop/")+6:])
	}
	defer func() { w.wrote = nil }()
	w.settle(v)
	return lines
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func newTestView() *view { return newView(func() {}) }

func TestAMirrorFollowsItsService(t *testing.T) {
	w, v := newWorld(), newTestView()
	w.real(t, "web", "true", object{
		"ipFamilies": []any{"IPv4", "IPv6"}, "ipFamilyPolicy": "RequireDualStack", "trafficDistribution": "PreferClose", "selector": object{"app": "web"},
		"ports": []any{object{"name": "http", "port": 80.0, "targetPort": "www"}, object{"name": "dns", "protocol": "UDP", "port": 53.0}, object{"name": "sig", "protocol": "SCTP", "port": 9.0}},
	})
	expect(t, "at first", w.transcript(v), "create services/web-zonal", "create endpointslices/web-zonal", "create endpointslices/web-zonal-ipv6")
	spec := sub(w.objects[servicesPath+"web-zonal"], "spec")
	if spec["selector"] != nil || spec["trafficDistribution"] != nil || len(list(spec, "ports")) != 3 || text(spec, "ipFamilyPolicy") != "RequireDualStack" {
		t.Errorf("mirror %v", spec)
	}
	slice := string(encoded(w.objects[slicesPath+"web-zonal"]))
	for _, want := range []string{`"addresses":["10.96.0.2"]`, `"name":"dns","port":53,"protocol":"UDP"`, `"name":"http","port":80,"protocol":"TCP"`, `"kubernetes.io/service-name":"web-zonal"`, `"ready":true`} {
		if !strings.Contains(slice, want) {
			t.Errorf("slice lacks %s: %s", want, slice)
		}
	}
	expect(t, "nothing to do", w.transcript(v))

	w.edit(t, servicesPath+"web", `{"spec":{"ports":[{"name":"http","port":81}]}}`)
	expect(t, "a port", w.transcript(v), "patch endpointslices/web-zonal", "patch endpointslices/web-zonal-ipv6", "patch services/web-zonal")
	w.edit(t, servicesPath+"web", `{"spec":{"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","clusterIPs":["10.96.0.2"]}}`)
	expect(t, "one family less", w.transcript(v), "patch services/web-zonal", "delete endpointslices/web-zonal-ipv6")
	w.edit(t, servicesPath+"web", `{"spec":{"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"PreferDualStack"}}`)
	expect(t, "and back", w.transcript(v), "create endpointslices/web-zonal-ipv6", "patch services/web-zonal")

	// Deleted and made again: another address and another owner.
	delete(w.objects, servicesPath+"web")
	w.real(t, "web", "true", object{})
	expect(t, "made again", w.transcript(v), "patch endpointslices/web-zonal", "patch services/web-zonal", "delete endpointslices/web-zonal-ipv6")
	// And of another first family, which a Service cannot change.
	delete(w.objects, servicesPath+"web")
	w.real(t, "web", "true", object{"ipFamilies": []any{"IPv6"}})
	expect(t, "other family", w.transcript(v),
		"create endpointslices/web-zonal-ipv6", "delete services/web-zonal", "create services/web-zonal", "delete endpointslices/web-zonal", "patch endpointslices/web-zonal-ipv6")

	w.edit(t, servicesPath+"web", `{"metadata":{"annotations":{"holdfast.dev/zonal":"false"}}}`)
	expect(t, "not asked any more", w.transcript(v), "delete services/web-zonal", "delete endpointslices/web-zonal-ipv6")
}

func TestWhatPeopleDoToAMirrorIsUndone(t *testing.T) {
	for _, c := range []struct{ path, patch, want string }{
		{"services/web-zonal", `{"spec":{"selector":{"app":"x"}}}`, "patch services/web-zonal"},
		{"services/web-zonal", `{"spec":{"trafficDistribution":"PreferClose"}}`, "patch services/web-zonal"},
		{"services/web-zonal", `{"spec":{"internalTrafficPolicy":"Local"}}`, "patch services/web-zonal"},
		{"services/web-zonal", `{"spec":{"type":"NodePort"}}`, "patch services/web-zonal"},
		{"services/web-zonal", `{"spec":{"type":"LoadBalancer","loadBalancerSourceRanges":["10.0.0.0/8"]}}`, "patch services/web-zonal"},
		{"services/web-zonal", `{"spec":{"type":"ExternalName","externalName":"x.example.org"}}`, "patch services/web-zonal"},
		{"services/web-zonal", `{"spec":{"ports":[{"name":"http","port":99}]}}`, "patch services/web-zonal"},
		{"endpointslices/web-zonal", `{"endpoints":[]}`, "patch endpointslices/web-zonal"},
		{"endpointslices/web-zonal", `{"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]}]}`, "patch endpointslices/web-zonal"},
		{"endpointslices/web-zonal", `{"endpoints":[{"addresses":["10.96.0.2"],"conditions":{"ready":false}}]}`, "patch endpointslices/web-zonal"},
		{"endpointslices/web-zonal", `{"ports":[]}`, "patch endpointslices/web-zonal"},
		{"endpointslices/web-zonal", `{"metadata":{"labels":{"kubernetes.io/service-name":"other"}}}`, "patch endpointslices/web-zonal"},
		{"services/web-zonal", `{"metadata":{"labels":{"team":"x"}},"spec":{"sessionAffinity":"None"}}`, ""}, // not ours to say
	} {
		w, v := newWorld(), newTestView()
		w.real(t, "web", "true", object{})
		w.settle(v)
		path := servicesPath + "web-zonal"
		if strings.HasPrefix(c.path, "endpoint") {
			path = slicesPath + "web-zonal"
		}
		w.edit(t, path, c.patch)
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		expect(t, c.path+" "+c.patch, w.transcript(v), want...)
	}
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", 58)
	for _, c := range []struct {
		name, value string
		spec        object
		reason      string
		mirror      bool // one from before stays
	}{
		{"web", "yes", object{}, "BadAnnotation", true},
		{long, "true", object{}, "NameTooLong", false},
		{"web", "true", object{"clusterIP": "None"}, "Headless", false},
		{"web", "true", object{"type": "ExternalName", "externalName": "x"}, "ExternalName", false},
	} {
		w, v := newWorld(), newTestView()
		if c.name == "web" {
			w.real(t, "web", "true", object{})
			w.settle(v)
			delete(w.objects, servicesPath+"web")
		}
		w.real(t, c.name, c.value, c.spec)
		w.settle(v)
		plan := Decide(v.snapshot())
		if len(plan.Mirrors) != 1 || plan.Mirrors[0].State != Refused || plan.Mirrors[0].Reason != c.reason || !strings.Contains(plan.Mirrors[0].Message, ";") {
			t.Errorf("%s: %+v", c.reason, plan.Mirrors)
		}
		if _, there := w.objects[servicesPath+c.name+"-zonal"]; there != c.mirror {
			t.Errorf("%s: mirror there: %v", c.reason, there)
		}
	}
}

func TestForeignObjectsStay(t *testing.T) {
	foreign := func(labels object) object {
		return object{"metadata": object{"name": "web-zonal", "namespace": "shop", "labels": labels}, "spec": object{"ports": []any{object{"port": 1.0}}}, "addressType": "IPv4"}
	}
	for _, c := range []struct {
		path, reason string
		labels       object
	}{
		{servicesPath + "web-zonal", "NameTaken", nil},
		{servicesPath + "web-zonal", "NameTaken", object{managedBy: owner}}, // a label is no proof
		{slicesPath + "web-zonal", "SliceNameTaken", object{"kubernetes.io/service-name": "web-zonal"}},
		{slicesPath + "web-zonal", "SliceNameTaken", object{"endpointslice.kubernetes.io/managed-by": owner}},
	} {
		w, v := newWorld(), newTestView()
		if err := w.put(c.path, foreign(c.labels), nil); err != nil {
			t.Fatal(err)
		}
		before := copied(w.objects[c.path])
		w.real(t, "web", "true", object{})
		expect(t, c.path, w.transcript(v))
		plan := Decide(v.snapshot())
		if len(plan.Mirrors) != 1 || plan.Mirrors[0].Reason != c.reason || !same(before, w.objects[c.path]) {
			t.Errorf("%s: %+v", c.path, plan)
		}
		// And once it is gone, the mirror comes.
		delete(w.objects, c.path)
		expect(t, "after "+c.path, w.transcript(v), "create services/web-zonal", "create endpointslices/web-zonal")
	}
}

// Somebody takes our label off: the Service is theirs, and what it serves stays.
func TestAMirrorThatIsTakenOverKeepsItsEndpoint(t *testing.T) {
	w, v := newWorld(), newTestView()
	w.real(t, "web", "true", object{})
	w.settle(v)
	w.edit(t, servicesPath+"web-zonal", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"helm"}}}`)
	expect(t, "taken over", w.transcript(v))
	if plan := Decide(v.snapshot()); plan.Mirrors[0].Reason != "NameTaken" {
		t.Errorf("%+v", plan)
	}
	// Replaced by another of that name: our slice would give it our address.
	delete(w.objects, servicesPath+"web-zonal")
	w.real(t, "web-zonal", "", object{})
	expect(t, "replaced", w.transcript(v), "delete endpointslices/web-zonal")
}

// A view that lags behind deletes nothing that is wanted.
func TestNothingIsDeletedOnTheWordOfACache(t *testing.T) {
	w, v := newWorld(), newTestView()
	w.real(t, "web", "true", object{})
	w.settle(v)
	snapshot := v.snapshot()
	delete(snapshot.Services, Key{"shop", "web"})
	plan := Decide(snapshot)
	if len(plan.Actions) != 2 {
		t.Fatalf("%+v", plan.Actions)
	}
	for _, a := range plan.Actions {
		if err := perform(t.Context(), w, v, a); !errors.Is(err, errLate) {
			t.Errorf("%s %s: %v", a.Verb, a.Name, err)
		}
	}
	if len(w.objects) != 3 {
		t.Errorf("%d objects left", len(w.objects))
	}
}

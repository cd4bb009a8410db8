package slices

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

var targets = []plan.Target{{Address: "10.0.0.2", Port: 6443}, {Address: "10.0.0.3", Port: 6443}, {Address: "10.0.0.1", Port: 7443}}

func caOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func anObject(version string, all ...plan.Target) *oldEndpoints {
	var o oldEndpoints
	fillEndpoints(&o, &plan.Endpoints{Targets: all})
	o.ResourceVersion = version
	return &o
}

func TestObjectIsReadAsItIsWritten(t *testing.T) {
	o := anObject("7", targets...)
	if got, want := endpointsOf(o), (plan.Endpoints{Version: "7", Targets: targets}); !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
	if len(o.Subsets) != 2 || len(o.Subsets[0].Addresses) != 2 {
		t.Errorf("subsets: %+v", o.Subsets)
	}
}

func TestWhichObjectIsOdd(t *testing.T) {
	for _, c := range []struct {
		name   string
		odd    bool
		change func(*oldEndpoints)
	}{
		{"nothing", false, func(*oldEndpoints) {}},
		{"as an apiserver empties it", false, func(o *oldEndpoints) { o.Subsets = nil }},
		{"it would be mirrored", true, func(o *oldEndpoints) { o.Labels = nil }},
		{"a label of somebody", false, func(o *oldEndpoints) { o.Labels["team"] = "x" }},
		{"not ready trumps ready", true, func(o *oldEndpoints) { o.Subsets[0].NotReadyAddresses = o.Subsets[0].Addresses }},
		{"another port name", true, func(o *oldEndpoints) { o.Subsets[0].Ports[0].Name = "http" }},
		{"no port", true, func(o *oldEndpoints) { o.Subsets[0].Ports = nil }},
		{"protocol left out", false, func(o *oldEndpoints) { o.Subsets[0].Ports[0].Protocol = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := anObject("7", targets...)
			c.change(o)
			if got := endpointsOf(o); got.Odd != c.odd {
				t.Errorf("odd is %t", got.Odd)
			}
		})
	}
}

// What an apiserver answers to a write is known before a watch shows it, and a
// watch that lags does not take it back.
func TestWritingTheObject(t *testing.T) {
	var asked, body string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o oldEndpoints
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			t.Error(err)
		}
		asked, body = r.Method+" "+r.URL.Path, o.ResourceVersion+" "+o.Labels["team"]+" "+o.Subsets[0].Addresses[0].IP
		o.ResourceVersion = "9"
		_ = json.NewEncoder(w).Encode(&o)
	}))
	defer server.Close()
	client, err := kubeapi.New(kubeapi.Config{Server: server.URL, Token: "x", CAData: caOf(server)})
	if err != nil {
		t.Fatal(err)
	}
	a := &actor{client: func() (*kubeapi.Client, error) { return client, nil }, world: newWorld()}
	w := plan.Write{Op: plan.CreateEndpoints, Endpoints: plan.Endpoints{Targets: targets[:1]}}
	if err := a.perform(t.Context(), &sight{}, &w); err != nil || asked != "POST "+endpointsPath || body != "  10.0.0.2" {
		t.Errorf("%v, %s, %q", err, asked, body)
	}
	old := anObject("5", targets...)
	old.Labels["team"] = "x"
	a.world.replaceEndpoints([]oldEndpoints{*old})
	s := a.world.look()
	w = plan.Write{Op: plan.UpdateEndpoints, Endpoints: plan.Endpoints{Version: "5", Targets: targets[:1]}}
	if err := a.perform(t.Context(), &s, &w); err != nil || asked != "PUT "+endpointsPath+"/kubernetes" || body != "5 x 10.0.0.2" {
		t.Errorf("%v, %s, %q", err, asked, body)
	}
	a.world.applyEndpoints(false, anObject("8", targets...))
	if v := a.world.look().view; !v.EndpointsKnown || v.Endpoints.Version != "9" {
		t.Errorf("known %t: %+v", v.EndpointsKnown, v.Endpoints)
	}
	a.world.applyEndpoints(true, anObject("10"))
	if v := a.world.look().view; !v.EndpointsKnown || v.Endpoints != nil {
		t.Errorf("deleted, and there is %+v", v.Endpoints)
	}
}

// An agent that was granted its rights before this object was among them does
// all the rest.
func TestReadingWithoutTheYoungestRight(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusOK
		switch {
		case strings.HasPrefix(r.URL.Path, endpointsPath):
			code = http.StatusForbidden
		case strings.HasSuffix(r.URL.Path, "/kubernetes"):
			code = http.StatusNotFound
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{}`))
	}))
	defer server.Close()
	client, err := kubeapi.New(kubeapi.Config{Server: server.URL, Token: "x", CAData: caOf(server)})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	w.replaceEndpoints(nil)
	s, err := (&reader{world: w, client: client}).read(t.Context())
	if err != nil || s.view.EndpointsKnown || w.look().view.EndpointsKnown {
		t.Errorf("%v, known %t", err, s.view.EndpointsKnown)
	}
}

// FuzzEndpoints reads whatever the API may hold, and what is made of it again.
func FuzzEndpoints(f *testing.F) {
	data, err := json.Marshal(anObject("7", targets...))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"subsets":[{},{"addresses":[{}],"notReadyAddresses":[{}]},{"ports":[{"name":"https"}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o oldEndpoints
		if json.Unmarshal(data, &o) != nil {
			return
		}
		e := endpointsOf(&o)
		var again oldEndpoints
		fillEndpoints(&again, e)
		if got := endpointsOf(&again); got.Odd || len(got.Targets) != len(e.Targets) {
			t.Errorf("%+v reads as %+v", e, got)
		}
	})
}

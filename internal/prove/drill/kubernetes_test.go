package drill

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

func TestLabSpecOfKubernetes(t *testing.T) {
	for _, tc := range []struct {
		scenario, variant          string
		agents                     bool
		endpoints, server, storage string
	}{
		{"partial-split-kubernetes", "main", true, "none", "https://127.0.0.1:7445", ""},
		{"partial-split-kubernetes", "main", false, "", "", ""},
		{"orphan-zone", "cut", false, "none", "https://127.0.0.1:7445", ""},
		{"orphan-zone", "main", false, "", "", ""},
		{"zonal-gateway", "main", true, "", "", ""},
		{"etcd-headless", "main", true, "", "", "https://127.0.0.1:2382"},
		{"etcd-headless", "main", false, "", "", "list"},
	} {
		spec, err := labSpec(mustCase(t, tc.scenario, tc.variant), tc.agents, "", "/run/x")
		if err != nil || spec.APIServer.Endpoints != tc.endpoints || spec.KubernetesOptions.NodeServer != tc.server || spec.APIServer.Etcd != tc.storage {
			t.Errorf("%s %s %t: %+v %+v, %v", tc.scenario, tc.variant, tc.agents, spec.APIServer, spec.KubernetesOptions, err)
		}
		if want := tc.scenario != "etcd-headless"; spec.Kubernetes != want {
			t.Errorf("%s: Kubernetes is %t", tc.scenario, spec.Kubernetes)
		}
	}
}

func TestGatewayConfigGolden(t *testing.T) {
	golden(t, "gateway.cfg", []byte(gatewayConfig([]string{"10.244.1.5:8080", "10.244.2.5:8080"})))
}

func TestGatewayTakesReadyEndpoints(t *testing.T) {
	var all []sliceObject
	err := json.Unmarshal([]byte(`[
	 {"metadata":{"name":"echo-2"},"ports":[{"port":8080}],"endpoints":[{"addresses":["10.244.2.5"],"conditions":{"ready":true}},{"addresses":["10.244.2.6"],"conditions":{"ready":false}}]},
	 {"metadata":{"name":"echo-1"},"ports":[{"port":8080}],"endpoints":[{"addresses":["10.244.1.5"]}]},
	 {"metadata":{"name":"echo-0"},"endpoints":[{"addresses":["10.244.0.5"]}]}]`), &all)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]sliceObject{}
	for _, s := range all {
		known[s.name()] = s
	}
	got := upstreamsOf(known)
	if want := []string{"10.244.1.5:8080", "10.244.2.5:8080"}; !slices.Equal(got, want) {
		t.Errorf("upstreams %v, want %v", got, want)
	}
	g := &gateway{file: filepath.Join(t.TempDir(), "gateway.cfg")}
	if err := g.take(got); err != nil {
		t.Fatal(err)
	}
	if err := g.take(nil); err != nil || len(g.current()) != 2 {
		t.Errorf("no endpoints: %v, upstreams are %v, want those before", err, g.current())
	}
	if _, err := os.Stat(g.file); err != nil {
		t.Error(err)
	}
}

func TestSeedEndpointsHaveZoneAndHint(t *testing.T) {
	var s sliceObject
	text := `{"endpoints":` + seedEndpoints("10.77.2.11", "b1", "b", false) + `}`
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if e := endpointsOf([]sliceObject{s}, nil)[0]; e.Zone != "b" || e.Ready || !slices.Equal(e.Hints, []string{"b"}) || e.Address != "10.77.2.11" {
		t.Errorf("endpoint %+v of %s", e, text)
	}
	for _, tc := range []struct {
		variant string
		agents  bool
		want    bool
	}{{"main", false, false}, {"cut", false, true}, {"cut", true, false}} {
		if e := (&engine{c: mustCase(t, "orphan-zone", tc.variant), agents: tc.agents}); e.publishesSeed() != tc.want {
			t.Errorf("orphan-zone %s, agents %t: seed %t", tc.variant, tc.agents, !tc.want)
		}
	}
}

func TestClientsInPodsAreToldApart(t *testing.T) {
	e := &engine{c: mustCase(t, "partial-split-kubernetes", "main")}
	onNode, inPod := e.clientsOf("b")
	if len(onNode) != 0 || len(inPod) != 5 {
		t.Errorf("%d on the node, %d in the pod", len(onNode), len(inPod))
	}
	if p := (scenario.Path{Site: "b", Mode: "new"}); leaseOf(p) != "drill-b-new" {
		t.Errorf("lease %s", leaseOf(p))
	}
	e.agents = true
	if e.gatewayService() != "echo" {
		t.Error("a gateway without an agent reads a mirror")
	}
	if e.c = mustCase(t, "zonal-gateway", "main"); e.gatewayService() != "echo-zonal" {
		t.Error("a gateway with the agent does not read the mirror")
	}
}

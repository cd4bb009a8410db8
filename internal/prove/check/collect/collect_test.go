package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// recording is an API that answers from a table and keeps what it was asked.
type recording struct {
	answers map[string]string
	codes   map[string]int
	asked   []string
	// fits is the largest limit that is answered; others are too large.
	fits int
}

func (r *recording) Get(_ context.Context, path string, query url.Values) ([]byte, error) {
	r.asked = append(r.asked, path)
	if code := r.codes[path]; code != 0 {
		return nil, &kubeapi.StatusError{Op: "get " + path, Code: code}
	}
	var limit int
	if _, err := fmt.Sscan(query.Get("limit"), &limit); err == nil && r.fits > 0 && limit > r.fits {
		return nil, fmt.Errorf("get %s: %w", path, kubeapi.ErrTooLarge)
	}
	if at := query.Get("continue"); at != "" {
		path += "?" + at
	}
	if answer, ok := r.answers[path]; ok {
		return []byte(answer), nil
	}
	if strings.Contains(path, "/configmaps/") || strings.Count(path, "/") == 2 && strings.HasPrefix(path, "/apis/") {
		return nil, &kubeapi.StatusError{Op: "get " + path, Code: http.StatusNotFound}
	}
	return []byte(`{"kind":"List","metadata":{},"items":[]}`), nil
}

func cluster() *recording {
	return &recording{
		codes: map[string]int{},
		answers: map[string]string{
			"/version":         `{"gitVersion":"v1.37.2"}`,
			"/api/v1/nodes":    `{"metadata":{"continue":"2"},"items":[{"metadata":{"name":"a1","labels":{"node-role.kubernetes.io/control-plane":""},"managedFields":[{"manager":"x"}]},"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.11"}],"images":[{"names":["x"]}]}}]}`,
			"/api/v1/nodes?2":  `{"metadata":{},"items":[{"metadata":{"name":"w1"}}]}`,
			"/api/v1/pods":     `{"metadata":{},"items":[{"metadata":{"name":"kube-vip","namespace":"kube-system"},"spec":{"containers":[{"name":"kube-vip","args":["--token=abc"],"env":[{"name":"DB_PASSWORD","value":"hunter2"},{"name":"vip_leaseduration","value":"5"},{"name":"bgp_peers","value":"10.0.0.1:65000:hunter2:false"}]}]}}]}`,
			"/api/v1/services": `{"metadata":{},"items":[{"metadata":{"name":"kubernetes","namespace":"default"},"spec":{"clusterIPs":["10.96.0.1"]}}]}`,
			"/apis/discovery.k8s.io/v1/endpointslices":                 `{"metadata":{},"items":[{"metadata":{"name":"kubernetes","namespace":"default","labels":{"kubernetes.io/service-name":"kubernetes"}},"endpoints":[{"addresses":["10.0.0.12"]}],"ports":[{"port":6443}]}]}`,
			"/api/v1/namespaces/kube-system/configmaps/kubeadm-config": `{"metadata":{"name":"kubeadm-config","namespace":"kube-system"},"data":{"ClusterConfiguration":"controlPlaneEndpoint: api.example.org:7443\n"}}`,
			"/apis/metallb.io":                  `{"preferredVersion":{"version":"v1beta2"}}`,
			"/apis/metallb.io/v1beta2/bgppeers": `{"metadata":{},"items":[{"metadata":{"name":"r","namespace":"metallb-system"},"spec":{"peerAddress":"10.0.0.1","password":"hunter2"}}]}`,
		},
	}
}

func known(_ context.Context, address string) fact.Probe {
	return fact.Probe{Address: address, Outcome: fact.ProbeOK, Names: []string{"kubernetes"}}
}

// A cluster becomes facts, in a bundle and straight, and both are the same. Nothing
// of a credential is in either.
func TestClusterBecomesFacts(t *testing.T) {
	var b bytes.Buffer
	w := source.NewWriter(&b, source.Manifest{}.Collected)
	m, err := Cluster(context.Background(), cluster(), "https://10.0.0.100:6443", w, known)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(m); err != nil {
		t.Fatal(err)
	}
	bundled, err := source.Read(&b, "x", source.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	feed := source.NewFeed("x", source.DefaultLimits())
	if m, err = Cluster(context.Background(), cluster(), "https://10.0.0.100:6443", feed, known); err != nil {
		t.Fatal(err)
	}
	live, err := feed.Close(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*fact.Facts{bundled, live} {
		f.Collected = m.Collected
		inspect(t, f)
	}
	one, _ := json.Marshal(bundled.Pods)
	other, _ := json.Marshal(live.Pods)
	if !bytes.Equal(one, other) || bytes.Contains(one, []byte("hunter2")) || bytes.Contains(one, []byte("abc")) {
		t.Errorf("bundle and live differ, or have credentials:\n%s\n%s", one, other)
	}
}

func inspect(t *testing.T, f *fact.Facts) {
	t.Helper()
	for _, p := range f.Problems {
		t.Errorf("%s: %s", p.Where, p.What)
	}
	if f.Server != "v1.37.2" || f.Count(fact.Nodes) != 2 || f.Count(fact.Services) != 1 {
		t.Errorf("server %s, %d nodes, %d services", f.Server, f.Count(fact.Nodes), f.Count(fact.Services))
	}
	for key, want := range map[string]fact.State{
		"leases": fact.Absent, "poddisruptionbudgets": fact.Absent, "pods": fact.Present, "configmaps": fact.Present, "custom": fact.Present,
		"custom/metallb.io": fact.Present, "custom/cilium.io": fact.Absent, "files": fact.Unknown, "webhookconfigurations": fact.Absent,
		"configmaps/kube-public/cluster-info": fact.Absent,
	} {
		if got := f.KnownOf(key); got.State != want {
			t.Errorf("%s: %s (%s), want %s", key, got.State, got.Why, want)
		}
	}
	if peers := f.CustomOf("metallb.io", "BGPPeer"); len(peers) != 1 || peers[0].Object.Text("spec", "peerAddress") != "10.0.0.1" || peers[0].Object.Text("spec", "password") == "hunter2" {
		t.Errorf("peers %+v", peers)
	}
	var probed []string
	for _, p := range f.Probes.Items {
		probed = append(probed, p.Object.Address+" "+p.Object.Role)
	}
	want := []string{"10.0.0.100:6443 kubeconfig", "10.0.0.11:6443 control-plane", "10.0.0.12:6443 endpoint", "10.96.0.1:443 service", "api.example.org:7443 address"}
	if !slices.Equal(probed, want) {
		t.Errorf("probed %v, want %v", probed, want)
	}
	if env, _ := f.Components("kube-vip")[0].Env("vip_leaseduration"); env != "5" {
		t.Errorf("a setting was taken out: %q", env)
	}
}

// What may not be read is unknown, with the remedy; the rest is read.
func TestForbiddenIsUnknown(t *testing.T) {
	api := cluster()
	api.codes["/apis/coordination.k8s.io/v1/leases"] = http.StatusForbidden
	api.codes["/api/v1/namespaces/kube-system/configmaps/kube-proxy"] = http.StatusForbidden
	api.codes["/apis/metallb.io/v1beta2/bgppeers"] = http.StatusForbidden
	feed := source.NewFeed("x", source.DefaultLimits())
	m, err := Cluster(context.Background(), api, "", feed, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := feed.Close(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"leases", "configmaps/kube-system/kube-proxy", "custom", "custom/metallb.io"} {
		if k := f.KnownOf(key); k.State != fact.Unknown || !strings.Contains(k.Why, "deploy/check-role.yaml") {
			t.Errorf("%s: %+v", key, k)
		}
	}
	if len(f.Problems) != 4 || f.Count(fact.Pods) != 1 || f.Probes.State != fact.Unknown {
		t.Errorf("problems %v, %d pods, probes %s", f.Problems, f.Count(fact.Pods), f.Probes.State)
	}
}

func TestNoClusterNoFacts(t *testing.T) {
	for name, api := range map[string]*recording{
		"no answer":    {codes: map[string]int{"/version": 503}},
		"another HTTP": {answers: map[string]string{"/version": "<html>"}},
	} {
		if _, err := Cluster(context.Background(), api, "", source.NewFeed("x", source.DefaultLimits()), nil); err == nil {
			t.Errorf("%s: was read", name)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("gone away")
	cancel(gone)
	if _, err := Cluster(ctx, cluster(), "", source.NewFeed("x", source.DefaultLimits()), nil); !errors.Is(err, gone) {
		t.Errorf("%v, want the cause of the context", err)
	}
}

// Answers that are too large are asked for in smaller pages.
func TestPagesShrink(t *testing.T) {
	api := cluster()
	api.fits = 40
	feed := source.NewFeed("x", source.DefaultLimits())
	m, err := Cluster(context.Background(), api, "", feed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := feed.Close(m); err != nil || f.Count(fact.Nodes) != 2 {
		t.Errorf("%v, %d nodes", err, f.Count(fact.Nodes))
	}
}

// The role that is shipped grants what is asked for, and nothing besides.
func TestRoleIsExact(t *testing.T) {
	data, err := os.ReadFile("../../../../deploy/check-role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role struct {
		Rules []struct {
			APIGroups     []string `yaml:"apiGroups"`
			Resources     []string `yaml:"resources"`
			ResourceNames []string `yaml:"resourceNames"`
			Verbs         []string `yaml:"verbs"`
		} `yaml:"rules"`
	}
	if err := yaml.Unmarshal(data, &role); err != nil {
		t.Fatal(err)
	}
	granted, wanted := map[string]bool{}, map[string]bool{}
	for _, r := range role.Rules {
		for _, g := range r.APIGroups {
			for _, resource := range r.Resources {
				names := r.ResourceNames
				if len(names) == 0 {
					names = []string{""}
				}
				for _, name := range names {
					granted[strings.Join(r.Verbs, ",")+" "+g+"/"+resource+" "+name] = true
				}
			}
		}
	}
	for _, r := range Resources {
		wanted["list "+r.Group+"/"+r.Resource+" "] = true
	}
	for _, m := range ConfigMaps {
		wanted["get /configmaps "+m.Name] = true
	}
	for what := range granted {
		if !wanted[what] {
			t.Errorf("%s: granted and not needed", what)
		}
	}
	for what := range wanted {
		if !granted[what] {
			t.Errorf("%s: needed and not granted", what)
		}
	}
}

// Every group whose objects are collected is one that is kept.
func TestGroupsAreKept(t *testing.T) {
	for _, r := range Resources {
		if r.Kind == fact.Custom && !slices.Contains(fact.CustomGroups, r.Group) {
			t.Errorf("%s: collected and then dropped", r.Group)
		}
	}
}

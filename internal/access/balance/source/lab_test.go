package source

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// startAPIServers starts a lab with a real kube-apiserver on each of three
// sites, or skips; in CI it fails instead.
func startAPIServers(ctx context.Context, t *testing.T) *lab.Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("a lab takes half a minute")
	}
	err := lab.Preflight()
	if err == nil {
		_, err = lab.FindAPIServer()
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("CI runs every lab test: %v", err)
	default:
		t.Skip(err)
	}
	spec, err := lab.Default("lan")
	if err != nil {
		t.Fatal(err)
	}
	spec.APIServers, spec.Dir = true, t.TempDir()
	l, err := lab.Start(ctx, spec, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := l.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAPIServers(ctx); err != nil {
		t.Fatal(err)
	}
	return l
}

// site is what the test needs of one site.
type site struct {
	*lab.APIServer
	node  *lab.Node
	files lab.KubernetesPKI
}

func siteOf(t *testing.T, l *lab.Lab, name string) site {
	t.Helper()
	a, err := l.APIServer(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range l.Nodes() {
		if files, ok := l.KubernetesPKI(n.Name()); ok && n.Site() == name {
			return site{a, n, files}
		}
	}
	t.Fatalf("no node in %s", name)
	return site{}
}

// eventually waits for a condition of the real world.
func eventually(ctx context.Context, t *testing.T, what string, holds func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !holds() {
		wait(ctx, 20*time.Millisecond)
		if ctx.Err() != nil || time.Since(start) > 30*time.Second {
			t.Fatalf("not within %v: %s", time.Since(start), what)
		}
	}
	took := time.Since(start).Round(10 * time.Millisecond)
	t.Logf("%-50s after %v", what, took)
	return took
}

// The real apiservers' own EndpointSlice, and one of another Service, followed
// from a node while servers come and go.
func TestSlicesOfRealAPIServers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	l := startAPIServers(ctx, t)
	a, b, c := siteOf(t, l, "a"), siteOf(t, l, "b"), siteOf(t, l, "c")
	all := []string{a.Address(), b.Address(), c.Address()}

	// As through the node's own frontend: each connection goes to a server
	// that the test chooses.
	var through atomic.Value
	through.Store(a.Address())
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return a.node.DialContext(ctx, network, through.Load().(string))
	}
	admin := kubeapi.Connector(a.files.AdminConf, "", dial)
	state := filepath.Join(t.TempDir(), "state.json")
	slices := NewSlices(SlicesOptions{Connect: admin})
	web := NewSlices(SlicesOptions{Service: "web", Port: "main", Connect: admin})
	refused := NewSlices(SlicesOptions{Namespace: "kube-system", Connect: kubeapi.Connector(a.files.KubeletConf, "", dial)})
	set := NewSet(Options{Name: "lab", Static: bs("10.255.0.9"), Sources: []Source{slices, refused}, StateFile: state})
	webSet := NewSet(Options{Name: "web", Sources: []Source{web}})
	done := make(chan struct{}, 2)
	defer func() { cancel(); <-done; <-done }()
	for _, s := range []*Set{set, webSet} {
		go func() { _ = s.Run(ctx, func([]Backend) {}); done <- struct{}{} }()
	}

	eventually(ctx, t, "three apiservers listed, the static one demoted", func() bool {
		got := set.Current()
		return len(got) == 4 && has(got, all...) && got[len(got)-1].Demoted != got[0].Demoted
	})
	eventually(ctx, t, "a kubelet's credentials do not do", func() bool {
		return refused.Status().Error == "may not list endpointslices in namespace kube-system: give a service account or kubeconfig"
	})
	client, err := admin()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	changeAService(ctx, t, client, webSet)

	through.Store(b.Address())
	if err := a.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	client.Close()
	changeAgain(ctx, t, client, webSet)
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "an apiserver that stops in order is gone", func() bool { return !has(set.Current(), c.Address()) })
	eventually(ctx, t, "a killed one's lease (15 s) runs out", func() bool { return !has(set.Current(), a.Address()) })
	known, _, err := readState(state, "lab")
	if err != nil || len(known) != 1 || len(known[0].Backends) > 2 {
		t.Errorf("state %+v, %v", known, err)
	}
	if s := slices.Status(); !s.OK {
		t.Errorf("%+v", s)
	}
}

func has(list []Backend, ids ...string) bool {
	for _, id := range ids {
		if !contains(list, Backend{Network: "tcp", Address: id}) {
			return false
		}
	}
	return true
}

const slicesPath = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

func webSlice(version string, ips ...string) []byte {
	var endpoints []map[string]any
	for _, ip := range ips {
		endpoints = append(endpoints, map[string]any{"addresses": []string{ip}, "zone": "z", "conditions": map[string]any{"ready": false, "serving": true, "terminating": true}})
	}
	meta := map[string]any{"name": "web-1", "labels": map[string]string{"kubernetes.io/service-name": "web"}}
	if version != "" {
		meta["resourceVersion"] = version
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta, "addressType": "IPv4", "endpoints": endpoints,
		"ports": []map[string]any{{"name": "other", "port": 1}, {"name": "main", "port": 6443}},
	})
	if err != nil {
		panic(err)
	}
	return text
}

func changeAService(ctx context.Context, t *testing.T, client *kubeapi.Client, set *Set) {
	t.Helper()
	if _, err := client.Create(ctx, slicesPath, webSlice("", "10.20.0.1", "10.20.0.2")); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "a new slice", func() bool { return has(set.Current(), "10.20.0.1:6443", "10.20.0.2:6443") })
	if one := set.Current()[0]; one.Zone != "z" || !one.Serving || !one.Terminating {
		t.Errorf("%+v", one)
	}
	if _, err := client.Put(ctx, slicesPath+"/web-1", webSlice("1", "10.20.0.3")); kubeapi.Code(err) != 409 {
		t.Errorf("put of an old version: %v", err)
	}
}

// changeAgain changes the slice after the server of the watch was killed.
func changeAgain(ctx context.Context, t *testing.T, client *kubeapi.Client, set *Set) {
	t.Helper()
	text, err := client.Get(ctx, slicesPath+"/web-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(ctx, slicesPath+"/web-1", webSlice(s.Metadata.ResourceVersion, "10.20.0.2", "10.20.0.3")); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "a change seen through another server", func() bool {
		return fmt.Sprint(ids(set.Current())) == "[10.20.0.2:6443 10.20.0.3:6443]"
	})
	if s := set.Status()[0]; strings.Contains(s.Error, "Expired") {
		t.Errorf("%+v", s)
	}
}

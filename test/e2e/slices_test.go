package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// zoned is a cluster with a kube-apiserver in every site, Nodes with zones, and
// a slices agent beside each apiserver.
type zoned struct {
	*cluster
}

// startZoned makes the lab; endpoints is who keeps the slice kubernetes.
func startZoned(t *testing.T, endpoints string) *zoned {
	t.Helper()
	if err := lab.Preflight(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this suite must not be skipped in CI: %v", err)
		}
		t.Skip(err)
	}
	spec, err := lab.Default("lan")
	if err != nil {
		t.Fatal(err)
	}
	spec.Dir, spec.APIServers, spec.APIServer.Endpoints = t.TempDir(), true, endpoints
	l, err := lab.Start(t.Context(), spec, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close lab: %v", err)
		}
	})
	z := &zoned{&cluster{t: t, lab: l, agents: map[string]*agent{}}}
	t.Cleanup(func() {
		z.t = t
		z.showLogs()
	})
	if err := l.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAPIServers(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, site := range sites {
		z.makeNode(site)
	}
	return z
}

func (z *zoned) apiserver(site string) *lab.APIServer {
	z.t.Helper()
	a, err := z.lab.APIServer(site)
	if err != nil {
		z.t.Fatal(err)
	}
	return a
}

func (z *zoned) node(site string) string { return z.member(site).Node().Name() }

// ask sends a request as the administrator to the apiserver of a site.
func (z *zoned) ask(site, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var body []byte
	kind := ""
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
		kind = "application/json"
		if method == http.MethodPatch {
			kind = "application/merge-patch+json"
		}
	}
	code, answer, err := z.apiserver(site).Request(ctx, method, path, kind, body)
	if err != nil {
		return err
	}
	if code/100 != 2 {
		return fmt.Errorf("%s %s: %d %.300s", method, path, code, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// makeNode registers a site's node as a kubelet would.
func (z *zoned) makeNode(site string) {
	z.t.Helper()
	n := core.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: z.node(site), Labels: map[string]string{core.LabelTopologyZone: site, core.LabelHostname: z.node(site)}},
	}
	z.until("Node of "+site, 20*time.Second, func() error { return z.ask("a", http.MethodPost, "/api/v1/nodes", n, nil) })
	n.Status.Addresses = []core.NodeAddress{{Type: core.NodeInternalIP, Address: z.member(site).Node().IP().String()}}
	if err := z.ask("a", http.MethodPatch, "/api/v1/nodes/"+n.Name+"/status", map[string]any{"status": n.Status}, nil); err != nil {
		z.t.Fatal(err)
	}
}

// run starts the agent of a site. Its list of servers stands in for a balancer.
func (z *zoned) run(site string, flags ...string) {
	z.t.Helper()
	pki := z.apiserver(site).PKI()
	servers := []string{"https://127.0.0.1:6443"}
	for _, s := range sites {
		if s != site {
			servers = append(servers, z.apiserver(s).URL())
		}
	}
	settings := fmt.Sprintf("node: %s\napiserver: {ca: %s, cert: %s, key: %s}\napi: {servers: [%s], kubeconfig: %s}\nwitnesses: [c]\nlog: {format: json, level: debug}\n",
		z.node(site), pki.CA, pki.KubeletCert, pki.KubeletKey, strings.Join(servers, ", "), pki.AdminConf)
	path := filepath.Join(z.t.TempDir(), "slices.yaml")
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		z.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		z.t.Fatal(err)
	}
	z.agents[site] = z.spawn(z.member(site), "slices-"+site, append([]string{self, "slices", "run", "--config", path}, flags...))
}

// status asks the agent of a site.
func (z *zoned) status(site string) (slices.Status, error) {
	var s slices.Status
	conn, err := z.member(site).Node().DialContext(z.t.Context(), "tcp", "127.0.0.1:9387")
	if err != nil {
		return s, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := fmt.Fprint(conn, "GET /status HTTP/1.0\r\n\r\n"); err != nil {
		return s, err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return s, err
	}
	_, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	return s, json.Unmarshal([]byte(body), &s)
}

// slices reads the slices of the Service through the apiserver of a site.
func (z *zoned) slices(site string) (map[string]discovery.EndpointSlice, error) {
	var list discovery.EndpointSliceList
	if err := z.ask(site, http.MethodGet, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", nil, &list); err != nil {
		return nil, err
	}
	all := map[string]discovery.EndpointSlice{}
	for _, s := range list.Items {
		all[s.Name] = s
	}
	return all, nil
}

// endpoint describes the endpoint of a site's slice: "ready [a c]".
func (z *zoned) endpoint(from, site string) (string, error) {
	all, err := z.slices(from)
	if err != nil {
		return "", err
	}
	s, ok := all["kubernetes-"+z.node(site)]
	if !ok || len(s.Endpoints) != 1 {
		return "", fmt.Errorf("no slice of %s with one endpoint", site)
	}
	e := s.Endpoints[0]
	var hints []string
	if e.Hints != nil {
		for _, h := range e.Hints.ForZones {
			hints = append(hints, h.Name)
		}
	}
	word := "unready"
	if *e.Conditions.Ready {
		word = "ready"
	}
	return fmt.Sprintf("%s %v", word, hints), nil
}

// await waits until the endpoints of sites are as described, seen from a site.
func (z *zoned) await(what, from string, within time.Duration, want map[string]string) {
	z.t.Helper()
	z.until(what, within, func() error {
		for site, w := range want {
			got, err := z.endpoint(from, site)
			if err != nil {
				return err
			}
			if got != w {
				return fmt.Errorf("endpoint of %s is %q, not %q", site, got, w)
			}
		}
		return nil
	})
}

// TestSlices publishes beside the reconciler, takes over, and loses apiservers
// and agents.
func TestSlices(t *testing.T) {
	z := startZoned(t, "lease")
	for _, site := range sites {
		z.run(site)
	}
	z.await("own slices", "a", 30*time.Second, map[string]string{"a": "ready [a]", "b": "ready [b]", "c": "ready [c]"})
	z.until("the reconciler is found writing", 60*time.Second, func() error {
		s, err := z.status("a")
		if err == nil && s.Reconciler != "active" {
			err = errors.New(s.Reconciler)
		}
		return err
	})
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	stdslices "slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices"
	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// zoned is a cluster with a kube-apiserver in every site, Nodes with zones, and
// a slices agent beside each apiserver.
type zoned struct {
	*cluster
	// kubeconfig is that of the agents.
	kubeconfig string
	timers     timers
	onlooker   *onlooker
}

// timers are those of the agents that a test has to wait for.
type timers struct{ giveBack, lapse time.Duration }

// defaultTimers makes agents run with what a user gets who chooses nothing, as
// the nightly tests do. Else they are shorter, so that the tests are.
const defaultTimers = "HOLDFAST_E2E_DEFAULTS"

func chooseTimers() timers {
	if os.Getenv(defaultTimers) != "" {
		d := plan.Default()
		return timers{d.GiveBack, d.Lapse}
	}
	return timers{giveBack: 4 * time.Second, lapse: 25 * time.Second} // 25 s is the least that the agents take
}

// calm is what every endpoint looks like when nothing is wrong.
var calm = map[string]string{"a": "ready [a]", "b": "ready [b]", "c": "ready [c]"}

// startZoned makes the lab, with Nodes and rights; endpoints is who keeps the
// slice kubernetes.
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
	z := &zoned{cluster: &cluster{t: t, lab: l, agents: map[string]*agent{}}, timers: chooseTimers()}
	t.Cleanup(func() {
		z.t = t // not that of the last step, which may have passed
		z.showSlices()
		z.showLogs()
	})
	for _, start := range []func(context.Context) error{l.StartEtcd, l.StartAPIServers} {
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, site := range sites {
		z.makeNode(site)
	}
	z.manifest("rbac", "--node", strings.Join([]string{z.node("a"), z.node("b"), z.node("c")}, ","))
	z.kubeconfig = z.account()
	return z
}

// step is a step of the cluster, at whose end the onlooker is asked.
func (z *zoned) step(name string, run func()) {
	z.cluster.step(name, func() {
		run()
		z.onlooker.settle(z, name)
	})
}

// atOnce does something for sites beside one another.
func (z *zoned) atOnce(what string, of []string, do func(site string) error) {
	z.t.Helper()
	var g errgroup.Group
	for _, site := range of {
		g.Go(func() error { return do(site) })
	}
	if err := g.Wait(); err != nil {
		z.t.Fatalf("%s: %v", what, err)
	}
}

// showSlices tells, after a failure, what the slices are and how they came to be so.
func (z *zoned) showSlices() {
	if !z.t.Failed() {
		return
	}
	all, err := z.slices("c")
	z.t.Logf("slices at c (%d, %v):", len(all), err)
	for _, name := range stdslices.Sorted(maps.Keys(all)) {
		s := all[name]
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			z.t.Logf("  %s: %v zone %q ready %t hints %v", name, e.Addresses, zoneOf(e), isReady(e), zonesHinted(e))
		}
	}
	if z.onlooker != nil {
		z.onlooker.showChanges(z.t)
	}
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

// run starts the agent of a site.
func (z *zoned) run(site string, flags ...string) {
	z.t.Helper()
	z.agents[site] = z.launch(site, "slices-"+site, flags...)
}

// launch starts an agent on the node of a site; flags come on top of settings
// that work. Its list of servers stands in for a balancer.
func (z *zoned) launch(site, name string, flags ...string) *agent {
	z.t.Helper()
	pki := z.apiserver(site).PKI()
	servers := []string{"https://127.0.0.1:6443"}
	for _, s := range sites {
		if s != site {
			servers = append(servers, z.apiserver(s).URL())
		}
	}
	settings := fmt.Sprintf("node: %s\napiserver: {ca: %s, cert: %s, key: %s}\napi: {servers: [%s], kubeconfig: %s}\nwitnesses: [c]\ngiveBack: %s\nlapse: %s\nlog: {format: json, level: debug}\n",
		z.node(site), pki.CA, pki.KubeletCert, pki.KubeletKey, strings.Join(servers, ", "), z.kubeconfig, z.timers.giveBack, z.timers.lapse)
	path := filepath.Join(z.t.TempDir(), "slices.yaml")
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		z.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		z.t.Fatal(err)
	}
	return z.spawn(z.member(site), name, append([]string{self, "slices", "run", "--config", path}, flags...))
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

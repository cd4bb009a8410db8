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
	"syscall"
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
	// kubeconfig is that of the agents.
	kubeconfig string
	// well are the agents that are meant to work, beside those of a test of bad input.
	well map[string]*agent
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
	z := &zoned{cluster: &cluster{t: t, lab: l, agents: map[string]*agent{}}, well: map[string]*agent{}}
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
		z.node(site), pki.CA, pki.KubeletCert, pki.KubeletKey, strings.Join(servers, ", "), z.kubeconfig)
	path := filepath.Join(z.t.TempDir(), "slices.yaml")
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		z.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		z.t.Fatal(err)
	}
	z.agents[site] = z.spawn(z.member(site), "slices-"+site, append([]string{self, "slices", "run", "--config", path}, flags...))
	if len(flags) < 2 {
		z.well[site] = z.agents[site]
	}
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

// TestSlices publishes beside the apiservers' reconciler with no more rights than
// the manifest gives, takes over, loses apiservers, agents and a node, and hands
// back; an onlooker judges every state in between.
func TestSlices(t *testing.T) {
	z := startZoned(t, "lease")
	z.manifest("rbac", "--node", strings.Join([]string{z.node("a"), z.node("b"), z.node("c")}, ","))
	z.kubeconfig = z.account()
	o := z.watch("c")
	for _, site := range sites {
		z.run(site)
	}
	calm := map[string]string{"a": "ready [a]", "b": "ready [b]", "c": "ready [c]"}

	z.await("own slices", "a", 30*time.Second, calm)
	for _, site := range sites {
		z.awaitProblem(site, "reconciler-active", true, 60*time.Second)
	}
	o.settle(z, "beside the reconciler")

	t.Run("takes over", func(t *testing.T) { z.t = t; z.takesOver(o) })
	t.Run("an apiserver freezes", func(t *testing.T) { z.t = t; z.loses(o, "freezes", calm) })
	t.Run("an apiserver is killed", func(t *testing.T) { z.t = t; z.loses(o, "killed", calm) })
	t.Run("rests", func(t *testing.T) { z.t = t; z.rests(o) })
	t.Run("slices are deleted and changed by hand", func(t *testing.T) { z.t = t; z.meddled(o, calm) })
	t.Run("an agent is killed", func(t *testing.T) { z.t = t; z.agentKilled(o) })
	t.Run("a node dies", func(t *testing.T) { z.t = t; z.nodeDies(o, calm) })
	t.Run("the last one stays", func(t *testing.T) { z.t = t; z.lastStays(o, calm) })
	t.Run("a site is cut off from another", func(t *testing.T) { z.t = t; z.split(o, calm) })
	t.Run("bad input", func(t *testing.T) { z.t = t; z.badInput(o, calm) })
	t.Run("hands back", func(t *testing.T) { z.t = t; z.handsBack(o) })
}

// takesOver switches the reconcilers off one by one.
func (z *zoned) takesOver(o *onlooker) {
	emptied := z.byName()
	for _, site := range sites {
		z.restart(site, "none")
	}
	for _, site := range sites {
		z.until("agent "+site+" has seen the takeover", 3*time.Minute, func() error {
			s, err := z.status(site)
			if err == nil && (!s.Taken || len(s.Combined) != len(sites) || len(s.Problems) > 0) {
				err = fmt.Errorf("taken over: %t, %v, %+v", s.Taken, s.Combined, s.Problems)
			}
			return err
		})
	}
	z.awaitOlder("the older Endpoints are kept", "a", 10*time.Second, sites...)
	for path, d := range emptied() {
		z.t.Logf("%s was empty for %s", path, d.Round(10*time.Millisecond))
		if d > mostEmpty {
			z.t.Errorf("%s was empty for %s, want at most %s", path, d, mostEmpty)
		}
	}
	all, err := z.slices("a")
	if err != nil {
		z.t.Fatal(err)
	}
	joint := all["kubernetes"]
	if _, there := joint.Labels[discovery.LabelServiceName]; there || joint.Labels["service.kubernetes.io/service-proxy-name"] == "" {
		z.t.Errorf("the slice kubernetes is no secret from datapaths: %v", joint.Labels)
	}
	o.demandZones()
	o.settle(z, "takeover")
}

// mostFrozen is how long a frozen apiserver may stay in its zone's endpoints.
const mostFrozen = 4 * time.Second

// loses takes b's apiserver away and brings it back.
func (z *zoned) loses(o *onlooker, how string, calm map[string]string) {
	a := z.apiserver("b")
	begun := time.Now()
	if how == "freezes" {
		if err := a.Child().Signal(syscall.SIGSTOP); err != nil {
			z.t.Fatal(err)
		}
	} else if err := a.Kill(z.t.Context()); err != nil {
		z.t.Fatal(err)
	}
	z.await("the witness adopts", "c", 20*time.Second, map[string]string{"a": "ready [a]", "b": "unready [b]", "c": "ready [b c]"})
	out, _ := o.when(begun, z.sliceName("b"), "unready")
	adopted, ok := o.when(begun, z.sliceName("c"), "ready [b c]")
	if !ok || adopted.After(out) {
		z.t.Errorf("adopted %s after the endpoint turned unready", adopted.Sub(out))
	}
	z.awaitOlder("the older Endpoints follow", "c", 5*time.Second, "a", "c")
	z.t.Logf("%s: out after %s, adopted after %s", how, out.Sub(begun), adopted.Sub(begun))
	if took := out.Sub(begun); took > mostFrozen {
		z.t.Errorf("out of the endpoints after %s, want at most %s", took, mostFrozen)
	}
	if how == "freezes" {
		if err := a.Child().Signal(syscall.SIGCONT); err != nil {
			z.t.Fatal(err)
		}
	} else if err := a.Start(z.within(60 * time.Second)); err != nil {
		z.t.Fatal(err)
	}
	begun = time.Now()
	z.await("its return", "c", 40*time.Second, calm)
	back, _ := o.when(begun, z.sliceName("b"), "ready [b]")
	given, _ := o.when(begun, z.sliceName("c"), "ready [c]")
	if d := given.Sub(back); d < 9*time.Second || d > 14*time.Second {
		z.t.Errorf("given back %s after the return, want 10 s", d)
	}
	z.until("the slice kubernetes follows", 10*time.Second, func() error {
		all, err := z.slices("c")
		if err != nil {
			return err
		}
		for _, e := range all["kubernetes"].Endpoints {
			if !isReady(&e) {
				return fmt.Errorf("%v is not ready there", e.Addresses)
			}
		}
		return nil
	})
	z.awaitOlder("the older Endpoints are whole again", "c", 10*time.Second, sites...)
	o.settle(z, "apiserver "+how)
}

// rests watches agents that have nothing to do: a renewal of a Lease in 10 s,
// and no other write.
func (z *zoned) rests(o *onlooker) {
	pauseFor(z.t.Context(), 2*time.Second) // the last Lease is being given back
	names := []string{"holdfast-slices"}
	for _, site := range sites {
		names = append(names, "holdfast-slices-"+z.node(site))
	}
	o.mu.Lock()
	before := o.writes
	o.mu.Unlock()
	versions, renewals := map[string]string{}, map[string]int{}
	for begun := time.Now(); time.Since(begun) < 25*time.Second; {
		for _, name := range names {
			version, err := z.leaseVersion("a", name)
			if err != nil {
				z.t.Fatal(err)
			}
			if old := versions[name]; old != "" && old != version {
				renewals[name]++
			}
			versions[name] = version
		}
		pauseFor(z.t.Context(), 200*time.Millisecond)
	}
	o.mu.Lock()
	writes := o.writes - before
	o.mu.Unlock()
	if writes != 0 || renewals["holdfast-slices"] != 0 {
		z.t.Errorf("at rest %d writes to slices and %d of the short Lease in 25 s", writes, renewals["holdfast-slices"])
	}
	for _, name := range names[1:] {
		if n := renewals[name]; n < 2 || n > 3 {
			z.t.Errorf("%s was renewed %d times in 25 s", name, n)
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// meddled deletes and spoils what agents wrote.
func (z *zoned) meddled(o *onlooker, calm map[string]string) {
	const base = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/"
	if err := z.ask("a", http.MethodDelete, base+z.sliceName("a"), nil, nil); err != nil {
		z.t.Fatal(err)
	}
	z.await("the deleted slice is back", "a", 10*time.Second, calm)
	// Without this label nobody lists it any more.
	unlabel := map[string]any{"metadata": map[string]any{"labels": map[string]any{discovery.LabelServiceName: nil}}}
	if err := z.ask("a", http.MethodPatch, base+z.sliceName("b"), unlabel, nil); err != nil {
		z.t.Fatal(err)
	}
	z.until("the label is back", 10*time.Second, func() error {
		all, err := z.slices("a")
		if err == nil && all[z.sliceName("b")].Labels[discovery.LabelServiceName] == "" {
			err = errors.New("it is not")
		}
		return err
	})
	if err := z.ask("a", http.MethodDelete, base+"kubernetes", nil, nil); err != nil {
		z.t.Fatal(err)
	}
	z.until("the slice kubernetes is back", 10*time.Second, func() error {
		all, err := z.slices("a")
		if err == nil && len(all["kubernetes"].Endpoints) != len(sites) {
			err = errors.New("it is not")
		}
		return err
	})
	z.forgetOlder()
	if err := z.ask("a", http.MethodDelete, "/api/v1/namespaces/default/services/kubernetes", nil, nil); err != nil {
		z.t.Fatal(err)
	}
	z.until("the Service is back, with trafficDistribution", 30*time.Second, func() error {
		var service core.Service
		err := z.ask("a", http.MethodGet, "/api/v1/namespaces/default/services/kubernetes", nil, &service)
		if err == nil && service.Spec.TrafficDistribution == nil {
			err = errors.New("without")
		}
		return err
	})
	o.settle(z, "meddling")
}

// agentKilled kills an agent for longer than a lapse: its apiserver is well, so
// nothing changes.
func (z *zoned) agentKilled(o *onlooker) {
	o.mu.Lock()
	before := o.writes
	o.mu.Unlock()
	if err := z.agents["b"].child.Stop(z.within(10*time.Second), 0); err != nil {
		z.t.Fatal(err)
	}
	z.until("the others miss the agent", 60*time.Second, func() error {
		s, err := z.status("a")
		if err != nil {
			return err
		}
		for _, e := range s.Endpoints {
			if e.Node == z.node("b") && e.Agent == "late" {
				return nil
			}
		}
		return fmt.Errorf("%+v", s.Endpoints)
	})
	pauseFor(z.t.Context(), 25*time.Second)
	o.mu.Lock()
	writes := o.writes - before
	o.mu.Unlock()
	if writes != 0 {
		z.t.Errorf("%d writes while an agent was dead", writes)
	}
	z.run("b")
	z.until("the agent is back", 30*time.Second, func() error {
		s, err := z.status("b")
		if err == nil && s.Apiserver.Health != "ready" {
			err = errors.New(s.Apiserver.Health)
		}
		return err
	})
	o.settle(z, "agent killed")
}

// nodeDies kills agent and apiserver of b: after the lapse the others mark its
// endpoint unready, and nothing is deleted but by hand.
func (z *zoned) nodeDies(o *onlooker, calm map[string]string) {
	begun := time.Now()
	// The agent first: it would see the apiserver die.
	if err := z.agents["b"].child.Stop(z.within(10*time.Second), 0); err != nil {
		z.t.Fatal(err)
	}
	if err := z.apiserver("b").Kill(z.t.Context()); err != nil {
		z.t.Fatal(err)
	}
	if said, err := z.byHand("a", "forget", z.node("b")); err == nil {
		z.t.Errorf("an endpoint that its zone depends on was forgotten: %s", said)
	}
	z.await("marked unready, and adopted", "c", 75*time.Second, map[string]string{"a": "ready [a]", "b": "unready [b]", "c": "ready [b c]"})
	out, _ := o.when(begun, z.sliceName("b"), "unready")
	z.t.Logf("marked unready %s after the death", out.Sub(begun))
	if took := out.Sub(begun); took < 20*time.Second || took > 45*time.Second {
		z.t.Errorf("marked unready after %s, want 30 s after the last sign of life, which was up to 10 s old", took)
	}
	o.settle(z, "node dead")
	if said, err := z.byHand("a", "forget", z.node("b")); err != nil || !strings.Contains(said, "deleted EndpointSlice default/"+z.sliceName("b")) {
		z.t.Errorf("forget: %v: %s", err, said)
	}
	if err := z.apiserver("b").Start(z.within(60 * time.Second)); err != nil {
		z.t.Fatal(err)
	}
	z.run("b")
	z.await("the node is back", "c", 60*time.Second, calm)
	o.settle(z, "node back")
}

// lastStays lets one apiserver after the other seem unwell to its agent, while
// the API goes on: the last endpoint stays ready, and serves all zones.
func (z *zoned) lastStays(o *onlooker, calm map[string]string) {
	blind := func(site string) {
		z.stopAgent(site)
		z.run(site, "--apiserver=https://127.0.0.1:1")
	}
	blind("c")
	z.await("c is out, and somebody adopts it", "a", 20*time.Second, map[string]string{"c": "unready [c]"})
	blind("a")
	z.await("b serves all", "a", 20*time.Second, map[string]string{"a": "unready [a]", "b": "ready [a b c]", "c": "unready [c]"})
	blind("b")
	z.awaitProblem("b", "last-ready", true, 20*time.Second)
	pauseFor(z.t.Context(), 3*time.Second)
	z.await("b stays", "a", time.Second, map[string]string{"a": "unready [a]", "b": "ready [a b c]", "c": "unready [c]"})
	for _, site := range []string{"a", "b", "c"} {
		z.stopAgent(site)
		z.run(site)
	}
	z.await("all is well again", "a", 40*time.Second, calm)
	o.settle(z, "the last one")
}

// split cuts a from b with the leader of etcd in a: b's apiserver loses its
// quorum, and its agent reaches the API at c alone. It is told to let a adopt
// first, which b's clients do not reach.
func (z *zoned) split(o *onlooker, calm map[string]string) {
	z.stopAgent("b")
	z.run("b", "--witness=a")
	z.await("the agent is back", "c", 30*time.Second, calm)
	z.lead("a")
	begun := time.Now()
	if err := z.lab.Cut(z.within(20*time.Second), lab.Cut{From: "a", To: "b"}); err != nil {
		z.t.Fatal(err)
	}
	z.await("whom b reaches adopts", "c", 30*time.Second, map[string]string{"a": "ready [a]", "b": "unready [b]", "c": "ready [b c]"})
	out, _ := o.when(begun, z.sliceName("b"), "unready")
	z.t.Logf("split: out %s after the order to cut", out.Sub(begun))
	if err := z.lab.Heal(z.within(20 * time.Second)); err != nil {
		z.t.Fatal(err)
	}
	z.await("healed", "c", 60*time.Second, calm)
	z.stopAgent("b")
	z.run("b")
	z.await("the agent is back", "c", 30*time.Second, calm)
	o.settle(z, "split")
}

// badInput starts agents that cannot do what they are told, and looks at what
// they say; endpoints stay as they are.
func (z *zoned) badInput(o *onlooker, calm map[string]string) {
	ghost := discovery.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: "kubernetes-ghost"},
		AddressType: discovery.AddressTypeIPv4, Endpoints: []discovery.Endpoint{},
	}
	if err := z.ask("a", http.MethodPost, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", ghost, nil); err != nil {
		z.t.Fatal(err)
	}
	nowhere := core.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "nowhere"}}
	if err := z.ask("a", http.MethodPost, "/api/v1/nodes", nowhere, nil); err != nil {
		z.t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		flags []string
		event string
		want  []string
	}{
		{"no zone", []string{"--node=nowhere", "--identity=nowhere", "--address=10.0.0.9"}, "ZoneMissing", []string{"kubectl label node nowhere topology.kubernetes.io/zone=NAME"}},
		{"a foreign slice", []string{"--node=ghost", "--zone=a", "--address=10.0.0.9"}, "NameTaken", []string{"kubernetes-ghost has no label endpointslice.kubernetes.io/managed-by"}},
		{"IPv6 alone", []string{"--node=nowhere", "--identity=nowhere", "--zone=a", "--address=fd00::9"}, "FamilyMissing", []string{"slice kubernetes-nowhere-ipv6", "the Service kubernetes is of family IPv4 and node nowhere publishes no such address"}},
		{"no such node", []string{"--node=missing"}, "NodeMissing", []string{"there is no Node named missing"}},
		{"two of one name", []string{"--node=" + z.node("b")}, "NodeTwice", []string{"another agent renews the Lease of node " + z.node("b"), "writes nothing"}},
		{"no rights", []string{"--node=nowhere", "--kubeconfig=" + z.apiserver("a").PKI().KubeletConf}, "", []string{"may not list or watch endpointslices in namespace default", "holdfast slices manifest rbac"}},
		{"no API", []string{"--node=nowhere", "--server=https://127.0.0.1:1"}, "", []string{"the API does not answer", "endpoints stay as they are"}},
	} {
		// The rights of the others are bound to their names.
		flags := append([]string{"--telemetry=127.0.0.1:9401", "--kubeconfig=" + z.apiserver("a").PKI().AdminConf}, c.flags...)
		z.run("a", flags...)
		bad := z.agents["a"]
		z.until(c.name, 60*time.Second, func() error {
			for _, want := range c.want {
				if n := strings.Count(bad.log.String(), want); n == 0 {
					return fmt.Errorf("nothing is said of %q in %s", want, bad.log)
				}
			}
			return z.hasEvent(c.event)
		})
		if err := bad.child.Stop(z.within(20*time.Second), 10*time.Second); err != nil {
			z.t.Fatal(err)
		}
		z.t.Logf("%s: %d warnings", c.name, strings.Count(bad.log.String(), `"level":"WARN"`))
	}
	z.agents["a"] = z.well["a"]
	if said, err := z.byHand("a", "forget", "nowhere"); err != nil {
		z.t.Errorf("forget: %v: %s", err, said)
	}
	if err := z.ask("a", http.MethodDelete, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes-ghost", nil, nil); err != nil {
		z.t.Errorf("the foreign slice was touched: %v", err)
	}
	z.await("endpoints as they were", "c", 5*time.Second, calm)
	o.settle(z, "bad input")
}

// hasEvent says that an Event of that reason was written; "" is none.
func (z *zoned) hasEvent(reason string) error {
	var list core.EventList
	if err := z.ask("a", http.MethodGet, "/api/v1/namespaces/default/events", nil, &list); err != nil {
		return err
	}
	for _, e := range list.Items {
		if reason == "" || e.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no Event %s", reason)
}

// handsBack gives everything back to the reconciler.
func (z *zoned) handsBack(o *onlooker) {
	if said, err := z.byHand("a", "handback", "--all"); err == nil || !strings.Contains(said, "no apiserver writes EndpointSlice default/kubernetes") {
		z.t.Errorf("handed back to nobody: %v: %s", err, said)
	}
	o.mu.Lock()
	o.zoned = false // the reconciler knows no zones
	o.mu.Unlock()
	for _, site := range sites {
		z.restart(site, "lease")
	}
	z.awaitProblem("a", "reconciler-active", true, 60*time.Second)
	if said, err := z.byHand("a", "handback", "--all"); err == nil || !strings.Contains(said, "still renews its Lease") {
		z.t.Errorf("handed back beside running agents: %v: %s", err, said)
	}
	for _, site := range sites {
		z.stopAgent(site)
	}
	said, err := z.byHand("a", "handback", "--all")
	if err != nil || !strings.Contains(said, "trafficDistribution of Service default/kubernetes is none again") {
		z.t.Errorf("handback: %v: %s", err, said)
	}
	all, err := z.slices("a")
	if err != nil || len(all) != 1 || len(all["kubernetes"].Endpoints) == 0 {
		z.t.Errorf("left: %v, %v", all, err)
	}
	var service core.Service
	if err := z.ask("a", http.MethodGet, "/api/v1/namespaces/default/services/kubernetes", nil, &service); err != nil || service.Spec.TrafficDistribution != nil {
		z.t.Errorf("trafficDistribution: %v, %v", service.Spec.TrafficDistribution, err)
	}
	z.awaitOlder("the older Endpoints are the apiservers' again", "a", 20*time.Second, sites...)
	o.settle(z, "handback")
}

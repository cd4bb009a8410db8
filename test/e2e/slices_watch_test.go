package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"

	access "github.com/holdfast-ha/holdfast/internal/access/slices"
)

// onlooker follows the slices as kube-proxy does, and judges every state of them.
type onlooker struct {
	site string

	mu       sync.Mutex
	now      map[string]discovery.EndpointSlice
	changes  []change
	breaches []string
	writes   int
	// zoned says that from now on every endpoint must have zone and hint, and
	// every zone a ready endpoint that hints it.
	zoned bool
	known bool
	orphn map[string]time.Time // zone → since when nobody serves it
}

// change is one event of one slice.
type change struct {
	at   time.Time
	name string
	text string // "ready [a b]"
}

// mostOrphaned is for how long a zone may be without an endpoint that hints it.
const mostOrphaned = 3 * time.Second

// watch starts an onlooker at the apiserver of a site.
func (z *zoned) watch(site string) *onlooker {
	z.t.Helper()
	o := &onlooker{site: site, now: map[string]discovery.EndpointSlice{}, orphn: map[string]time.Time{}}
	a := z.apiserver(site)
	node := z.member(site).Node()
	f := kubeapi.Follower[discovery.EndpointSlice]{
		Connect: func() (*kubeapi.Client, error) {
			return kubeapi.New(kubeapi.Config{Server: a.URL(), CAFile: a.PKI().CA, CertFile: a.PKI().AdminCert, KeyFile: a.PKI().AdminKey, Dial: node.DialContext})
		},
		Path:    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
		Replace: o.replace, Apply: o.apply, Report: func(error) {},
	}
	ctx, cancel := context.WithCancel(z.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = f.Run(ctx) }()
	z.t.Cleanup(func() { cancel(); <-done })
	z.until("the onlooker at "+site+" sees slices", 20*time.Second, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !o.known {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	return o
}

func (o *onlooker) replace(all []discovery.EndpointSlice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.now)
	for _, s := range all {
		o.now[s.Name] = s
	}
	o.known = true
	o.judge("list")
}

func (o *onlooker) apply(e kubeapi.Event[discovery.EndpointSlice]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes++
	if e.Deleted {
		delete(o.now, e.Object.Name)
	} else {
		o.now[e.Object.Name] = e.Object
	}
	o.changes = append(o.changes, change{time.Now(), e.Object.Name, describe(&e.Object, e.Deleted)})
	o.judge(e.Object.Name)
}

// describe tells the first endpoint of a slice.
func describe(s *discovery.EndpointSlice, deleted bool) string {
	if deleted {
		return "deleted"
	}
	if len(s.Endpoints) == 0 {
		return "empty"
	}
	word := "unready"
	if isReady(&s.Endpoints[0]) {
		word = "ready"
	}
	return fmt.Sprintf("%s %v", word, zonesHinted(&s.Endpoints[0]))
}

func isReady(e *discovery.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

func zonesHinted(e *discovery.Endpoint) []string {
	all := []string{}
	if e.Hints != nil {
		for _, h := range e.Hints.ForZones {
			all = append(all, h.Name)
		}
	}
	return all
}

// judge notes every state that no client may meet.
func (o *onlooker) judge(after string) {
	ready, served := 0, map[string]int{}
	for _, s := range o.now {
		_, hidden := s.Labels["service.kubernetes.io/service-proxy-name"]
		if hidden || s.Labels[discovery.LabelServiceName] != "kubernetes" {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if o.zoned && (e.Zone == nil || *e.Zone == "" || len(zonesHinted(e)) == 0) {
				o.breach("%s: endpoint %v of %s without a zone or hint", after, e.Addresses, s.Name)
			}
			if isReady(e) {
				ready++
				for _, zone := range zonesHinted(e) {
					served[zone]++
				}
			}
		}
	}
	if ready == 0 {
		o.breach("%s: no ready endpoint", after)
	}
	for _, zone := range sites {
		since, was := o.orphn[zone]
		switch {
		case served[zone] > 0 || !o.zoned:
			if was && time.Since(since) > mostOrphaned {
				o.breach("%s: zone %s had no endpoint for %s", after, zone, time.Since(since))
			}
			delete(o.orphn, zone)
		case !was:
			o.orphn[zone] = time.Now()
		}
	}
}

func (o *onlooker) breach(format string, args ...any) {
	o.breaches = append(o.breaches, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// when is the time of the first change of a slice after begun that fits.
func (o *onlooker) when(begun time.Time, name, text string) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.changes {
		if c.at.After(begun) && c.name == name && strings.HasPrefix(c.text, text) {
			return c.at, true
		}
	}
	return time.Time{}, false
}

// settle fails the test for whatever was wrong since the last call.
func (o *onlooker) settle(z *zoned, what string) {
	z.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.judge(what)
	for zone, since := range o.orphn {
		if time.Since(since) > mostOrphaned {
			o.breach("zone %s has no endpoint since %s", zone, since.Format("15:04:05.000"))
		}
	}
	for _, b := range o.breaches {
		z.t.Errorf("%s, seen at %s: %s", what, o.site, b)
	}
	if len(o.breaches) > 0 {
		for _, c := range o.changes {
			z.t.Logf("%s %s %s", c.at.Format("15:04:05.000"), c.name, c.text)
		}
	}
	o.breaches = nil
}

// demandZones begins the time in which zones count.
func (o *onlooker) demandZones() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.zoned = true
}

// manifest applies what `holdfast slices manifest` prints.
func (z *zoned) manifest(args ...string) {
	z.t.Helper()
	cmd := access.Command()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"manifest"}, args...))
	if err := cmd.ExecuteContext(z.t.Context()); err != nil {
		z.t.Fatal(err)
	}
	dec := yaml.NewDecoder(strings.NewReader(out.String()))
	for {
		var doc map[string]any
		if err := dec.Decode(&doc); err != nil {
			return
		}
		metadata, _ := doc["metadata"].(map[string]any)
		kind, _ := doc["kind"].(string)
		namespace, _ := metadata["namespace"].(string)
		path := map[string]string{
			"ServiceAccount": "/api/v1/namespaces/" + namespace + "/serviceaccounts",
			"Role":           "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/roles",
			"RoleBinding":    "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/rolebindings",
			"ClusterRole":    "/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		}[kind]
		z.until("apply "+kind, 20*time.Second, func() error { return z.ask("a", http.MethodPost, path, doc, nil) })
	}
}

// account writes a kubeconfig with a token of the agents' service account, and
// returns its path.
func (z *zoned) account() string {
	z.t.Helper()
	request := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{}}
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := z.ask("a", http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts/holdfast-slices/token", request, &answer); err != nil {
		z.t.Fatal(err)
	}
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]string{"server": z.apiserver("a").URL(), "certificate-authority": z.apiserver("a").PKI().CA}}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]string{"token": answer.Status.Token}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]string{"cluster": "x", "user": "x"}}},
	}
	data, err := json.Marshal(config)
	if err != nil {
		z.t.Fatal(err)
	}
	path := filepath.Join(z.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		z.t.Fatal(err)
	}
	return path
}

// problems are the codes that the agent of a site reports.
func (z *zoned) problems(site string) ([]string, error) {
	s, err := z.status(site)
	var all []string
	for _, p := range s.Problems {
		all = append(all, p.Code)
	}
	return all, err
}

// awaitProblem waits until the agent of a site reports a problem, or no more.
func (z *zoned) awaitProblem(site, code string, want bool, within time.Duration) {
	z.t.Helper()
	z.until(fmt.Sprintf("agent %s reports %s: %t", site, code, want), within, func() error {
		all, err := z.problems(site)
		if err == nil && slices.Contains(all, code) != want {
			err = fmt.Errorf("it reports %v", all)
		}
		return err
	})
}

// restart brings an apiserver back with another reconciler.
func (z *zoned) restart(site, reconciler string) {
	z.t.Helper()
	a := z.apiserver(site)
	if err := a.Stop(z.within(30 * time.Second)); err != nil {
		z.t.Fatal(err)
	}
	if err := a.Reconcile(reconciler); err != nil {
		z.t.Fatal(err)
	}
	if err := a.Start(z.within(60 * time.Second)); err != nil {
		z.t.Fatal(err)
	}
}

// stopAgent ends the agent of a site in order.
func (z *zoned) stopAgent(site string) {
	z.t.Helper()
	if err := z.agents[site].child.Stop(z.within(20*time.Second), 10*time.Second); err != nil {
		z.t.Fatal(err)
	}
}

// byHand runs a command of `holdfast slices` as an administrator would on the
// node of a site, and returns what it printed.
func (z *zoned) byHand(site string, args ...string) (string, error) {
	z.t.Helper()
	self, err := os.Executable()
	if err != nil {
		z.t.Fatal(err)
	}
	out := &buffer{}
	child, err := z.member(site).Node().Spawn(z.t.Context(), lab.Process{
		Name: "by-hand", Argv: append([]string{self, "slices"}, args...), Env: append(os.Environ(), asAgent+"=1", "KUBECONFIG="+z.apiserver(site).PKI().AdminConf),
		Stdout: out, Stderr: out,
	})
	if err != nil {
		z.t.Fatal(err)
	}
	select {
	case <-child.Done():
	case <-z.within(60 * time.Second).Done():
		z.t.Fatalf("%v does not end: %s", args, out)
	}
	return out.String(), child.Err()
}

// lease reads a Lease of kube-system.
func (z *zoned) leaseVersion(site, name string) (string, error) {
	var l metav1.PartialObjectMetadata
	err := z.ask(site, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+name, nil, &l)
	return l.ResourceVersion, err
}

// sliceName is the slice of a site's node.
func (z *zoned) sliceName(site string) string { return plan.SliceName(z.node(site), plan.IPv4) }

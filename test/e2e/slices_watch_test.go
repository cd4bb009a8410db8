package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
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
	mu       sync.Mutex
	site     string // whose apiserver it asks
	conns    []net.Conn
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
	f := kubeapi.Follower[discovery.EndpointSlice]{
		Connect: func() (*kubeapi.Client, error) { return o.connect(z.lab) },
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

// connect leads to the apiserver of the site that o is at.
func (o *onlooker) connect(l *lab.Lab) (*kubeapi.Client, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a, err := l.APIServer(o.site)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := a.Node().DialContext(ctx, network, address)
		if err == nil {
			o.mu.Lock()
			o.conns = append(o.conns, conn)
			o.mu.Unlock()
		}
		return conn, err
	}
	return kubeapi.New(kubeapi.Config{Server: a.URL(), CAFile: a.PKI().CA, CertFile: a.PKI().AdminCert, KeyFile: a.PKI().AdminKey, Dial: dial})
}

// move has the onlooker ask another site's apiserver. One that shall stop waits for
// watches until it is killed.
func (o *onlooker) move(site string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.site = site
	for _, conn := range o.conns {
		_ = conn.Close()
	}
	o.conns = nil
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

// saw is the time of the first such change once the onlooker has seen one. Who has
// read the slices may be a moment ahead of its watch.
func (o *onlooker) saw(z *zoned, begun time.Time, name, text string) (at time.Time) {
	z.t.Helper()
	z.until(fmt.Sprintf("the watch shows %s %s", name, text), 5*time.Second, func() error {
		var seen bool
		if at, seen = o.when(begun, name, text); !seen {
			return errors.New("not yet")
		}
		return nil
	})
	return at
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
	o.breaches = nil
}

// showChanges tells the last changes.
func (o *onlooker) showChanges(t *testing.T) {
	const most = 40
	o.mu.Lock()
	defer o.mu.Unlock()
	from := max(0, len(o.changes)-most)
	t.Logf("the last %d of %d changes, seen at %s:", len(o.changes)-from, len(o.changes), o.site)
	for _, c := range o.changes[from:] {
		t.Logf("  %s %s %s", c.at.Format("15:04:05.000"), c.name, c.text)
	}
}

// written is how many changes there were so far.
func (o *onlooker) written() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes
}

func zoneOf(e *discovery.Endpoint) string {
	if e.Zone == nil {
		return ""
	}
	return *e.Zone
}

// demandZones begins the time in which zones count, or ends it.
func (o *onlooker) demandZones(demand bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.zoned = demand
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
	z.grant(out.String())
}

// grant applies documents that give rights.
func (z *zoned) grant(manifest string) {
	z.t.Helper()
	dec := yaml.NewDecoder(strings.NewReader(manifest))
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
func (z *zoned) account() string { return z.accountOf("holdfast-slices") }

// accountOf is account for a service account of kube-system.
func (z *zoned) accountOf(name string) string {
	z.t.Helper()
	request := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{}}
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := z.ask("a", http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts/"+name+"/token", request, &answer); err != nil {
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

// restart brings apiservers back, beside one another, with another reconciler.
func (z *zoned) restart(reconciler string, of ...string) {
	z.t.Helper()
	ctx := z.within(90 * time.Second)
	z.atOnce("restart with reconciler "+reconciler, of, func(site string) error {
		a, err := z.lab.APIServer(site)
		if err != nil {
			return err
		}
		if err := a.Stop(ctx); err != nil {
			return err
		}
		if err := a.Reconcile(reconciler); err != nil {
			return err
		}
		return a.Start(ctx)
	})
}

// endAgents ends the agents of sites in order.
func (z *zoned) endAgents(of ...string) {
	z.t.Helper()
	ctx := z.within(20 * time.Second)
	z.atOnce("stop agents", of, func(site string) error { return z.agents[site].child.Stop(ctx, 10*time.Second) })
}

// byHand runs a command of `holdfast slices` as an administrator would on the
// node of a site, and returns what it printed.
func (z *zoned) byHand(site string, args ...string) (string, error) {
	return z.holdfast(site, append([]string{"slices"}, args...)...)
}

// holdfast runs any command on the node of a site, with the kubeconfig of its admin.
func (z *zoned) holdfast(site string, args ...string) (string, error) {
	a, err := z.lab.APIServer(site)
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	out := &buffer{}
	child, err := a.Node().Spawn(z.t.Context(), lab.Process{
		Name: "by-hand", Argv: append([]string{self}, args...), Env: append(os.Environ(), asAgent+"=1", "KUBECONFIG="+a.PKI().AdminConf),
		Stdout: out, Stderr: out,
	})
	if err != nil {
		return "", err
	}
	select {
	case <-child.Done():
	case <-z.within(60 * time.Second).Done():
		return out.String(), fmt.Errorf("%v does not end", args)
	}
	return out.String(), child.Err()
}

// leaseVersion reads the version of a Lease of kube-system.
func (z *zoned) leaseVersion(site, name string) (string, error) {
	var l metav1.PartialObjectMetadata
	err := z.ask(site, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+name, nil, &l)
	return l.ResourceVersion, err
}

// sliceName is the slice of a site's node.
func (z *zoned) sliceName(site string) string { return plan.SliceName(z.node(site), plan.IPv4) }

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/access/zonal"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// mirrored is a cluster with a kube-apiserver in every site and agents that keep
// mirrors, with the rights of the printed manifest.
type mirrored struct {
	*cluster
	kubeconfig string
	servers    map[string]*lab.Child // by site
	// lease is the duration of that by which the agents agree who acts.
	lease time.Duration
}

const (
	shopServices = "/api/v1/namespaces/default/services"
	shopSlices   = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
)

func startMirrored(t *testing.T) *mirrored {
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
	spec.Dir, spec.APIServers = t.TempDir(), true
	l, err := lab.Start(t.Context(), spec, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close lab: %v", err)
		}
	})
	m := &mirrored{cluster: &cluster{t: t, lab: l, agents: map[string]*agent{}}, servers: map[string]*lab.Child{}, lease: 5 * time.Second}
	if os.Getenv(defaultTimers) != "" {
		m.lease = lease.DefaultDuration
	}
	t.Cleanup(func() { m.t = t; m.showLogs() })
	if err := l.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, site := range sites {
		m.serve(site)
	}
	m.until("apiservers are ready", time.Minute, func() error {
		for _, site := range sites {
			if err := m.apiserver(site).Ready(m.within(5 * time.Second)); err != nil {
				return err
			}
		}
		return nil
	})
	return m
}

// serve starts the apiserver of a site as the lab would, but with Services of
// both families.
func (m *mirrored) serve(site string) {
	m.t.Helper()
	a := m.apiserver(site)
	argv := a.Argv()
	for i, arg := range argv {
		if range4, ok := strings.CutPrefix(arg, "--service-cluster-ip-range="); ok {
			argv[i] = "--service-cluster-ip-range=" + range4 + ",fd00:10:96::/112"
		}
	}
	child, err := a.Node().Spawn(m.t.Context(), lab.Process{Name: "dual-" + site, Argv: argv, Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		m.t.Fatal(err)
	}
	m.servers[site] = child
}

func (m *mirrored) apiserver(site string) *lab.APIServer {
	m.t.Helper()
	a, err := m.lab.APIServer(site)
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

// ask sends a request as the administrator, to the apiserver of a site.
func (m *mirrored) ask(site, method, path string, body any) (object map[string]any, code int) {
	m.t.Helper()
	var data []byte
	if body != nil {
		data, _ = json.Marshal(body)
	}
	kind := "application/json"
	if method == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	code, answer, err := m.apiserver(site).Request(m.within(20*time.Second), method, path, kind, data)
	if err != nil {
		m.t.Fatal(err)
	}
	_ = json.Unmarshal(answer, &object)
	return object, code
}

// must is ask of what has to succeed.
func (m *mirrored) must(method, path string, body any) map[string]any {
	m.t.Helper()
	object, code := m.ask("c", method, path, body)
	if code/100 != 2 {
		m.t.Fatalf("%s %s: %d %v", method, path, code, object["message"])
	}
	return object
}

// apply creates every object of the printed manifest, so that the real API
// judges it.
func (m *mirrored) apply() {
	m.t.Helper()
	var out bytes.Buffer
	root := &cobra.Command{Use: "holdfast"}
	root.AddCommand(zonal.Command())
	root.SetArgs([]string{"zonal", "manifest", "--image", "example.org/holdfast:1"})
	root.SetOut(&out)
	if err := root.Execute(); err != nil {
		m.t.Fatal(err)
	}
	collections := map[string]string{
		"ServiceAccount": "/api/v1/namespaces/%s/serviceaccounts", "Deployment": "/apis/apps/v1/namespaces/%s/deployments",
		"PodDisruptionBudget": "/apis/policy/v1/namespaces/%s/poddisruptionbudgets",
		"ClusterRole":         "/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		"Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
	}
	dec := yaml.NewDecoder(&out)
	for {
		var object map[string]any
		if err := dec.Decode(&object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			m.t.Fatal(err)
		}
		path := collections[object["kind"].(string)]
		if strings.Contains(path, "%s") {
			path = fmt.Sprintf(path, object["metadata"].(map[string]any)["namespace"])
		}
		if answer, code := m.ask("c", http.MethodPost, path, object); code != http.StatusCreated && code != http.StatusConflict {
			m.t.Fatalf("%s: %d %v", object["kind"], code, answer["message"])
		}
	}
}

// credentials writes a kubeconfig with a token of the manifest's ServiceAccount,
// whose server is none.
func (m *mirrored) credentials() {
	m.t.Helper()
	m.ask("c", http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts", map[string]any{"metadata": map[string]any{"name": "holdfast-zonal"}})
	token := m.must(http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts/holdfast-zonal/token",
		map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 3600}})
	ca, err := os.ReadFile(m.apiserver("a").PKI().CA)
	if err != nil {
		m.t.Fatal(err)
	}
	m.kubeconfig = filepath.Join(m.t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("current-context: m\ncontexts: [{name: m, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: %s}}]\n",
		base64.StdEncoding.EncodeToString(ca), token["status"].(map[string]any)["token"])
	if err := os.WriteFile(m.kubeconfig, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// run starts an agent on the node of a site; its own apiserver is the first that
// it asks.
func (m *mirrored) run(site string) {
	m.t.Helper()
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	argv := []string{self, "zonal", "run", "--kubeconfig", m.kubeconfig, "--log-format", "json", "--lease-duration", m.lease.String(), "--server", m.apiserver(site).URL()}
	for _, s := range sites {
		if s != site {
			argv = append(argv, "--server", m.apiserver(s).URL())
		}
	}
	m.agents[site] = m.spawn(m.member(site), "zonal-"+site, argv)
}

func (m *mirrored) status(site string) (s zonal.Status, err error) {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: m.member(site).Node().DialContext}}
	resp, err := client.Get("http://127.0.0.1:9388/status")
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// acting is the site whose agent acts.
func (m *mirrored) acting() (site string, err error) {
	for site := range m.agents {
		if s, err := m.status(site); err == nil && s.Acting {
			return site, nil
		}
	}
	return "", errors.New("nobody acts")
}

func (m *mirrored) awaitActing() (site string) {
	m.t.Helper()
	m.until("an agent acts", 30*time.Second, func() (err error) {
		site, err = m.acting()
		return err
	})
	return site
}

// witness watches the slices of mirrors, as a proxy does, and notes each state
// without an endpoint.
type witness struct {
	mu      sync.Mutex
	bad     []string
	deleted map[string]int
}

func (m *mirrored) witness() *witness {
	m.t.Helper()
	w := &witness{deleted: map[string]int{}}
	type slice struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Endpoints []any `json:"endpoints"`
	}
	see := func(s slice, deleted bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if deleted {
			w.deleted[s.Metadata.Name]++
		} else if len(s.Endpoints) != 1 {
			w.bad = append(w.bad, fmt.Sprintf("%s with %d endpoints", s.Metadata.Name, len(s.Endpoints)))
		}
	}
	a := m.apiserver("c")
	f := kubeapi.Follower[slice]{
		Connect: kubeapi.Connector(a.PKI().AdminConf, "", a.Node().DialContext), Path: shopSlices,
		Selector: "endpointslice.kubernetes.io/managed-by=holdfast-zonal",
		Replace:  func(all []slice) { slices.All(all)(func(_ int, s slice) bool { see(s, false); return true }) },
		Apply:    func(e kubeapi.Event[slice]) { see(e.Object, e.Deleted) }, Report: func(error) {},
	}
	ctx := m.t.Context()
	go func() { _ = f.Run(ctx) }()
	return w
}

func (w *witness) deletions(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted[name]
}

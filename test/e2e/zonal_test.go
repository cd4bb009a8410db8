package e2e

import (
	"bytes"
	"context"
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
	"syscall"
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
	m := &mirrored{cluster: &cluster{t: t, lab: l, agents: map[string]*agent{}}, servers: map[string]*lab.Child{}}
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
	argv := []string{self, "zonal", "run", "--kubeconfig", m.kubeconfig, "--log-format", "json", "--server", m.apiserver(site).URL()}
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

// service is a Service that asks for a mirror.
func service(name string, port int) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"holdfast.dev/zonal": "true"}},
		"spec": map[string]any{
			"selector": map[string]any{"app": name}, "trafficDistribution": "PreferClose",
			"ports": []any{
				map[string]any{"name": "http", "port": port, "targetPort": 8080, "appProtocol": "http"},
				map[string]any{"name": "dns", "port": 53, "protocol": "UDP"}, map[string]any{"name": "sig", "port": 54, "protocol": "SCTP"},
			},
		},
	}
}

// leads waits until the mirror leads to the Service's ClusterIP by its ports,
// and returns how long that took.
func (m *mirrored) leads(name string) time.Duration {
	m.t.Helper()
	start := time.Now()
	m.until("mirror of "+name, 60*time.Second, func() error {
		real, _ := m.ask("c", http.MethodGet, shopServices+"/"+name, nil)
		mirror, code := m.ask("c", http.MethodGet, shopServices+"/"+name+"-zonal", nil)
		slice, code2 := m.ask("c", http.MethodGet, shopSlices+"/"+name+"-zonal", nil)
		if code != http.StatusOK || code2 != http.StatusOK {
			return fmt.Errorf("mirror %d, slice %d", code, code2)
		}
		ip := real["spec"].(map[string]any)["clusterIP"]
		want, got := portsOf(real["spec"].(map[string]any)), portsOf(mirror["spec"].(map[string]any))
		endpoints, _ := slice["endpoints"].([]any)
		switch {
		case want != got || want != portsOf(slice):
			return fmt.Errorf("ports %s, %s in the mirror, %s in the slice", want, got, portsOf(slice))
		case len(endpoints) != 1 || fmt.Sprint(endpoints[0].(map[string]any)["addresses"]) != fmt.Sprintf("[%s]", ip):
			return fmt.Errorf("leads to %v, not %s", endpoints, ip)
		case mirror["spec"].(map[string]any)["trafficDistribution"] != nil || mirror["spec"].(map[string]any)["selector"] != nil:
			return fmt.Errorf("mirror %v", mirror["spec"])
		}
		return nil
	})
	return time.Since(start).Round(10 * time.Millisecond)
}

func portsOf(o map[string]any) string {
	var all []string
	list, _ := o["ports"].([]any)
	for _, each := range list {
		p := each.(map[string]any)
		all = append(all, fmt.Sprintf("%v %v/%v %v", p["name"], p["port"], p["protocol"], p["appProtocol"]))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
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
	go func() { _ = f.Run(m.t.Context()) }()
	return w
}

func (w *witness) deletions(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted[name]
}

func TestZonal(t *testing.T) {
	m := startMirrored(t)
	m.credentials()

	// Without rights: it says which are missing, and touches nothing.
	m.run("a")
	m.until("says what it may not", 30*time.Second, func() error {
		s, err := m.status("a")
		if err != nil {
			return err
		}
		if !strings.Contains(s.Conditions["services"], "may not list and watch services: apply what `holdfast zonal manifest` prints") || s.Complete {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if err := m.agents["a"].child.Stop(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	m.apply()
	seen := m.witness()
	m.must(http.MethodPost, shopServices, service("web", 80))
	m.run("a")
	m.run("b")
	t.Logf("the first mirror after %v, the time of a Lease that was missing included", m.leads("web"))
	m.until("b stands by", 20*time.Second, func() error {
		s, err := m.status("b")
		if err == nil && (!s.Complete || s.Holder == "" || s.Mirrors[0].State != zonal.Kept) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	m.follows(seen)
	m.familiesChange()
	m.warns()
	m.refuses()
	m.survives()
	m.cleansUp()
	m.costs()
	m.leases()
	if len(seen.bad) > 1 || len(seen.bad) == 1 && !strings.HasPrefix(seen.bad[0], "web-zonal with 0") { // what follows did itself
		t.Errorf("a watching proxy saw %v", seen.bad)
	}
}

// follows changes the Service, and the mirror by hand.
func (m *mirrored) follows(seen *witness) {
	m.t.Helper()
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"name": "http", "port": 81}}}})
	m.t.Logf("a port that changed after %v", m.leads("web"))
	m.must(http.MethodPatch, shopSlices+"/web-zonal", map[string]any{"endpoints": []any{}})
	m.t.Logf("a slice that somebody emptied after %v", m.leads("web"))
	m.must(http.MethodPatch, shopServices+"/web-zonal", map[string]any{"spec": map[string]any{"type": "NodePort", "selector": map[string]any{"a": "b"}, "trafficDistribution": "PreferClose"}})
	m.leads("web")
	m.must(http.MethodPatch, shopServices+"/web-zonal", map[string]any{"spec": map[string]any{"type": "ExternalName", "externalName": "x.example.org"}})
	m.leads("web")
	m.must(http.MethodPatch, shopServices+"/web-zonal", map[string]any{"spec": map[string]any{"type": "LoadBalancer", "loadBalancerSourceRanges": []any{"10.0.0.0/8"}}})
	m.leads("web")
	// Deleted and made again, which gives it another address, while it is mirrored.
	m.must(http.MethodDelete, shopServices+"/web", nil)
	m.must(http.MethodPost, shopServices, service("web", 82))
	m.t.Logf("a Service that was made again after %v, its slice deleted %d times", m.leads("web"), seen.deletions("web-zonal"))
}

// familiesChange has a Service of both families, then of one, then of the other.
func (m *mirrored) familiesChange() {
	m.t.Helper()
	dual := func(spec map[string]any) map[string]any {
		s := service("dual", 80)
		for k, v := range spec {
			s["spec"].(map[string]any)[k] = v
		}
		return s
	}
	m.must(http.MethodPost, shopServices, dual(map[string]any{"ipFamilyPolicy": "RequireDualStack"}))
	m.families("dual", "IPv4", "IPv6")
	m.must(http.MethodPatch, shopServices+"/dual", map[string]any{"spec": map[string]any{"ipFamilyPolicy": "SingleStack"}})
	m.families("dual", "IPv4")
	m.must(http.MethodPatch, shopServices+"/dual", map[string]any{"spec": map[string]any{"ipFamilyPolicy": "PreferDualStack"}})
	m.families("dual", "IPv4", "IPv6")
	m.must(http.MethodDelete, shopServices+"/dual", nil)
	m.must(http.MethodPost, shopServices, dual(map[string]any{"ipFamilies": []any{"IPv6"}}))
	m.families("dual", "IPv6")
	m.must(http.MethodDelete, shopServices+"/dual", nil)
	m.families("dual")
}

// families waits until the mirror and its slices are of the given families and
// lead to the Service's addresses.
func (m *mirrored) families(name string, want ...string) {
	m.t.Helper()
	start := time.Now()
	m.until(fmt.Sprintf("mirror of %s in %v", name, want), 30*time.Second, func() error {
		real, _ := m.ask("c", http.MethodGet, shopServices+"/"+name, nil)
		mirror, code := m.ask("c", http.MethodGet, shopServices+"/"+name+"-zonal", nil)
		if (code == http.StatusOK) != (len(want) > 0) {
			return fmt.Errorf("mirror %d", code)
		}
		if len(want) > 0 && fmt.Sprint(mirror["spec"].(map[string]any)["ipFamilies"]) != fmt.Sprint(want) {
			return fmt.Errorf("mirror %v", mirror["spec"])
		}
		for family, suffix := range map[string]string{"IPv4": "", "IPv6": "-ipv6"} {
			slice, code := m.ask("c", http.MethodGet, shopSlices+"/"+name+"-zonal"+suffix, nil)
			i := slices.Index(want, family)
			if (code == http.StatusOK) != (i >= 0) {
				return fmt.Errorf("slice of %s: %d", family, code)
			}
			if i < 0 {
				continue
			}
			ip := real["spec"].(map[string]any)["clusterIPs"].([]any)[i]
			if e := slice["endpoints"].([]any); len(e) != 1 || fmt.Sprint(e[0].(map[string]any)["addresses"]) != fmt.Sprintf("[%s]", ip) {
				return fmt.Errorf("slice of %s: %v, not %s", family, e, ip)
			}
			refs := slice["metadata"].(map[string]any)["ownerReferences"].([]any)
			if refs[0].(map[string]any)["uid"] != mirror["metadata"].(map[string]any)["uid"] {
				return fmt.Errorf("slice of %s belongs to another mirror", family)
			}
		}
		return nil
	})
	m.t.Logf("families %v after %v", want, time.Since(start).Round(10*time.Millisecond))
}

// warns has nodes in three zones, one of them of the control plane alone, and
// endpoints in one.
func (m *mirrored) warns() {
	m.t.Helper()
	for zone, labels := range map[string]map[string]any{"a": {}, "b": {}, "w": {"node-role.kubernetes.io/control-plane": ""}} {
		labels["topology.kubernetes.io/zone"] = zone
		m.must(http.MethodPost, "/api/v1/nodes", map[string]any{"metadata": map[string]any{"name": "node-" + zone, "labels": labels}})
	}
	slice := map[string]any{
		"metadata":    map[string]any{"name": "web-1", "labels": map[string]any{"kubernetes.io/service-name": "web"}},
		"addressType": "IPv4", "endpoints": []any{map[string]any{"addresses": []any{"10.1.0.1"}, "zone": "a"}},
	}
	m.must(http.MethodPost, shopSlices, slice)
	m.warned("no ready endpoint in zone b: ")
	m.must(http.MethodPatch, shopSlices+"/web-1", map[string]any{"endpoints": []any{
		map[string]any{"addresses": []any{"10.1.0.1"}, "zone": "a"}, map[string]any{"addresses": []any{"10.1.0.2"}, "zone": "b"},
	}})
	m.warned("")
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"spec": map[string]any{"trafficDistribution": nil}})
	m.warned("trafficDistribution is not set: traffic goes to every zone; set PreferSameZone")
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"spec": map[string]any{"trafficDistribution": "PreferSameZone"}})
	m.warned("")
}

// warned waits until the one warning about web is the given one; "" is none.
func (m *mirrored) warned(want string) {
	m.t.Helper()
	m.until(fmt.Sprintf("warning %q", want), 20*time.Second, func() error {
		s, err := m.status("a")
		if err != nil {
			return err
		}
		for _, each := range s.Mirrors {
			if each.Service == "web" && (want == "" && len(each.Warnings) == 0 || want != "" && len(each.Warnings) == 1 && strings.HasPrefix(each.Warnings[0], want)) {
				return nil
			}
		}
		return fmt.Errorf("%+v", s.Mirrors)
	})
}

// refuses leaves what is somebody else's, and says so where people look.
func (m *mirrored) refuses() {
	m.t.Helper()
	foreign := m.must(http.MethodPost, shopServices, map[string]any{"metadata": map[string]any{"name": "api-zonal"}, "spec": map[string]any{"ports": []any{map[string]any{"port": 1}}}})
	m.must(http.MethodPost, shopServices, service("api", 80))
	m.must(http.MethodPost, shopSlices, map[string]any{"metadata": map[string]any{"name": "pay-zonal"}, "addressType": "IPv4", "endpoints": []any{}})
	m.must(http.MethodPost, shopServices, service("pay", 80))
	headless := service("db", 80)
	headless["spec"].(map[string]any)["clusterIP"] = "None"
	m.must(http.MethodPost, shopServices, headless)
	for name, reason := range map[string]string{"api": "NameTaken", "pay": "SliceNameTaken", "db": "Headless"} {
		m.until("an Event on "+name, 30*time.Second, func() error {
			list, _ := m.ask("c", http.MethodGet, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name="+name, nil)
			items, _ := list["items"].([]any)
			for _, each := range items {
				if e := each.(map[string]any); e["reason"] == "Zonal"+reason && e["type"] == "Warning" {
					return nil
				}
			}
			return fmt.Errorf("none with reason Zonal%s among %d", reason, len(items))
		})
		m.until("status of "+name, 30*time.Second, func() error {
			site, err := m.acting()
			if err != nil {
				return err
			}
			s, err := m.status(site)
			i := slices.IndexFunc(s.Mirrors, func(x zonal.MirrorStatus) bool { return x.Service == name })
			if err != nil || i < 0 || s.Mirrors[i].State != zonal.Refused || s.Mirrors[i].Reason != reason {
				return fmt.Errorf("%+v, %v", s.Mirrors, err)
			}
			return nil
		})
	}
	after, _ := m.ask("c", http.MethodGet, shopServices+"/api-zonal", nil)
	if version(after) != version(foreign) {
		m.t.Errorf("the foreign Service was written")
	}
	m.must(http.MethodDelete, shopSlices+"/pay-zonal", nil)
	m.t.Logf("a name that became free after %v", m.leads("pay"))
}

func version(o map[string]any) any { return o["metadata"].(map[string]any)["resourceVersion"] }

// survives loses apiservers and the replica that acts.
func (m *mirrored) survives() {
	m.t.Helper()
	site := m.awaitActing()
	own := m.servers[site]
	if err := own.Signal(syscall.SIGSTOP); err != nil {
		m.t.Fatal(err)
	}
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"name": "http", "port": 83}}}})
	m.t.Logf("with its apiserver frozen after %v", m.leads("web"))
	if err := own.Signal(syscall.SIGCONT); err != nil {
		m.t.Fatal(err)
	}
	site = m.awaitActing()
	other := map[string]string{"a": "b", "b": "a"}[site]
	if err := m.agents[site].child.Signal(syscall.SIGKILL); err != nil {
		m.t.Fatal(err)
	}
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"name": "http", "port": 84}}}})
	took := m.leads("web")
	m.t.Logf("with the replica that acted killed after %v", took)
	if took > 25*time.Second {
		m.t.Errorf("the other replica took %v to act", took)
	}
	delete(m.agents, site)
	if now, err := m.acting(); err != nil || now != other {
		m.t.Errorf("%s acts, %v", now, err)
	}
	m.run(site)
}

// cleansUp takes Services away; no controller manager runs, so that nobody but
// the agent removes anything.
func (m *mirrored) cleansUp() {
	m.t.Helper()
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"holdfast.dev/zonal": nil}}})
	m.must(http.MethodDelete, shopServices+"/pay", nil)
	for _, name := range []string{"web-zonal", "pay-zonal"} {
		m.until(name+" goes", 20*time.Second, func() error {
			_, service := m.ask("c", http.MethodGet, shopServices+"/"+name, nil)
			_, slice := m.ask("c", http.MethodGet, shopSlices+"/"+name, nil)
			if service != http.StatusNotFound || slice != http.StatusNotFound {
				return fmt.Errorf("service %d, slice %d", service, slice)
			}
			return nil
		})
	}
	if _, code := m.ask("c", http.MethodGet, shopServices+"/api-zonal", nil); code != http.StatusOK {
		m.t.Error("the foreign Service is gone")
	}
}

// costs tells the memory of the agents, and how often they write at rest.
func (m *mirrored) costs() {
	m.t.Helper()
	for site, a := range m.agents {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.child.Pid()))
		if err != nil {
			m.t.Error(err)
			continue
		}
		var line []string
		for _, l := range strings.Split(string(data), "\n") {
			if strings.HasPrefix(l, "VmRSS") || strings.HasPrefix(l, "RssAnon") {
				line = append(line, strings.Join(strings.Fields(l), " "))
			}
		}
		m.t.Logf("agent %s: %s", site, strings.Join(line, ", "))
	}
}

// leases has three Locks, each through the apiserver of its own site, one of
// which loses etcd while its Lock is held.
func (m *mirrored) leases() {
	m.t.Helper()
	locks := map[string]*lease.Lock{}
	ctx, cancel := context.WithCancel(m.t.Context())
	var wg sync.WaitGroup
	defer func() { cancel(); wg.Wait() }()
	for _, site := range sites {
		a := m.apiserver(site)
		cluster := &kubeapi.Cluster{Kubeconfig: a.PKI().AdminConf, Servers: []string{a.URL()}, Dial: a.Node().DialContext}
		l := &lease.Lock{Client: cluster.Client, Namespace: "default", Name: "test", Identity: lease.NewIdentity(site), Duration: 5 * time.Second}
		locks[site] = l
		wg.Go(func() { l.Keep(ctx, func(bool) {}, func(error) {}) })
	}
	holder := func() (sites []string) {
		for site, l := range locks {
			if l.Held() {
				sites = append(sites, site)
			}
		}
		if len(sites) > 1 {
			m.t.Errorf("%v hold the Lease", sites)
		}
		return sites
	}
	first := ""
	m.until("somebody holds the Lease", 20*time.Second, func() error {
		h := holder()
		if len(h) != 1 {
			return errors.New("nobody")
		}
		first = h[0]
		return nil
	})
	if err := m.apiserver(first).Detach(ctx); err != nil {
		m.t.Fatal(err)
	}
	start := time.Now()
	m.until("another holds it", 20*time.Second, func() error {
		if h := holder(); len(h) != 1 || h[0] == first {
			return fmt.Errorf("%v", h)
		}
		return nil
	})
	m.t.Logf("a Lease of 5s passes from a holder without etcd after %v", time.Since(start).Round(10*time.Millisecond))
	if err := m.apiserver(first).Attach(ctx); err != nil {
		m.t.Fatal(err)
	}
}

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/address/vip"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// outward is a Kubernetes cluster of three nodes on one segment, each with an agent
// that answers for Services of type LoadBalancer, and a client beside them.
type outward struct {
	*cluster
	site       string
	nodes      []string
	kubeconfig string
	running    map[string]*lab.Child
	logs       map[string]*buffer
}

const (
	servicePool  = "10.77.1.200-10.77.1.209"
	firstService = "10.77.1.200"
)

func startOutward(t *testing.T) *outward {
	t.Helper()
	spec, err := lab.Default("lan")
	if err != nil {
		t.Fatal(err)
	}
	spec.Sites, spec.Links = []lab.Site{{Name: "a", Zone: "a", Nodes: 3}}, nil
	spec.Dir, spec.Kubernetes = t.TempDir(), true
	spec.KubernetesOptions.Version = os.Getenv("HOLDFAST_KUBERNETES")
	if err := spec.Preflight(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this suite must not be skipped in CI: %v", err)
		}
		t.Skip(err)
	}
	l, err := lab.Start(t.Context(), spec, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close lab: %v", err)
		}
	})
	b := &outward{cluster: &cluster{t: t, lab: l, agents: map[string]*agent{}}, site: "a", running: map[string]*lab.Child{}, logs: map[string]*buffer{}}
	t.Cleanup(func() { b.t = t; b.showAgents() })
	for _, start := range []func(context.Context) error{l.StartEtcd, l.StartAPIServers, l.StartKubernetes} {
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range l.Nodes() {
		b.nodes = append(b.nodes, n.Name())
	}
	b.rights()
	return b
}

func (b *outward) showAgents() {
	if !b.t.Failed() {
		return
	}
	for _, n := range b.nodes {
		if log := b.logs[n]; log != nil {
			b.t.Logf("agent of %s: %s", n, log.tail())
		}
	}
}

// kubectl runs kubectl as the administrator.
func (b *outward) kubectl(args ...string) (string, error) {
	return b.lab.Kubectl(b.within(30*time.Second), b.nodes[0], args...)
}

func (b *outward) mustKubectl(args ...string) string {
	b.t.Helper()
	out, err := b.kubectl(args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// apply hands text to kubectl.
func (b *outward) apply(text string) {
	b.t.Helper()
	path := filepath.Join(b.lab.Dir(), "object.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.mustKubectl("apply", "-f", path)
}

// rights gives the agents a kubeconfig with the rights of the printed manifest.
func (b *outward) rights() {
	b.t.Helper()
	b.apply(printedVIP(b.t, "vip", "manifest", "rbac"))
	token := strings.TrimSpace(b.mustKubectl("-n", "kube-system", "create", "token", "holdfast-vip"))
	a, err := b.lab.APIServer(b.site)
	if err != nil {
		b.t.Fatal(err)
	}
	ca, err := os.ReadFile(a.PKI().CA)
	if err != nil {
		b.t.Fatal(err)
	}
	b.kubeconfig = filepath.Join(b.t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("current-context: m\ncontexts: [{name: m, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: %s}}]\n",
		a.URL(), base64.StdEncoding.EncodeToString(ca), token)
	if err := os.WriteFile(b.kubeconfig, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *outward) node(name string) *lab.Node {
	b.t.Helper()
	n, err := b.lab.Node(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// run starts the agent of a node.
func (b *outward) run(name string) {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	if b.logs[name] == nil {
		b.logs[name] = &buffer{}
	}
	child, err := b.node(name).Spawn(b.t.Context(), lab.Process{
		Name: "vip-" + name, Env: []string{asAgent + "=1"}, Stdout: io.Discard, Stderr: b.logs[name],
		Argv: []string{self, "vip", "run", "--services", "--pool", servicePool, "--node", name, "--interface", "eth0", "--kubeconfig", b.kubeconfig,
			"--control", filepath.Join(b.lab.Dir(), name+".sock")},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.running[name] = child
}

// kill ends the agent of a node by SIGKILL.
func (b *outward) kill(name string) {
	b.t.Helper()
	if err := b.running[name].Stop(b.within(10*time.Second), 0); err != nil && b.running[name].Err() == nil {
		b.t.Fatal(err)
	}
	delete(b.running, name)
}

// expose makes a Service of type LoadBalancer for pods with the label app=NAME.
func (b *outward) expose(name, policy string, port int, annotations map[string]string) {
	b.t.Helper()
	notes, err := json.Marshal(annotations)
	if err != nil {
		b.t.Fatal(err)
	}
	b.apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %s, annotations: %s}
spec:
  type: LoadBalancer
  externalTrafficPolicy: %s
  selector: {app: %s}
  ports: [{port: %d, targetPort: 8080}]
`, name, notes, policy, name, port))
}

// pod runs a pod of a Service on a node.
func (b *outward) pod(name, app, node string) *lab.Pod {
	b.t.Helper()
	p, err := b.lab.RunPod(b.within(2*time.Minute), lab.PodSpec{Name: name, Node: node, Port: 8080, Labels: map[string]string{"app": app}})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// address is that of a Service, "" while it has none.
func (b *outward) address(service string) string {
	out, _ := b.kubectl("get", "service", service, "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}")
	return out
}

func (b *outward) awaitAddress(service, want string) {
	b.t.Helper()
	b.until("Service "+service+" has its address", 20*time.Second, func() error {
		if got := b.address(service); got != want {
			return fmt.Errorf("it has %q, not %q", got, want)
		}
		return nil
	})
}

// served is what a pod says of a request.
type served struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	From string `json:"from"`
}

// get asks an address as a machine beside the cluster does.
func (b *outward) get(address string, port int) (s served, err error) {
	err = b.lab.AtRouter(b.site, func() error {
		client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: b.dialOutside}}
		resp, err := client.Get(fmt.Sprintf("http://%s/", net.JoinHostPort(address, fmt.Sprint(port))))
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		return json.NewDecoder(resp.Body).Decode(&s)
	})
	return s, err
}

// dialOutside dials at the router, whatever thread it is called on.
func (b *outward) dialOutside(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = b.lab.AtRouter(b.site, func() error {
		conn, err = (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

func (b *outward) awaitServed(address string, port int, within time.Duration, good func(served) error) served {
	b.t.Helper()
	var last served
	b.until("a client outside is served at "+address, within, func() error {
		s, err := b.get(address, port)
		if err == nil {
			last = s
			err = good(s)
		}
		return err
	})
	return last
}

// on are the nodes whose interface has the address.
func (b *outward) on(address string) []string {
	var all []string
	for _, n := range b.nodes {
		_ = b.node(n).Do(func() error {
			iface, err := net.InterfaceByName("eth0")
			if err != nil {
				return err
			}
			addrs, err := iface.Addrs()
			if err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool { return strings.HasPrefix(a.String(), address+"/") }) {
				all = append(all, n)
			}
			return err
		})
	}
	return all
}

// holder is the node that has the address.
func (b *outward) holder(address string) string {
	b.t.Helper()
	var one string
	b.until("one node has "+address, 20*time.Second, func() error {
		all := b.on(address)
		if len(all) != 1 {
			return fmt.Errorf("nodes that have it: %v", all)
		}
		one = all[0]
		return nil
	})
	return one
}

// status is what the agent of a node says.
func (b *outward) status(node string) (s vip.Status, err error) {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: b.node(node).DialContext}}
	resp, err := client.Get("http://127.0.0.1:9389/status")
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// event waits for an Event about a Service, as kubectl shows it.
func (b *outward) event(service, reason, part string) {
	b.t.Helper()
	b.until("kubectl shows "+reason, 20*time.Second, func() error {
		out, err := b.kubectl("describe", "service", service)
		if err == nil && (!strings.Contains(out, reason) || !strings.Contains(out, part)) {
			err = fmt.Errorf("it says:\n%s", out)
		}
		return err
	})
}

var errSame = errors.New("the same node still")

// fromOutside says that an address is the client's own.
func (b *outward) fromOutside(s served) error {
	at, err := netip.ParseAddrPort(s.From)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(b.lab.Nodes(), func(n *lab.Node) bool { return n.IP() == at.Addr() }) || !strings.HasPrefix(s.From, "10.77.1.") {
		return fmt.Errorf("the pod saw %s, which is not the client", s.From)
	}
	return nil
}

// printedVIP is what a command prints.
func printedVIP(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	root := &cobra.Command{Use: "holdfast"}
	root.AddCommand(vip.Command())
	root.SetArgs(args)
	root.SetOut(&out)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

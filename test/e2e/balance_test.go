package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast-ha/holdfast/internal/access/balance"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// balanced is a cluster with a kube-apiserver in every site, each on its own
// etcd member, and a balancer on the node of site a.
type balanced struct {
	*cluster
	balancer *agent
	settings string
}

// startBalanced makes the lab and the balancer.
func startBalanced(t *testing.T) *balanced {
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
	b := &balanced{cluster: &cluster{t: t, lab: l, agents: map[string]*agent{}}}
	t.Cleanup(func() {
		b.t = t // not the last subtest, which may have passed
		b.showLogs()
	})
	if err := l.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAPIServers(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.settings = filepath.Join(t.TempDir(), "balance.yaml")
	b.write(sites...)
	b.launch("balance")
	b.awaitGrades("at the start", map[string]string{"a": "ready", "b": "ready", "c": "ready"})
	return b
}

func (b *balanced) apiserver(site string) *lab.APIServer {
	b.t.Helper()
	a, err := b.lab.APIServer(site)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// write puts settings with the apiservers of the sites into the file.
func (b *balanced) write(sites ...string) {
	b.t.Helper()
	pki := b.apiserver("a").PKI()
	var text strings.Builder
	fmt.Fprintf(&text, "zone: a\ncontrol: %s\nlog: {format: json, level: debug}\nfrontends:\n- check: {ca: %s, cert: %s, key: %s}\n  slowStart: 1s\n  backends:\n    state: %s\n    static:\n",
		b.control(), pki.CA, pki.KubeletCert, pki.KubeletKey, filepath.Join(filepath.Dir(b.settings), "state.json"))
	for _, s := range sites {
		fmt.Fprintf(&text, "    - {address: %q, zone: %s}\n", b.apiserver(s).Address(), s)
	}
	b.rewrite(text.String())
}

func (b *balanced) rewrite(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.settings+".new", []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(b.settings+".new", b.settings); err != nil {
		b.t.Fatal(err)
	}
}

func (b *balanced) control() string { return filepath.Join(filepath.Dir(b.settings), "control.sock") }

// launch starts `holdfast balance run` on the node of site a.
func (b *balanced) launch(name string, flags ...string) {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	argv := append([]string{self, "balance", "run", "--config", b.settings}, flags...)
	b.balancer = b.spawn(b.member("a"), name, argv)
	b.agents[name] = b.balancer
}

// status asks the balancer over its control socket.
func (b *balanced) status() (balance.Status, error) {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", b.control())
		},
	}}
	var s balance.Status
	resp, err := client.Get("http://balance/status")
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// awaitGrades waits until the balancer grades the apiserver of each site so;
// "a|b" is either.
func (b *balanced) awaitGrades(what string, want map[string]string) {
	b.t.Helper()
	b.until("grades "+what, 60*time.Second, func() error {
		s, err := b.status()
		if err != nil {
			return err
		}
		for site, grade := range want {
			if got := gradeOf(s, b.apiserver(site).Address()); !slices.Contains(strings.Split(grade, "|"), got) {
				return fmt.Errorf("%s is %q, not %q", site, got, grade)
			}
		}
		return nil
	})
}

func gradeOf(s balance.Status, id string) string {
	for _, f := range s.Frontends {
		for _, be := range f.Backends {
			if be.ID == id {
				return be.Grade.String()
			}
		}
	}
	return "not listed"
}

// client is one of client-go with an informer on ConfigMaps, all over one
// connection to the balancer, and counts the connections it loses.
type client struct {
	api dynamic.Interface
	// lost counts connections that ended without the client having closed them.
	// Dials would count more: two requests at once make two connections, and
	// drop one.
	lost atomic.Int64
	seen sync.Map // name → struct{}
}

// watched is a connection that tells when it is lost.
type watched struct {
	net.Conn
	client *client
	once   sync.Once
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.once.Do(func() { w.client.lost.Add(1) })
	}
	return n, err
}

// tlsData has the administrator's files read at once: from their names client-go
// would follow them for as long as the process lives, and miss them in its log
// once the lab is gone.
func tlsData(t *testing.T, pki lab.KubernetesPKI) rest.TLSClientConfig {
	t.Helper()
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	return rest.TLSClientConfig{CAData: read(pki.CA), CertData: read(pki.AdminCert), KeyData: read(pki.AdminKey)}
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func (b *balanced) client(ctx context.Context) *client {
	b.t.Helper()
	pki, node := b.apiserver("a").PKI(), b.member("a").Node()
	c := &client{}
	config := &rest.Config{
		Host: "https://127.0.0.1:7445", Timeout: 0, QPS: 100, Burst: 100,
		TLSClientConfig: tlsData(b.t, pki),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := node.DialContext(ctx, network, address)
			if err != nil {
				c.lost.Add(1) // refused is worse
				return nil, err
			}
			return &watched{Conn: conn, client: c}, nil
		},
	}
	var err error
	if c.api, err = dynamic.NewForConfig(config); err != nil {
		b.t.Fatal(err)
	}
	maps := c.api.Resource(configMaps).Namespace("default")
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return maps.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return maps.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, 0)
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { c.seen.Store(o.(*unstructured.Unstructured).GetName(), struct{}{}) },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	go informer.RunWithContext(ctx)
	b.until("the informer has its list", 20*time.Second, func() error {
		if !informer.HasSynced() {
			return errors.New("it has not")
		}
		return nil
	})
	return c
}

// create writes a ConfigMap through the balancer.
func (c *client) create(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}}
	_, err := c.api.Resource(configMaps).Namespace("default").Create(ctx, o, metav1.CreateOptions{})
	return err
}

// delivers checks that a write reaches the informer, over whatever connection.
func (b *balanced) delivers(c *client, name string) {
	b.t.Helper()
	b.until("a write through the balancer", 20*time.Second, func() error { return c.create(b.t.Context(), name) })
	b.until("the watch sees "+name, 20*time.Second, func() error {
		if _, ok := c.seen.Load(name); !ok {
			return fmt.Errorf("%s is not there", name)
		}
		return nil
	})
}

// newcomers open a connection each, ten a second, until stopped; every one
// that gets no answer is a failure.
type newcomers struct {
	good, bad atomic.Int64
	last      atomic.Value // error text
	stop      func()
}

func (b *balanced) newcomers() *newcomers {
	b.t.Helper()
	a := b.apiserver("a")
	pki := a.PKI()
	config, err := a.TLS(pki.AdminCert, pki.AdminKey)
	if err != nil {
		b.t.Fatal(err)
	}
	config.ServerName = "kubernetes"
	n := &newcomers{}
	ctx, cancel := context.WithCancel(b.t.Context())
	var wg sync.WaitGroup
	n.stop = func() { cancel(); wg.Wait() }
	b.t.Cleanup(n.stop)
	wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			wg.Go(func() { n.one(b.member("a").Node(), config) })
		}
	})
	return n
}

// one connects, asks and closes. It is not cancelled: a connection begun is
// counted.
func (n *newcomers) one(node *lab.Node, config *tls.Config) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := func() error {
		raw, err := node.DialContext(ctx, "tcp", "127.0.0.1:7445")
		if err != nil {
			return err
		}
		conn := tls.Client(raw, config)
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(conn, "GET /version HTTP/1.0\r\nHost: kubernetes\r\n\r\n"); err != nil {
			return err
		}
		answer, err := io.ReadAll(conn)
		if err == nil && !strings.Contains(string(answer), "200 OK") {
			err = fmt.Errorf("answered %.60q", answer)
		}
		return err
	}()
	if err != nil {
		n.bad.Add(1)
		n.last.Store(err.Error())
		return
	}
	n.good.Add(1)
}

// none waits until some connections have been made and ends them; it fails the
// test when one has failed.
func (b *balanced) none(t *testing.T, n *newcomers, what string) {
	t.Helper()
	b.until("some new connections", 30*time.Second, func() error {
		if made := n.good.Load() + n.bad.Load(); made < 10 {
			return fmt.Errorf("only %d", made)
		}
		return nil
	})
	n.stop()
	if bad := n.bad.Load(); bad > 0 {
		t.Errorf("%s: %d of %d new connections failed, the last with %v", what, bad, bad+n.good.Load(), n.last.Load())
	}
}

// TestBalance holds the balancer against real apiservers and real clients, one
// fault after another on one lab.
func TestBalance(t *testing.T) {
	b := startBalanced(t)
	c := b.client(t.Context())
	b.delivers(c, "before")

	b.step("an apiserver is killed", func() {
		t := b.t
		n, lost := b.newcomers(), c.lost.Load()
		if err := b.apiserver("a").Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.awaitGrades("after the kill", map[string]string{"a": "refused"})
		b.delivers(c, "killed")
		b.none(t, n, "kill")
		if more := c.lost.Load() - lost; more > 1 {
			t.Errorf("the client lost %d connections, want at most 1", more)
		}
		if err := b.apiserver("a").Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.awaitGrades("after its return", map[string]string{"a": "ready"})
	})
	b.step("one is stopped and one loses its etcd", func() {
		t := b.t
		n := b.newcomers()
		if err := b.apiserver("b").Child().Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if err := b.apiserver("a").Detach(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.awaitGrades("after both", map[string]string{"a": "not ready|frozen", "b": "frozen", "c": "ready"})
		b.delivers(c, "halved")
		b.none(t, n, "stop and detach")
		if err := b.apiserver("a").Attach(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.apiserver("b").Child().Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		b.awaitGrades("after their return", map[string]string{"a": "ready", "b": "ready", "c": "ready"})
	})
	b.step("a site is cut off", func() {
		t := b.t
		n := b.newcomers()
		if err := b.lab.Cut(b.within(20*time.Second), lab.Cut{From: "a", To: "c"}); err != nil {
			t.Fatal(err)
		}
		b.awaitGrades("in the split", map[string]string{"c": "unreachable"})
		b.delivers(c, "split")
		b.none(t, n, "cut")
		if err := b.lab.Heal(b.within(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		b.awaitGrades("after healing", map[string]string{"a": "ready", "b": "ready", "c": "ready"})
	})
	b.step("a rolling restart", func() {
		t := b.t
		n := b.newcomers()
		for _, site := range sites {
			lost := c.lost.Load()
			if err := b.apiserver(site).Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.delivers(c, "without-"+site)
			if err := b.apiserver(site).Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.awaitGrades("after its restart", map[string]string{site: "ready"})
			if more := c.lost.Load() - lost; more > 1 {
				t.Errorf("restart of %s: the client lost %d connections, want at most 1", site, more)
			}
		}
		b.none(t, n, "rolling restart")
	})
	b.step("discovery", b.discovery)
	b.step("all down, one back", func() { b.allDown(b.t) })
	b.step("reload and upgrade", func() { b.reloadAndUpgrade(b.t, c) })
	b.step("upgrade by signal", func() { b.upgradeBySignal(b.t, c) })
}

// discovery lists one apiserver and lets EndpointSlices name the others: first
// with the kubelet's identity, which may not list them, then with one that may.
func (b *balanced) discovery() {
	pki := b.apiserver("a").PKI()
	settings := func(kubeconfig string) string {
		return fmt.Sprintf("control: %s\nlog: {format: json, level: debug}\nfrontends:\n- check: {ca: %s, cert: %s, key: %s}\n  backends:\n    state: none\n    static: [{address: %q}]\n    endpointSlices: {kubeconfig: %s}\n",
			b.control(), pki.CA, pki.KubeletCert, pki.KubeletKey, b.apiserver("a").Address(), kubeconfig)
	}
	b.rewrite(settings(pki.KubeletConf))
	b.until("status says that the kubelet may not list", 20*time.Second, func() error {
		s, err := b.status()
		if err != nil {
			return err
		}
		for _, src := range s.Frontends[0].Sources {
			if strings.Contains(src.Error, "may not list endpointslices") {
				return nil
			}
		}
		return fmt.Errorf("%+v", s.Frontends[0].Sources)
	})
	b.awaitGrades("of the static list alone", map[string]string{"a": "ready", "b": "not listed"})
	b.rewrite(settings(pki.AdminConf))
	b.awaitGrades("with discovery", map[string]string{"a": "ready", "b": "ready", "c": "ready"})
	b.write(sites...)
	b.awaitGrades("with the old settings", map[string]string{"a": "ready", "b": "ready", "c": "ready"})
}

// allDown kills all apiservers: clients are refused and do not hang; the first
// that is back serves.
func (b *balanced) allDown(t *testing.T) {
	for _, site := range sites {
		if err := b.apiserver(site).Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.awaitGrades("after the last kill", map[string]string{"a": "refused", "b": "refused", "c": "refused"})
	conn, err := b.member("a").Node().DialContext(t.Context(), "tcp", "127.0.0.1:7445")
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("with all down a client gets %v, want a reset", err)
	}
	for _, site := range sites {
		if err := b.apiserver(site).Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.awaitGrades("after its return", map[string]string{site: "ready"})
	}
}

// reloadAndUpgrade changes settings and process under load.
func (b *balanced) reloadAndUpgrade(t *testing.T, c *client) {
	n, lost := b.newcomers(), c.lost.Load()
	b.rewrite("frontends: [{listen: [nonsense]}]\n")
	b.until("bad settings are told", 10*time.Second, func() error {
		s, err := b.status()
		if err == nil && !strings.Contains(s.Settings.Error, "nonsense") {
			err = fmt.Errorf("settings error %q", s.Settings.Error)
		}
		return err
	})
	b.awaitGrades("with bad settings", map[string]string{"a": "ready", "b": "ready", "c": "ready"})
	b.write(sites...)
	b.until("good settings are taken", 10*time.Second, func() error {
		s, err := b.status()
		if err == nil && s.Settings.Error != "" {
			err = fmt.Errorf("still %s", s.Settings.Error)
		}
		return err
	})
	before := b.balancer
	b.launch("balance-2", "--upgrade")
	b.until("the newer process has taken over", 20*time.Second, func() error {
		s, err := b.status()
		if err == nil && s.PID != b.balancer.child.Pid() {
			err = fmt.Errorf("pid %d still answers", s.PID)
		}
		return err
	})
	b.awaitGrades("after the upgrade", map[string]string{"a": "ready", "b": "ready", "c": "ready"})
	b.delivers(c, "upgraded")
	if more := c.lost.Load() - lost; more > 0 {
		t.Errorf("the client lost %d connections for a reload and an upgrade, want none", more)
	}
	b.none(t, n, "reload and upgrade")
	if err := before.child.Err(); err != nil {
		t.Errorf("the older process: %v", err)
	}
	if err := before.child.Stop(b.within(10*time.Second), 0); err != nil {
		t.Error(err)
	}
	b.delivers(c, "after-the-end-of-the-old")
}

// upgradeBySignal has the balancer start its successor itself. That one is no
// child of the lab's; closing the lab ends it.
func (b *balanced) upgradeBySignal(t *testing.T, c *client) {
	n, lost, pid := b.newcomers(), c.lost.Load(), b.balancer.child.Pid()
	if err := b.balancer.child.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	b.until("a newer process has taken over", 20*time.Second, func() error {
		s, err := b.status()
		if err == nil && s.PID == pid {
			err = fmt.Errorf("pid %d still answers", pid)
		}
		return err
	})
	b.awaitGrades("after the signal", map[string]string{"a": "ready", "b": "ready", "c": "ready"})
	b.delivers(c, "signalled")
	b.none(t, n, "upgrade by signal")
	if more := c.lost.Load() - lost; more > 0 {
		t.Errorf("the client lost %d connections, want none", more)
	}
}

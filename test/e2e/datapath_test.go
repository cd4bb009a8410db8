package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

const serviceAddress = "10.96.0.1:443"

// routed is a cluster with all of Kubernetes and a pod in every site, whose
// connections to a Service go where kube-proxy sends them.
type routed struct {
	*zoned
	pods map[string]*lab.Pod
}

// startRouted starts Kubernetes in the version that HOLDFAST_KUBERNETES names,
// else the lab's default. Nodes ask the apiserver of a, which stays.
func startRouted(t *testing.T) *routed {
	t.Helper()
	spec, err := lab.Default("lan")
	if err != nil {
		t.Fatal(err)
	}
	spec.Dir, spec.Kubernetes, spec.APIServer.Endpoints = t.TempDir(), true, "none"
	spec.KubernetesOptions.Version = os.Getenv("HOLDFAST_KUBERNETES")
	spec.KubernetesOptions.NodeServer = "https://10.77.1.11:6443"
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
	r := &routed{&zoned{cluster: &cluster{t: t, lab: l, agents: map[string]*agent{}}, timers: chooseTimers()}, map[string]*lab.Pod{}}
	t.Cleanup(func() { r.t = t; r.showSlices(); r.showLogs() })
	for _, start := range []func(context.Context) error{l.StartEtcd, l.StartAPIServers, l.StartKubernetes} {
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	r.atOnce("run pods", sites, func(site string) error {
		m, err := l.Member("main", site)
		if err != nil {
			return err
		}
		pod, err := l.RunPod(t.Context(), lab.PodSpec{Name: "client-" + site, Node: m.Node().Name(), Port: 8080})
		mu.Lock()
		defer mu.Unlock()
		r.pods[site] = pod
		return err
	})
	return r
}

// reaches is the site of the apiserver that a new connection from a pod of site
// leads to, read from the certificate it shows.
func (r *routed) reaches(site string) (string, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Second)
	defer cancel()
	raw, err := r.pods[site].DialContext(ctx, "tcp", serviceAddress)
	if err != nil {
		return "", err
	}
	defer func() { _ = raw.Close() }()
	a := r.apiserver("a")
	conf, err := a.TLS(a.PKI().AdminCert, a.PKI().AdminKey)
	if err != nil {
		return "", err
	}
	conf.ServerName = "kubernetes.default.svc"
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		return "", err
	}
	for _, s := range sites {
		ip := net.IP(r.member(s).Node().IP().AsSlice())
		for _, named := range conn.ConnectionState().PeerCertificates[0].IPAddresses {
			if named.Equal(ip) {
				return s, nil
			}
		}
	}
	return "", errors.New("the certificate names no apiserver of the lab")
}

// leadsTo waits until twenty connections in a row from pods of from lead to to:
// kube-proxy chooses at random, so a wrong endpoint would be seen.
func (r *routed) leadsTo(from, to string, within time.Duration) {
	r.t.Helper()
	const enough = 20
	r.until(fmt.Sprintf("pods of %s are sent to %s", from, to), within, func() error {
		for i := range enough {
			got, err := r.reaches(from)
			if err != nil {
				return err
			}
			if got != to {
				return fmt.Errorf("connection %d led to %s", i, got)
			}
		}
		return nil
	})
}

// TestDatapath has real kube-proxies send pods to the apiserver of their zone,
// and those of a zone without one to the witness; and shows that they take no
// notice of a slice made as the slice for readers by name is.
func TestDatapath(t *testing.T) {
	r := startRouted(t)
	r.manifest("rbac", "--node", strings.Join([]string{r.node("a"), r.node("b"), r.node("c")}, ","))
	r.kubeconfig = r.account()
	for _, site := range sites {
		r.run(site)
	}
	r.cluster.step("each zone has its own", func() {
		for _, site := range sites {
			r.leadsTo(site, site, 60*time.Second)
		}
	})
	r.cluster.step("kube-proxy ignores the slice for readers", r.ignoresReaders)
	r.cluster.step("a zone without an apiserver", r.adopts)
}

// ignoresReaders makes a Service of its own, with one slice that leads to a pod
// and one, labelled as the slice kubernetes is, that leads nowhere.
func (r *routed) ignoresReaders() {
	const address = "10.96.77.77"
	service := map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "seen"},
		"spec": map[string]any{"clusterIP": address, "ports": []any{map[string]any{"name": "web", "port": 8080}}},
	}
	r.make("/api/v1/namespaces/default/services", service)
	const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	r.make(slices, sliceOf("seen-pod", r.pods["a"].IP(), map[string]string{"kubernetes.io/service-name": "seen"}))
	nowhere := sliceOf("seen", netip.MustParseAddr("10.77.1.99"), map[string]string{"service.kubernetes.io/service-proxy-name": "holdfast"})
	r.make(slices, nowhere)

	all := func() error {
		for range 20 {
			if err := r.opens("c", address+":8080"); err != nil {
				return err
			}
		}
		return nil
	}
	r.until("every connection leads to the pod", 20*time.Second, all)
	// With the other label the same slice is used: the test can tell.
	label := map[string]any{"metadata": map[string]any{"labels": map[string]any{
		"kubernetes.io/service-name": "seen", "service.kubernetes.io/service-proxy-name": nil}}}
	if err := r.ask("a", http.MethodPatch, slices+"/seen", label, nil); err != nil {
		r.t.Fatal(err)
	}
	r.until("some connections lead nowhere", 20*time.Second, func() error {
		if all() == nil {
			return errors.New("all lead to the pod")
		}
		return nil
	})
}

func sliceOf(name string, ip netip.Addr, labels map[string]string) map[string]any {
	return map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata":  map[string]any{"name": name, "labels": labels},
		"endpoints": []any{map[string]any{"addresses": []string{ip.String()}, "conditions": map[string]bool{"ready": true}}},
		"ports":     []any{map[string]any{"name": "web", "port": 8080, "protocol": "TCP"}},
	}
}

func (r *routed) make(path string, object any) {
	r.t.Helper()
	if err := r.ask("a", http.MethodPost, path, object, nil); err != nil {
		r.t.Fatal(err)
	}
}

// opens connects from a pod of site and closes again.
func (r *routed) opens(site, address string) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Second)
	defer cancel()
	conn, err := r.pods[site].DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// adopts kills the apiserver of b and brings it back.
func (r *routed) adopts() {
	if err := r.apiserver("b").Kill(r.within(10 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	r.leadsTo("b", "c", 30*time.Second)
	r.leadsTo("a", "a", 10*time.Second)
	if err := r.apiserver("b").Start(r.within(60 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	r.leadsTo("b", "b", 60*time.Second)
}

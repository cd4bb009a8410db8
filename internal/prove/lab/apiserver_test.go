package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// requireAPIServer skips where the peer was not built, and fails in CI.
func requireAPIServer(t *testing.T) {
	t.Helper()
	_, err := FindAPIServer()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// nodeClient asks an apiserver from a node with the certificate of the node's
// kubelet, a new connection each time.
type nodeClient struct {
	http http.Client
	url  string
}

func kubeletOf(t *testing.T, l *Lab, node string, a *APIServer) *nodeClient {
	t.Helper()
	n, err := l.Node(node)
	if err != nil {
		t.Fatal(err)
	}
	files, ok := l.KubernetesPKI(node)
	if !ok {
		t.Fatalf("node %s has no Kubernetes files", node)
	}
	conf, err := a.TLS(files.KubeletCert, files.KubeletKey)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DialContext: n.DialContext, TLSClientConfig: conf, DisableKeepAlives: true}
	return &nodeClient{http.Client{Transport: tr}, a.URL()}
}

// ask returns the status, or 0 and the error.
func (c *nodeClient) ask(ctx context.Context, method, path, body string) (int, string) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == http.MethodPatch])
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data)
}

// TestAPIServers starts a kube-apiserver per site, talks to each as a person
// and as a kubelet, and breaks one in every way that drills do.
func TestAPIServers(t *testing.T) {
	requireAPIServer(t)
	spec := mustDefault(t, "lan")
	spec.APIServers = true
	l := startLab(t, spec)
	ctx := deadline(t, 4*time.Minute)
	if err := l.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := l.StartAPIServers(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("three apiservers are ready after %v", time.Since(began).Round(time.Millisecond))
	writeEverywhere(ctx, t, l)
	renewLease(ctx, t, l)
	identities(ctx, t, l)
	for _, row := range l.reportAPIServers(ctx) {
		if !row.Ready || row.Pid == 0 {
			t.Errorf("report of %s: %+v", row.Name, row)
		}
	}
	b, err := l.APIServer("b")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("detach", func(t *testing.T) { detachAndAttach(ctx, t, l, b) })
	t.Run("freeze and kill", func(t *testing.T) { freezeAndKill(ctx, t, b) })
}

// writeEverywhere creates a ConfigMap through each apiserver and reads it
// through the next.
func writeEverywhere(ctx context.Context, t *testing.T, l *Lab) {
	all := l.APIServers()
	for i, a := range all {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"from-%s"},"data":{"k":"v"}}`, a.Node().Name())
		code, answer, err := a.Request(ctx, http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json", []byte(body))
		if err != nil || code != http.StatusCreated {
			t.Fatalf("create through %s: %d %s, %v", a.Node().Name(), code, answer, err)
		}
		next := all[(i+1)%len(all)]
		code, answer, err = next.Request(ctx, http.MethodGet, "/api/v1/namespaces/default/configmaps/from-"+a.Node().Name(), "", nil)
		if err != nil || code != http.StatusOK || !strings.Contains(string(answer), `"k":"v"`) {
			t.Fatalf("read through %s: %d %s, %v", next.Node().Name(), code, answer, err)
		}
	}
}

// identities checks that every apiserver has an identity Lease of its own,
// which is named after the hostname.
func identities(ctx context.Context, t *testing.T, l *Lab) {
	path := "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver"
	var names []string
	waitFor(t, 20*time.Second, "every apiserver has an identity Lease", func() bool {
		code, answer, err := l.APIServers()[0].Request(ctx, http.MethodGet, path, "", nil)
		if err != nil || code != http.StatusOK {
			t.Fatalf("list identity Leases: %d %s, %v", code, answer, err)
		}
		var list coordinationv1.LeaseList
		if err := json.Unmarshal(answer, &list); err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, lease := range list.Items {
			names = append(names, lease.Labels["kubernetes.io/hostname"])
		}
		slices.Sort(names)
		return len(names) >= len(l.APIServers())
	})
	if want := []string{"a1", "b1", "c1"}; !slices.Equal(names, want) {
		t.Errorf("identity Leases of %v, want %v", names, want)
	}
}

// renewLease does what a kubelet does, over a link, and what it may not.
func renewLease(ctx context.Context, t *testing.T, l *Lab) {
	b, err := l.APIServer("b")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := kubeletOf(t, l, "a1", b)
	leases := "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	lease := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"%s","namespace":"kube-node-lease"},"spec":{"holderIdentity":"%[1]s"}}`
	// The Node authorizer learns of the namespace and the roles a moment after
	// the apiserver is ready.
	waitFor(t, 20*time.Second, "the kubelet creates its lease", func() bool {
		code, answer := kubelet.ask(ctx, http.MethodPost, leases, fmt.Sprintf(lease, "a1"))
		if code != http.StatusCreated {
			t.Logf("create lease: %d %s", code, answer)
		}
		return code == http.StatusCreated
	})
	if code, answer := kubelet.ask(ctx, http.MethodPatch, leases+"/a1", `{"spec":{"renewTime":"2030-01-02T03:04:05.000000Z"}}`); code != http.StatusOK {
		t.Errorf("renew lease: %d %s", code, answer)
	}
	if code, answer := kubelet.ask(ctx, http.MethodGet, leases+"/c1", ""); code != http.StatusForbidden {
		t.Errorf("the kubelet of a1 may read the lease of c1: %d %s", code, answer)
	}
	if code, answer := kubelet.ask(ctx, http.MethodGet, "/readyz", ""); code != http.StatusOK {
		t.Errorf("readyz as a kubelet: %d %s", code, answer)
	}
}

func detachAndAttach(ctx context.Context, t *testing.T, l *Lab, b *APIServer) {
	began := time.Now()
	if err := b.Detach(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.AwaitUnready(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("/readyz fails %v after the detach", time.Since(began).Round(time.Millisecond))
	err := b.Ready(ctx)
	if err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("a detached apiserver says %v", err)
	}
	if st, err := l.Status(ctx, "main", "b"); err != nil || st.Leader == 0 {
		t.Errorf("the member of a detached apiserver: %+v, %v", st, err)
	}
	began = time.Now()
	if err := b.Attach(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("ready again %v after the attach", time.Since(began).Round(time.Millisecond))
}

func freezeAndKill(ctx context.Context, t *testing.T, b *APIServer) {
	if err := b.Child().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := b.Ready(ctx); err == nil {
		t.Error("a frozen apiserver is ready")
	}
	conn, err := b.Node().DialContext(ctx, "tcp", b.Address())
	if err != nil {
		t.Errorf("the kernel of a frozen apiserver does not accept: %v", err)
	} else {
		_ = conn.Close()
	}
	if err := b.Child().Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Kill(ctx); err != nil || b.Child() != nil {
		t.Fatalf("kill: %v", err)
	}
	began := time.Now()
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("ready %v after a restart", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	if err := b.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in order within %v", time.Since(began).Round(time.Millisecond))
}

// TestAPIServersWithoutAnonymous shows the 401 of a hardened cluster.
func TestAPIServersWithoutAnonymous(t *testing.T) {
	requireAPIServer(t)
	spec, err := Default("lan")
	if err != nil {
		t.Fatal(err)
	}
	spec.Sites, spec.Links = spec.Sites[:1], nil
	spec.APIServers, spec.APIServer = true, APIServerOptions{NoAnonymous: true, Endpoints: "none"}
	l := startLab(t, spec)
	ctx := deadline(t, 2*time.Minute)
	if err := l.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAPIServers(ctx); err != nil {
		t.Fatal(err)
	}
	a := l.APIServers()[0]
	conf, err := a.TLS(a.PKI().AdminCert, a.PKI().AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	conf.Certificates = nil
	nobody := &nodeClient{http.Client{Transport: &http.Transport{DialContext: a.Node().DialContext, TLSClientConfig: conf}}, a.URL()}
	defer nobody.http.CloseIdleConnections()
	if code, answer := nobody.ask(ctx, http.MethodGet, "/readyz", ""); code != http.StatusUnauthorized {
		t.Errorf("an anonymous question is answered with %d %s", code, answer)
	}
}

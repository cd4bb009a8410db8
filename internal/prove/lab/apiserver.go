package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
)

// APIServerPort is where kube-apiservers serve TLS, on every address.
const APIServerPort = 6443

// etcdList is the value of APIServerOptions.Etcd for all members.
const etcdList = "list"

// KubernetesPKI are the paths of a node's share of the Kubernetes TLS files.
type KubernetesPKI = pki.Kubernetes

// APIServerOptions are the settings of the kube-apiservers that a lab may want
// otherwise than they are by default.
type APIServerOptions struct {
	// NoAnonymous refuses requests without credentials, as k3s and hardened
	// clusters do: /readyz then answers 401 to them.
	NoAnonymous bool `json:"no_anonymous,omitempty" yaml:"no_anonymous"`
	// Endpoints says who keeps the EndpointSlice of default/kubernetes:
	// "lease" (the default, as upstream) or "none".
	Endpoints string `json:"endpoints,omitempty"`
	// EtcdCheck is how long /readyz waits for etcd, per check of which there are
	// two; 0 is upstream's 2 s (--etcd-healthcheck-timeout and
	// --etcd-readycheck-timeout). With it, an apiserver that has lost its etcd
	// does not answer 500 at once but after 2 to 4 s of silence (measured).
	EtcdCheck time.Duration `json:"etcd_check,omitempty" yaml:"etcd_check"`
	// Etcd is where an apiserver stores: "" is the member of its own site
	// alone, over the loopback; "list" are all members at their nodes'
	// addresses, its own first; anything else is a list of URLs, separated by
	// commas, such as https://127.0.0.1:2381 for a balancer on the node.
	Etcd string `json:"etcd,omitempty"`
}

// checkEtcd reports a value of Etcd that no apiserver can use.
func (o APIServerOptions) checkEtcd() error {
	if o.Etcd == "" || o.Etcd == etcdList {
		return nil
	}
	for server := range strings.SplitSeq(o.Etcd, ",") {
		if err := checkServer(server); err != nil {
			return fmt.Errorf("apiserver.etcd has %q: use list, leave it out, or %w", server, err)
		}
	}
	return nil
}

// APIServer is a kube-apiserver on the first node of a site. Unless the spec
// says otherwise its storage is the etcd member of its own site alone, so that
// it has no quorum when that member has none.
type APIServer struct {
	program
	member *Member
	files  KubernetesPKI
	http   *http.Client
}

// FindAPIServer returns the path of the kube-apiserver that labs run by default,
// or in one line how to get it.
func FindAPIServer() (string, error) { return findPeer("kube-apiserver-" + defaultKubernetes) }

// buildAPIServers makes the certificates of every node and the command lines
// of the apiservers.
func (l *Lab) buildAPIServers() error {
	if !l.spec.APIServers {
		return nil
	}
	binary, err := l.kubernetesPeer("kube-apiserver")
	if err != nil {
		return err
	}
	shared := filepath.Join(l.dir, "pki", "kubernetes")
	ca, err := pki.NewAuthority(shared, "kubernetes", time.Now())
	if err != nil {
		return err
	}
	if err := pki.MakeServiceAccountKey(shared); err != nil {
		return err
	}
	if err := pki.MakeFrontProxy(shared, time.Now()); err != nil {
		return err
	}
	for _, s := range l.plan.sites {
		if err := l.issueKubernetes(ca, shared, s); err != nil {
			return err
		}
		for i := range max(1, s.APIServers) {
			a, err := l.newAPIServer(s, i, binary)
			if err != nil {
				return err
			}
			l.apiservers = append(l.apiservers, a)
		}
		if l.spec.Kubernetes {
			if err := l.buildControlPlane(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// issueKubernetes makes the files of a site's nodes.
func (l *Lab) issueKubernetes(ca *pki.Authority, shared string, s sitePlan) error {
	server := "https://" + netip.AddrPortFrom(s.nodes[0].ip4, APIServerPort).String()
	for _, n := range s.nodes {
		files, err := ca.IssueKubernetes(shared, filepath.Join(shared, n.name), pki.Node{
			Name: n.name, Server: server, NodeServer: l.spec.KubernetesOptions.NodeServer, IPs: []netip.Addr{n.ip4, n.ip6},
		})
		if err != nil {
			return err
		}
		l.kubernetes[n.name] = files
	}
	return nil
}

func (l *Lab) newAPIServer(s sitePlan, place int, binary string) (*APIServer, error) {
	n, err := l.Node(s.nodes[place].name)
	if err != nil {
		return nil, err
	}
	member, err := l.Member("", s.Name)
	if err != nil {
		return nil, err
	}
	a := &APIServer{member: member, files: l.kubernetes[n.name]}
	a.program = program{node: n, name: "apiserver-" + n.name}
	a.argv = append([]string{binary}, a.flags(l.spec.APIServer)...)
	a.http, err = a.newClient()
	return a, err
}

// etcdServers is where the apiserver stores.
func (a *APIServer) etcdServers(o APIServerOptions) string {
	switch o.Etcd {
	case "":
		if a.node != a.member.node {
			return a.member.ClientURL()
		}
		// Over the loopback, as kubeadm has it, so that Detach tells these
		// connections from all others to the member.
		return "https://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(a.member.cluster.ClientPort))
	case etcdList:
		all := []string{a.member.ClientURL()}
		for _, m := range a.member.cluster.members {
			if m != a.member {
				all = append(all, m.ClientURL())
			}
		}
		return strings.Join(all, ",")
	}
	return o.Etcd
}

// flags is the command line, as kubeadm writes it. What differs without
// Kubernetes around it: no front proxy, and no ServiceAccount admission, which
// would refuse every pod because no controller makes the accounts.
func (a *APIServer) flags(o APIServerOptions) []string {
	ip := a.node.ip4.String()
	f := []string{
		"--advertise-address=" + ip,
		fmt.Sprintf("--secure-port=%d", APIServerPort),
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		fmt.Sprintf("--anonymous-auth=%t", !o.NoAnonymous),
		"--endpoint-reconciler-type=" + o.Endpoints,
		"--client-ca-file=" + a.files.CA,
		"--tls-cert-file=" + a.files.ServerCert,
		"--tls-private-key-file=" + a.files.ServerKey,
		"--kubelet-client-certificate=" + a.files.KubeletClientCert,
		"--kubelet-client-key=" + a.files.KubeletClientKey,
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
		"--etcd-servers=" + a.etcdServers(o),
		"--etcd-cafile=" + a.member.files.CA,
		"--etcd-certfile=" + a.member.files.ClientCert,
		"--etcd-keyfile=" + a.member.files.ClientKey,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + a.files.ServiceAccountPub,
		"--service-account-signing-key-file=" + a.files.ServiceAccountKey,
		// Three of them share the machine with what is measured.
		"--profiling=false",
		"--etcd-count-metric-poll-period=0",
		"--etcd-db-metric-poll-interval=0",
	}
	if a.node.lab.spec.Kubernetes {
		f = append(f, frontProxyFlags(a.files)...)
	} else {
		f = append(f, "--disable-admission-plugins=ServiceAccount")
	}
	if o.EtcdCheck > 0 {
		f = append(f, "--etcd-healthcheck-timeout="+o.EtcdCheck.String(), "--etcd-readycheck-timeout="+o.EtcdCheck.String())
	}
	return f
}

func frontProxyFlags(f KubernetesPKI) []string {
	return []string{
		"--requestheader-client-ca-file=" + f.FrontProxyCA,
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + f.FrontProxyClientCert,
		"--proxy-client-key-file=" + f.FrontProxyClientKey,
	}
}

// StartAPIServers starts every apiserver and returns when each is ready. etcd
// must run.
func (l *Lab) StartAPIServers(ctx context.Context) error {
	g, startCtx := errgroup.WithContext(ctx)
	for _, a := range l.apiservers {
		g.Go(func() error { return a.Start(startCtx) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("start apiservers: %w", err)
	}
	if len(l.apiservers) > 0 {
		l.log.Info("apiservers are up", "lab", l.spec.Name, "count", len(l.apiservers))
	}
	return nil
}

// APIServers lists the apiservers, site by site and node by node.
func (l *Lab) APIServers() []*APIServer { return slices.Clone(l.apiservers) }

// APIServer finds the first apiserver of a site.
func (l *Lab) APIServer(site string) (*APIServer, error) {
	for _, a := range l.apiservers {
		if a.node.site == site {
			return a, nil
		}
	}
	if len(l.apiservers) == 0 {
		return nil, fmt.Errorf("the lab has no apiservers: set apiservers in its spec")
	}
	return nil, fmt.Errorf("site %q is unknown: use %s", site, strings.Join(l.spec.siteNames(), ", "))
}

// KubernetesPKI are the Kubernetes TLS files of a node; false when the lab has
// no apiservers or no such node.
func (l *Lab) KubernetesPKI(node string) (KubernetesPKI, bool) {
	files, ok := l.kubernetes[node]
	return files, ok
}

// URL is where the apiserver is reached from every node.
func (a *APIServer) URL() string { return "https://" + a.Address() }

// Address is host and port of URL.
func (a *APIServer) Address() string {
	return netip.AddrPortFrom(a.node.ip4, APIServerPort).String()
}

// PKI are the Kubernetes TLS files of the apiserver's node.
func (a *APIServer) PKI() KubernetesPKI { return a.files }

// Member is the etcd member that the apiserver stores in.
func (a *APIServer) Member() *Member { return a.member }

// Start starts the apiserver unless it runs, and returns when it is ready.
func (a *APIServer) Start(ctx context.Context) error {
	if err := a.Launch(ctx); err != nil {
		return err
	}
	return a.Wait(ctx)
}

// Wait returns when the running apiserver is ready, or has ended.
func (a *APIServer) Wait(ctx context.Context) error {
	return a.await(ctx, "apiserver", func() error { return a.Ready(ctx) })
}

// shutdownGrace is how long an apiserver may take to stop: it lets requests
// under way end, and 60 s pass before it gives a stuck one up.
const shutdownGrace = 15 * time.Second

// Stop ends the apiserver in order.
func (a *APIServer) Stop(ctx context.Context) error { return a.end(ctx, shutdownGrace) }

// Kill ends the apiserver at once, as a power failure does.
func (a *APIServer) Kill(ctx context.Context) error { return a.end(ctx, 0) }

// readyPatience bounds one question for readiness. An apiserver without its
// etcd answers after 2 to 4 s.
const readyPatience = 5 * time.Second

// Ready asks /readyz as the administrator; nil says that it answered 200, any
// other error what it answered instead.
func (a *APIServer) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	code, body, err := a.Request(ctx, http.MethodGet, "/readyz", "", nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("apiserver %s answers %d: %s", a.node.name, code, failedChecks(body))
	}
	return err
}

// failedChecks is what /readyz says of the checks that failed.
func failedChecks(body []byte) string {
	var failed []string
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, "[-]"); ok {
			failed = append(failed, strings.TrimSpace(rest))
		}
	}
	if len(failed) == 0 {
		return strings.Join(strings.Fields(string(body)), " ")
	}
	return strings.Join(failed, "; ")
}

// Request sends one request as the administrator, from inside the node so that
// no cut gets in the way, over a connection that is kept. It returns the
// status and the body; path carries the query.
func (a *APIServer) Request(ctx context.Context, method, path, contentType string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.URL()+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("ask apiserver %s: %w", a.node.name, err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("ask apiserver %s: %w", a.node.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("read answer of apiserver %s: %w", a.node.name, err)
	}
	return resp.StatusCode, answer, nil
}

// newClient speaks HTTP/1.1, in which a request that times out takes only its
// own connection with it: the apiserver may be frozen and come back.
func (a *APIServer) newClient() (*http.Client, error) {
	conf, err := a.TLS(a.files.AdminCert, a.files.AdminKey)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{
		DialContext:     a.node.DialContext,
		TLSClientConfig: conf,
		TLSNextProto:    map[string]func(string, *tls.Conn) http.RoundTripper{},
	}}, nil
}

// TLS is a client configuration with the given certificate, such as those of
// PKI.
func (a *APIServer) TLS(certFile, keyFile string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load client certificate: %w", err)
	}
	ca, err := os.ReadFile(a.files.CA)
	if err != nil {
		return nil, fmt.Errorf("load authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

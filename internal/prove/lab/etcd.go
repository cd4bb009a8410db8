package lab

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/disk"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
)

// peers are the etcd versions that test/peers builds, newest first.
var peers = []string{"3.7", "3.6", "3.5"}

// PKI are the paths of a member's TLS files, named as kubeadm names them.
type PKI = pki.Files

// cluster is an etcd cluster with a member per site.
type cluster struct {
	Cluster
	members []*Member
}

// Member is an etcd member on the first node of a site.
type Member struct {
	program
	cluster *cluster
	files   PKI
	// elsewhere says that somebody else runs the member; see RunElsewhere.
	elsewhere atomic.Bool
	// disk is the member's, nil unless it can be slow.
	disk *disk.Disk

	clientMu sync.Mutex
	client   *clientv3.Client
}

func (l *Lab) buildClusters() error {
	if len(l.spec.Etcd) == 0 {
		return nil
	}
	start, err := etcdProgram(l.spec.Peer)
	if err != nil {
		return err
	}
	for _, c := range l.spec.Etcd {
		dir := filepath.Join(l.dir, "pki", c.Name)
		ca, err := pki.NewAuthority(dir, "etcd-ca "+c.Name, time.Now())
		if err != nil {
			return err
		}
		cl := &cluster{Cluster: c}
		l.clusters = append(l.clusters, cl)
		for _, s := range l.plan.sites {
			if len(c.Sites) > 0 && !slices.Contains(c.Sites, s.Name) {
				continue
			}
			n, err := l.Node(s.nodes[0].name)
			if err != nil {
				return err
			}
			files, err := ca.Issue(filepath.Join(dir, n.name), n.name, n.ip4, n.ip6)
			if err != nil {
				return err
			}
			name := "etcd-" + c.Name + "-" + n.name
			m := &Member{cluster: cl, files: files, program: program{node: n, name: name}}
			cl.members = append(cl.members, m)
			if err := m.watchDisk(); err != nil {
				return err
			}
		}
		for _, m := range cl.members {
			m.argv = append(slices.Clone(start), m.flags(m.DataDir())...)
		}
	}
	return nil
}

// etcdProgram finds the etcd to run and returns the start of its command line.
func etcdProgram(version string) ([]string, error) {
	if version == "" {
		if self, err := os.Executable(); err == nil {
			beside := filepath.Join(filepath.Dir(self), "holdfastd")
			if _, err := os.Stat(beside); err == nil {
				return []string{beside, "etcd"}, nil
			}
		}
	}
	dir, err := peerDir()
	if err != nil {
		return nil, err
	}
	for _, v := range peers {
		if version != "" && v != version {
			continue
		}
		path := filepath.Join(dir, "etcd-"+v)
		if _, err := os.Stat(path); err == nil {
			return []string{path}, nil
		}
	}
	return nil, fmt.Errorf("no etcd %s found beside this program or in %s: run `make build`", version, dir)
}

// peerDir is where scripts/peers keeps the real peers.
func peerDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cached peers: %w", err)
	}
	return filepath.Join(cache, "holdfast", "peers"), nil
}

// flags is the command line of the member, as kubeadm writes it.
func (m *Member) flags(data string) []string {
	c, ip := m.cluster, m.node.ip4
	client := func(ip string) string { return "https://" + net.JoinHostPort(ip, fmt.Sprint(c.ClientPort)) }
	var initial []string
	for _, p := range c.members {
		initial = append(initial, p.node.name+"="+p.PeerURL())
	}
	f := []string{
		"--name=" + m.node.name,
		"--data-dir=" + data,
		"--listen-client-urls=" + strings.Join([]string{client("127.0.0.1"), client("::1"), client(ip.String()), client(m.node.ip6.String())}, ","),
		"--advertise-client-urls=" + m.ClientURL(),
		"--listen-peer-urls=" + m.PeerURL(),
		"--initial-advertise-peer-urls=" + m.PeerURL(),
		"--initial-cluster=" + strings.Join(initial, ","),
		"--initial-cluster-token=" + c.Name,
		"--initial-cluster-state=new",
		"--client-cert-auth=true",
		"--trusted-ca-file=" + m.files.CA,
		"--cert-file=" + m.files.ServerCert,
		"--key-file=" + m.files.ServerKey,
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + m.files.CA,
		"--peer-cert-file=" + m.files.PeerCert,
		"--peer-key-file=" + m.files.PeerKey,
		fmt.Sprintf("--listen-metrics-urls=http://127.0.0.1:%d", c.MetricsPort()),
	}
	if c.Heartbeat > 0 {
		f = append(f, fmt.Sprintf("--heartbeat-interval=%d", c.Heartbeat.Milliseconds()))
	}
	if c.Election > 0 {
		f = append(f, fmt.Sprintf("--election-timeout=%d", c.Election.Milliseconds()))
	}
	return f
}

// StartEtcd starts the members of every cluster and returns when each knows a
// leader.
func (l *Lab) StartEtcd(ctx context.Context) error { return l.StartClusters(ctx, l.Clusters()...) }

// StartClusters is StartEtcd for the named clusters alone.
func (l *Lab) StartClusters(ctx context.Context, names ...string) error {
	g, startCtx := errgroup.WithContext(ctx)
	for _, c := range l.clusters {
		if !slices.Contains(names, c.Name) {
			continue
		}
		for _, m := range c.members {
			g.Go(func() error { return m.Start(startCtx) })
		}
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	l.noteVersion(ctx)
	l.log.Info("etcd is up", "lab", l.spec.Name, "clusters", len(l.clusters))
	return nil
}

// noteVersion asks for the version that reports name. A member too busy to say
// is no reason to fail.
func (l *Lab) noteVersion(ctx context.Context) {
	for _, c := range l.clusters {
		if st, err := c.members[0].Status(ctx); err == nil {
			l.mu.Lock()
			l.version = st.Version
			l.mu.Unlock()
			return
		}
	}
}

// Clusters lists the names of the etcd clusters.
func (l *Lab) Clusters() []string {
	var names []string
	for _, c := range l.clusters {
		names = append(names, c.Name)
	}
	return names
}

// Members lists the members of a cluster, site by site; cluster "" is the
// first.
func (l *Lab) Members(cluster string) ([]*Member, error) {
	for _, c := range l.clusters {
		if c.Name == cluster || cluster == "" {
			return slices.Clone(c.members), nil
		}
	}
	return nil, fmt.Errorf("etcd cluster %q is unknown: use %s", cluster, cmp.Or(strings.Join(l.Clusters(), ", "), "a spec with etcd clusters"))
}

// Member finds the member of a cluster in a site.
func (l *Lab) Member(cluster, site string) (*Member, error) {
	members, err := l.Members(cluster)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.node.site == site {
			return m, nil
		}
	}
	return nil, fmt.Errorf("site %q is unknown: use %s", site, strings.Join(l.spec.siteNames(), ", "))
}

// Cluster is the cluster the member belongs to.
func (m *Member) Cluster() Cluster { return m.cluster.Cluster }

// ClientURL and PeerURL are what the member advertises.
func (m *Member) ClientURL() string { return m.url(m.cluster.ClientPort) }
func (m *Member) PeerURL() string   { return m.url(m.cluster.PeerPort) }

func (m *Member) url(port int) string {
	return "https://" + netip.AddrPortFrom(m.node.ip4, uint16(port)).String()
}

// PKI are the member's TLS files.
func (m *Member) PKI() PKI { return m.files }

// RunElsewhere tells the lab that not it but a program that a caller spawns runs the
// member, by the command line of Argv. The member is asked all the same.
func (m *Member) RunElsewhere() { m.elsewhere.Store(true) }

// DataDir is where the member keeps its data.
func (m *Member) DataDir() string { return filepath.Join(m.node.lab.data, m.cluster.Name, m.node.name) }

// Start starts the member unless it runs, and returns when it knows a leader.
func (m *Member) Start(ctx context.Context) error {
	if err := m.Launch(ctx); err != nil {
		return err
	}
	return m.Wait(ctx)
}

// Wait returns when the running member knows a leader, or has ended.
func (m *Member) Wait(ctx context.Context) error {
	return m.await(ctx, "member", func() error {
		st, err := m.Status(ctx)
		if err == nil && st.Leader == 0 {
			err = errors.New("it has no leader")
		}
		return err
	})
}

// stopGrace is how long a member may take to stop: etcd gives a leader that
// hands over up to an election timeout and its requests 5 s.
const stopGrace = 10 * time.Second

// Stop ends the member in order. A leader hands its role over before.
func (m *Member) Stop(ctx context.Context) error { return m.end(ctx, stopGrace) }

// Kill ends the member at once, as a power failure does.
func (m *Member) Kill(ctx context.Context) error { return m.end(ctx, 0) }

// Client is a client of this member alone, dialling inside its node, so that
// no cut gets in the way. It belongs to the lab.
func (m *Member) Client() (*clientv3.Client, error) {
	m.clientMu.Lock()
	defer m.clientMu.Unlock()
	if m.client != nil {
		return m.client, nil
	}
	conf, err := m.TLS()
	if err != nil {
		return nil, err
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{m.ClientURL()},
		TLS:       conf,
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				return m.node.DialContext(ctx, "tcp", addr)
			}),
			// A member that was killed is back within seconds; grpc would
			// wait for up to two minutes.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, MaxDelay: 500 * time.Millisecond},
				MinConnectTimeout: time.Second,
			}),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make client of %s: %w", m.node.name, err)
	}
	m.client = c
	return c, nil
}

// TLS is a client configuration with the member's client certificate.
func (m *Member) TLS() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(m.files.ClientCert, m.files.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("load client certificate: %w", err)
	}
	ca, err := os.ReadFile(m.files.CA)
	if err != nil {
		return nil, fmt.Errorf("load authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

func (c *cluster) close() {
	for _, m := range c.members {
		m.closeDisk()
		m.clientMu.Lock()
		if m.client != nil {
			_ = m.client.Close()
		}
		m.clientMu.Unlock()
	}
}

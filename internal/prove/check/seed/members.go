package seed

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
)

// members are an etcd cluster on the stand that is as an example wants it.
type members struct {
	l      *Lab
	files  pki.Files
	data   string
	urls   []string
	client *clientv3.Client
	all    []*lab.Child
}

// etcdPort is the first of three for each member; the lab's own has 2379.
const etcdPort = 12379

// members starts a cluster and makes it what the example says. What is to be ended is
// returned with an error, too.
func (l *Lab) members(ctx context.Context, want []fact.EtcdMember, dir string) (*members, error) {
	m := &members{l: l}
	program, err := lab.FindPeer("etcd-3.6")
	if err != nil {
		return m, err
	}
	authority, err := pki.NewAuthority(filepath.Join(dir, "etcd"), "etcd", time.Now())
	if err != nil {
		return m, err
	}
	if m.files, err = authority.Issue(filepath.Join(dir, "etcd", "member"), "member", netip.MustParseAddr("127.0.0.1")); err != nil {
		return m, err
	}
	// The disk of a busy machine is slow; memory is not, unless a member is to be.
	if m.data, err = os.MkdirTemp("/dev/shm", "holdfast-seed-"); err != nil {
		return m, fmt.Errorf("make data directory: %w", err)
	}
	var cluster []string
	for i, w := range want {
		m.urls = append(m.urls, fmt.Sprintf("https://127.0.0.1:%d", etcdPort+3*i))
		cluster = append(cluster, fmt.Sprintf("%s=http://127.0.0.1:%d", w.Name, etcdPort+3*i+1))
	}
	for i, w := range want {
		if err := m.start(ctx, append(slow(w.FsyncP99), m.argv(program, w.Name, i, cluster)...)); err != nil {
			return m, err
		}
	}
	if err := m.connect(); err != nil {
		return m, err
	}
	return m, m.make(ctx, want)
}

func (m *members) argv(program, name string, i int, cluster []string) []string {
	peer := fmt.Sprintf("http://127.0.0.1:%d", etcdPort+3*i+1)
	return []string{
		program, "--name", name, "--data-dir", filepath.Join(m.data, name), "--log-level", "error",
		"--listen-client-urls", m.urls[i], "--advertise-client-urls", m.urls[i],
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(cluster, ","),
		"--client-cert-auth", "--trusted-ca-file", m.files.CA, "--cert-file", m.files.ServerCert, "--key-file", m.files.ServerKey,
		"--quota-backend-bytes", fmt.Sprint(quota),
	}
}

// slow is the start of a command line under which each write to the disk takes as
// long as it is to; none for a disk that is in order.
func slow(p99 time.Duration) []string {
	if p99 < 10*time.Millisecond {
		return nil
	}
	return []string{"strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", fmt.Sprintf("inject=fdatasync:delay_enter=%d", p99.Microseconds())}
}

func (m *members) start(ctx context.Context, argv []string) error {
	if _, err := exec.LookPath(argv[0]); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	child, err := m.l.stand.Spawn(ctx, lab.Process{Name: fmt.Sprintf("member-%d", len(m.all)), Argv: argv})
	if err != nil {
		return err
	}
	m.all = append(m.all, child)
	return nil
}

func (m *members) tls() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(m.files.ClientCert, m.files.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	authority, err := newSigner(m.files.CA, filepath.Join(filepath.Dir(m.files.Dir), "ca.key"))
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authority.pool()}, nil
}

func (m *members) connect() error {
	credentials, err := m.tls()
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		return m.l.stand.DialContext(ctx, "tcp", addr)
	}
	m.client, err = clientv3.New(clientv3.Config{
		Endpoints: m.urls[:1], TLS: credentials, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)},
	})
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	return nil
}

// make waits for the cluster and makes its members what they are to be: slow, full or
// dead.
func (m *members) make(ctx context.Context, want []fact.EtcdMember) error {
	value := "x"
	if want[0].DBBytes > 1<<30 {
		value = strings.Repeat("x", 1<<18)
	}
	n := 0
	put := func() error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := m.client.Put(ctx, fmt.Sprint("seed/", n), value)
		n++
		return err
	}
	if err := await(ctx, put); err != nil {
		return fmt.Errorf("await etcd: %w", err)
	}
	if len(value) > 1 {
		if err := m.fill(ctx, put); err != nil {
			return err
		}
	}
	if want[0].FsyncP99 > 0 {
		if err := m.writeOften(ctx, put); err != nil {
			return err
		}
	}
	for i, w := range want {
		if !w.Healthy {
			if err := m.all[i].Stop(ctx, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill writes until the database has grown to where check calls it nearly full.
func (m *members) fill(ctx context.Context, put func() error) error {
	for {
		status, err := m.client.Status(ctx, m.urls[0])
		if err != nil {
			return fmt.Errorf("ask for size of etcd: %w", err)
		}
		if status.DbSize > quota/100*82 {
			return nil
		}
		if err := put(); err != nil {
			return fmt.Errorf("fill etcd: %w", err)
		}
	}
}

// enough is how many writes to the disk a member is to have counted, which check wants
// before it believes in a quantile.
const enough = 120

// writeOften writes until every member has.
func (m *members) writeOften(ctx context.Context, put func() error) error {
	credentials, err := m.tls()
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: credentials, DialContext: m.l.stand.DialContext}}
	defer client.CloseIdleConnections()
	return await(ctx, func() error {
		for range 40 {
			if err := put(); err != nil {
				return err
			}
		}
		for _, url := range m.urls {
			n, err := writes(ctx, client, url)
			if err != nil {
				return err
			}
			if n < enough {
				return fmt.Errorf("%s has counted %d writes", url, n)
			}
		}
		return nil
	})
}

// writes is how many writes to its disk a member has counted.
func writes(ctx context.Context, client *http.Client, url string) (n int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "etcd_disk_wal_fsync_duration_seconds_count "); ok {
			_, err = fmt.Sscan(rest, &n)
			return n, err
		}
	}
	return 0, errors.New("no count of writes among the metrics")
}

// flags lead an audit to the members, by the first that lives.
func (m *members) flags() []string {
	living := slices.IndexFunc(m.all, func(c *lab.Child) bool {
		select {
		case <-c.Done():
			return false
		default:
			return true
		}
	})
	return []string{
		"--etcd-endpoints", m.urls[max(living, 0)], "--etcd-cacert", m.files.CA, "--etcd-cert", m.files.ClientCert, "--etcd-key", m.files.ClientKey,
	}
}

func (m *members) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	if m.client != nil {
		errs = append(errs, m.client.Close())
	}
	for _, child := range m.all {
		errs = append(errs, child.Stop(ctx, 0))
	}
	if m.data != "" {
		errs = append(errs, os.RemoveAll(m.data))
	}
	return errors.Join(errs...)
}

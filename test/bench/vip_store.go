package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// store is what elections by lease rest on: a real kube-apiserver with a real
// etcd, on the last station.
type store struct {
	station         *segment.Station
	etcd, apiserver *child
	files           pki.Kubernetes
	client          *clientv3.Client
	http            *http.Client
}

const (
	storeVersion = "1.35"
	leaseSpace   = "kube-system"
)

func (s *store) url() string { return fmt.Sprintf("https://%s:6443", s.station.Four) }

// needStore starts it.
func (a *arena) needStore(ctx context.Context) error {
	i := a.machines + 2
	s := &store{station: a.segment.Station(i)}
	a.store = s
	if err := s.certify(a.path("pki")); err != nil {
		return err
	}
	program, err := peer("etcd-3.6")
	if err != nil {
		return err
	}
	client := fmt.Sprintf("http://%s:2379", s.station.Four)
	s.etcd, err = a.launch(i, "etcd", program, "--data-dir", a.path("etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", "http://127.0.0.1:2380", "--log-level", "error")
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = s.station.Do(func() error {
			c, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
	s.client, err = clientv3.New(clientv3.Config{Endpoints: []string{client}, DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }),
	}})
	if err != nil {
		return err
	}
	if s.apiserver, err = s.start(a, i, client); err != nil {
		return err
	}
	if err := s.connect(dial); err != nil {
		return err
	}
	return s.await(ctx)
}

func (s *store) certify(dir string) error {
	ca, err := pki.NewAuthority(dir, "kubernetes", time.Now())
	if err != nil {
		return err
	}
	if err := pki.MakeServiceAccountKey(dir); err != nil {
		return err
	}
	if err := pki.MakeFrontProxy(dir, time.Now()); err != nil {
		return err
	}
	s.files, err = ca.IssueKubernetes(dir, filepath.Join(dir, "store"), pki.Node{Name: "store", Server: s.url(), IPs: []netip.Addr{s.station.Four}})
	return err
}

// start runs the apiserver as the lab does.
func (s *store) start(a *arena, i int, etcd string) (*child, error) {
	program, err := peer("kube-apiserver-" + storeVersion)
	if err != nil {
		return nil, err
	}
	return a.launch(i, "apiserver", program, "--advertise-address="+s.station.Four.String(), "--secure-port=6443",
		"--authorization-mode=Node,RBAC", "--endpoint-reconciler-type=none", "--etcd-servers="+etcd,
		"--client-ca-file="+s.files.CA, "--tls-cert-file="+s.files.ServerCert, "--tls-private-key-file="+s.files.ServerKey,
		"--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+s.files.ServiceAccountPub, "--service-account-signing-key-file="+s.files.ServiceAccountKey,
		"--disable-admission-plugins=ServiceAccount", "--profiling=false",
		"--etcd-count-metric-poll-period=0", "--etcd-db-metric-poll-interval=0")
}

func (s *store) connect(dial func(context.Context, string, string) (net.Conn, error)) error {
	pair, err := tls.LoadX509KeyPair(s.files.AdminCert, s.files.AdminKey)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(s.files.CA)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	s.http = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12},
	}}
	return nil
}

// await returns when the apiserver is ready.
func (s *store) await(ctx context.Context) error {
	return until(ctx, 2*time.Minute, "kube-apiserver is ready", func() (bool, error) {
		if s.apiserver.gone() || s.etcd.gone() {
			return false, fmt.Errorf("it has ended: %s %s", s.apiserver.tail(), s.etcd.tail())
		}
		r, err := s.http.Get(s.url() + "/readyz")
		if err != nil {
			pause(ctx, 200*time.Millisecond)
			return false, nil
		}
		_ = r.Body.Close()
		return r.StatusCode == http.StatusOK, nil
	})
}

// written counts the writes of a Lease so far.
func (s *store) written(ctx context.Context, lease string) (int64, error) {
	got, err := s.client.Get(ctx, "/registry/leases/"+leaseSpace+"/"+lease)
	if err == nil && len(got.Kvs) != 1 {
		err = errors.New("it is not there")
	}
	if err != nil {
		return 0, fmt.Errorf("read Lease %s: %w", lease, err)
	}
	return got.Kvs[0].Version, nil
}

// freeze stops everything that decides, or lets it run again.
func (s *store) freeze(on bool) error {
	sig := syscall.SIGCONT
	if on {
		sig = syscall.SIGSTOP
	}
	return errors.Join(s.apiserver.signal(sig), s.etcd.signal(sig))
}

func (s *store) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	s.apiserver.kill()
	s.etcd.kill()
}

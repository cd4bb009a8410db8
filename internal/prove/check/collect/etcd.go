package collect

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// EtcdAccess is how etcd's members are asked.
type EtcdAccess struct {
	// Endpoints are URLs of client ports. One that answers is enough: it tells of the
	// others.
	Endpoints []string
	// CAFile, CertFile and KeyFile are PEM files; all "" for etcd without TLS.
	CAFile, CertFile, KeyFile string
}

// etcdAtHand are the credentials that machines with a member keep, below their root:
// kubeadm's, which are made for asking whether a member is well, RKE2's and k3s's.
var etcdAtHand = []EtcdAccess{
	{CAFile: "etc/kubernetes/pki/etcd/ca.crt", CertFile: "etc/kubernetes/pki/etcd/healthcheck-client.crt", KeyFile: "etc/kubernetes/pki/etcd/healthcheck-client.key"},
	{CAFile: "var/lib/rancher/rke2/server/tls/etcd/server-ca.crt", CertFile: "var/lib/rancher/rke2/server/tls/etcd/client.crt", KeyFile: "var/lib/rancher/rke2/server/tls/etcd/client.key"},
	{CAFile: "var/lib/rancher/k3s/server/tls/etcd/server-ca.crt", CertFile: "var/lib/rancher/k3s/server/tls/etcd/client.crt", KeyFile: "var/lib/rancher/k3s/server/tls/etcd/client.key"},
}

// EtcdAt is the access that a machine has whose file system begins at root; ok says
// that it has one.
func EtcdAt(root string) (a EtcdAccess, ok bool) {
	for _, a := range etcdAtHand {
		a.CAFile, a.CertFile, a.KeyFile = filepath.Join(root, a.CAFile), filepath.Join(root, a.CertFile), filepath.Join(root, a.KeyFile)
		if _, err := os.Stat(a.KeyFile); err == nil {
			a.Endpoints = []string{"https://127.0.0.1:2379"}
			return a, true
		}
	}
	return EtcdAccess{}, false
}

// Bounds of one member's answers, and of its metrics.
const (
	etcdTimeout = 3 * time.Second
	etcdMetrics = 16 << 20
)

// Etcd asks the members for their status and hands it to sink as etcd.yaml. A member
// that does not answer is told of as unhealthy; the state is unknown where not even
// the list of members could be had. It writes nothing to etcd. An error is sink's.
func Etcd(ctx context.Context, a EtcdAccess, sink Sink) (source.Stated, error) {
	members, err := askEtcd(ctx, a)
	if err != nil {
		return source.Stated{State: fact.Unknown.String(), Why: err.Error()}, nil
	}
	data, err := json.Marshal(map[string]any{"members": members})
	if err != nil {
		return source.Stated{}, fmt.Errorf("write status of etcd: %w", err)
	}
	return source.Stated{State: fact.Present.String()}, sink.File("etcd.yaml", data)
}

func askEtcd(ctx context.Context, a EtcdAccess) ([]fact.EtcdMember, error) {
	credentials, err := a.tls()
	if err != nil {
		return nil, err
	}
	client, err := dialEtcd(credentials, a.Endpoints...)
	if err != nil {
		return nil, err
	}
	defer client.Close() //nolint:errcheck // only read
	ctx, cancel := context.WithTimeout(ctx, 2*etcdTimeout)
	defer cancel()
	// Serializable: a member without a quorum tells of the others too.
	list, err := client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, fmt.Errorf("list members of etcd at %v: %w", a.Endpoints, err)
	}
	all := make([]fact.EtcdMember, len(list.Members))
	var wg sync.WaitGroup
	for i, m := range list.Members {
		all[i] = fact.EtcdMember{Name: m.Name, ID: fmt.Sprintf("%x", m.ID), PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner}
		wg.Go(func() { askMember(ctx, credentials, m.ID, &all[i]) })
	}
	wg.Wait()
	return all, alarmsOf(ctx, client, all)
}

// tls reads the credentials; nil where there are none.
func (a EtcdAccess) tls() (*tls.Config, error) {
	if a.CAFile == "" && a.CertFile == "" {
		return nil, nil
	}
	c, err := transport.TLSInfo{TrustedCAFile: a.CAFile, CertFile: a.CertFile, KeyFile: a.KeyFile}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read credentials for etcd: %w", err)
	}
	return c, nil
}

func dialEtcd(credentials *tls.Config, endpoints ...string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: credentials, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd %v: %w", endpoints, err)
	}
	return c, nil
}

// alarmsOf adds the alarms, which every member tells of all. One that cannot is not
// well, which is said already.
func alarmsOf(ctx context.Context, client *clientv3.Client, all []fact.EtcdMember) error {
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		if slices.ContainsFunc(all, func(m fact.EtcdMember) bool { return !m.Healthy }) {
			return nil
		}
		return fmt.Errorf("list alarms of etcd: %w", err)
	}
	for _, alarm := range alarms.Alarms {
		for i := range all {
			if all[i].ID == fmt.Sprintf("%x", alarm.MemberID) {
				all[i].Alarms = append(all[i].Alarms, alarm.Alarm.String())
			}
		}
	}
	return nil
}

var errOther = errors.New("another member answers there")

// askMember fills in what one member says of itself, by its own client URLs.
func askMember(ctx context.Context, credentials *tls.Config, id uint64, m *fact.EtcdMember) {
	if len(m.ClientURLs) == 0 {
		m.Error = "it has no client URL: it was added and never started"
		return
	}
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	client, err := dialEtcd(credentials, m.ClientURLs...)
	if err != nil {
		m.Error = err.Error()
		return
	}
	defer client.Close() //nolint:errcheck // only read
	status, err := client.Status(ctx, m.ClientURLs[0])
	if err == nil && status.Header.MemberId != id {
		err = errOther
	}
	if err != nil {
		m.Error = err.Error()
		return
	}
	m.Version, m.DBBytes, m.Leader = status.Version, status.DbSize, status.Leader == id
	m.FsyncP99 = fsyncOf(ctx, credentials, m.ClientURLs[0])
	// As etcdctl endpoint health: a linearizable read, and being refused it is an answer.
	if _, err := client.Get(ctx, "health"); err != nil && !errors.Is(err, rpctypes.ErrPermissionDenied) && !m.Learner {
		m.Error = err.Error()
		return
	}
	m.Healthy = true
}

// fsyncOf asks a member's metrics; 0 where it has none or none yet.
func fsyncOf(ctx context.Context, credentials *tls.Config, url string) time.Duration {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: credentials, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0
	}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode != http.StatusOK {
		return 0
	}
	return quantile(http.MaxBytesReader(nil, response.Body, etcdMetrics), "etcd_disk_wal_fsync_duration_seconds", 0.99)
}

package robustness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"go.etcd.io/etcd/tests/v3/robustness/client"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"
)

// profile: sixteen writers, half of them at one member and half with both as
// endpoints, and watchers. More requests per second would say no more, and
// what is recorded has to be judged.
var profile = traffic.Profile{
	KeyValue: &traffic.KeyValue{
		MaximalQPS:                     200,
		BurstableQPS:                   200,
		MemberClientCount:              8,
		ClusterClientCount:             8,
		MaxNonUniqueRequestConcurrency: 3,
	},
	Watch: &traffic.Watch{
		MemberClientCount:   2,
		ClusterClientCount:  1,
		RevisionOffsetRange: traffic.Range{Min: -100, Max: 100},
	},
}

// load is etcd's traffic through both members, and what it has seen.
type load struct {
	began     time.Time
	set       *client.ClientSet
	endpoints []string
	finish    chan struct{}
	stop      context.CancelFunc
	clients   sync.WaitGroup

	last     chan int64 // the revision that collectors have to reach
	observed chan error
	watchers *client.ClientSet
}

// drive starts it on a cluster that has no key yet.
func drive(t *testing.T, a, b *site) *load {
	t.Helper()
	l := &load{
		began: time.Now(), endpoints: []string{a.clientURL(), b.clientURL()},
		finish: make(chan struct{}), last: make(chan int64, 1), observed: make(chan error, 1),
	}
	ids := identity.NewIDProvider()
	l.set, l.watchers = client.NewSet(ids, l.began), client.NewSet(ids, l.began)
	ctx, cancel := context.WithCancel(t.Context())
	l.stop = cancel
	t.Cleanup(l.abandon)
	lg := zap.NewNop()
	if err := traffic.CheckEmptyDatabaseAtStart(ctx, lg, l.endpoints, l.set); err != nil {
		t.Fatal(err)
	}
	limiter := rate.NewLimiter(rate.Limit(profile.KeyValue.MaximalQPS), profile.KeyValue.BurstableQPS)
	keys := traffic.NewKeyStore(10, "key")
	err := traffic.SimulateKeyValueTraffic(ctx, &l.clients, profile.KeyValue, l.endpoints, l.set, traffic.EtcdPutDeleteLease, traffic.RunTrafficLoopParam{
		QPSLimiter: limiter, IDs: ids, LeaseIDStorage: identity.NewLeaseIDStorage(),
		NonUniqueRequestConcurrencyLimiter: traffic.NewConcurrencyLimiter(profile.KeyValue.MaxNonUniqueRequestConcurrency),
		KeyStore:                           keys, Storage: traffic.NewKubernetesStorage(), Finish: l.finish,
	})
	if err == nil {
		err = traffic.SimulateWatchTraffic(ctx, &l.clients, profile.Watch, l.endpoints, l.set, traffic.EtcdPutDeleteLease, traffic.RunWatchLoopParam{
			Config: *profile.Watch, QPSLimiter: limiter, KeyStore: keys, Storage: traffic.NewKubernetesStorage(), Finish: l.finish, Logger: lg,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { l.observed <- l.observe(ctx) }()
	return l
}

// observe watches every key at both members, from the first revision to the last.
func (l *load) observe(ctx context.Context) error {
	var each sync.WaitGroup
	errs := make([]error, len(l.endpoints))
	ends := make([]chan int64, len(l.endpoints))
	for i, endpoint := range l.endpoints {
		ends[i] = make(chan int64, 1)
		each.Go(func() {
			errs[i] = client.CollectClusterWatchEvents(ctx, client.CollectClusterWatchEventsParam{
				Lg: zap.NewNop(), Endpoints: []string{endpoint}, MaxRevisionChan: ends[i], ClientSet: l.watchers,
			})
		})
	}
	select {
	case last := <-l.last:
		for _, end := range ends {
			end <- last
		}
	case <-ctx.Done():
		for _, end := range ends {
			close(end)
		}
	}
	each.Wait()
	return errors.Join(errs...)
}

// end stops the traffic on a healthy pair, waits until the watches at both members have seen all of
// it, and returns what was recorded.
func (l *load) end(t *testing.T) []report.ClientReport {
	t.Helper()
	close(l.finish)
	l.clients.Wait()
	last, err := l.tombstone(t)
	if err != nil {
		t.Fatal(err)
	}
	l.last <- last
	select {
	case err = <-l.observed:
	case <-time.After(30 * time.Second):
		err = errors.New("30 seconds later they have not seen all of it")
	}
	if err != nil {
		t.Errorf("watches at both members: %v", err)
	}
	l.stop()
	return slices.Concat(l.set.Reports(), l.watchers.Reports())
}

// tombstone is the last write, which etcd's validation requires to succeed.
func (l *load) tombstone(t *testing.T) (int64, error) {
	c, err := l.set.NewClient(l.endpoints)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	put, err := c.Put(ctx, "tombstone", "true")
	if err != nil {
		return 0, fmt.Errorf("write at the end: %w", err)
	}
	return put.Header.Revision, nil
}

// abandon ends what a failed test has left running.
func (l *load) abandon() {
	l.stop()
	l.set.Close()
	l.watchers.Close()
	l.clients.Wait()
}

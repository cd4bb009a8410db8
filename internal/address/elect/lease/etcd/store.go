package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
)

// Store is a lease.Store.
type Store struct {
	// Client is that of the caller, who closes it. It should have DialKeepAliveTime
	// and DialKeepAliveTimeout of a few seconds: a watch on a connection whose other
	// end is gone tells nothing, and the record is read every second instead.
	Client *clientv3.Client
	// Key is where the record is, such as "/holdfast/address/10.0.0.10".
	Key string
}

var _ lease.Store = (*Store)(nil)

// Read gets the key.
func (s *Store) Read(ctx context.Context) (lease.Seen, error) {
	answer, err := s.Client.Get(ctx, s.Key)
	if err != nil {
		return lease.Seen{}, fmt.Errorf("read key %s: %w", s.Key, err)
	}
	for _, kv := range answer.Kvs {
		return seenIn(kv.Value, kv.ModRevision), nil
	}
	return lease.Seen{}, nil
}

// Write puts the key if it still has that revision.
func (s *Store) Write(ctx context.Context, record lease.Record, version uint64) (lease.Seen, error) {
	data, err := record.Encode()
	if err != nil {
		return lease.Seen{}, fmt.Errorf("write key %s: %w", s.Key, err)
	}
	answer, err := s.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.Key), "=", int64(version))).
		Then(clientv3.OpPut(s.Key, string(data))).
		Commit()
	switch {
	case err != nil:
		return lease.Seen{}, fmt.Errorf("write key %s: %w", s.Key, err)
	case !answer.Succeeded:
		return lease.Seen{}, fmt.Errorf("write key %s: %w", s.Key, lease.ErrConflict)
	}
	return lease.Seen{Record: record, Version: uint64(answer.Header.Revision)}, nil
}

// Watch follows the key.
func (s *Store) Watch(ctx context.Context, tell func(lease.Seen)) {
	for ctx.Err() == nil {
		s.stream(ctx, tell)
		select {
		case <-time.After(100*time.Millisecond + rand.N(200*time.Millisecond)):
		case <-ctx.Done():
		}
	}
}

// readTimeout bounds the read that a watch begins with.
const readTimeout = 5 * time.Second

// stream watches until etcd ends it. It begins with what there is: a revision that
// was compacted cannot be watched from.
func (s *Store) stream(ctx context.Context, tell func(lease.Seen)) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	first, enough := context.WithTimeout(ctx, readTimeout)
	answer, err := s.Client.Get(first, s.Key, clientv3.WithSerializable())
	if enough(); err != nil {
		return
	}
	for _, kv := range answer.Kvs {
		tell(seenIn(kv.Value, kv.ModRevision))
	}
	for news := range s.Client.Watch(ctx, s.Key, clientv3.WithRev(answer.Header.Revision+1)) {
		for _, e := range news.Events {
			if e.Type == clientv3.EventTypeDelete {
				tell(lease.Seen{})
			} else {
				tell(seenIn(e.Kv.Value, e.Kv.ModRevision))
			}
		}
		if news.Err() != nil {
			return
		}
	}
}

func seenIn(value []byte, revision int64) lease.Seen {
	record, err := lease.Decode(value)
	if err != nil {
		return lease.Seen{Version: uint64(revision), Foreign: err.Error()}
	}
	return lease.Seen{Record: record, Version: uint64(revision)}
}

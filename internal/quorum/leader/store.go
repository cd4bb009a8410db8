package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

const (
	// rowTTL lets a dead agent's row vanish. A leader change resets every
	// lease to its full TTL, so readers judge by age, never by presence.
	rowTTL = 10
	// publishEvery is the interval at rest: one small write per member.
	publishEvery = 5 * time.Second
	// publishTimeout bounds one attempt through one member; then the next is
	// tried, for a member that lost its leader holds a write for seconds.
	publishTimeout = 700 * time.Millisecond
)

// store keeps rows and the last decision in the watched etcd itself, always
// through one member of the caller's choice.
type store struct {
	prefix string
	access etcd.Access
	log    *slog.Logger

	mu    sync.Mutex
	conns map[string]*etcd.Member // by client URL
	lease clientv3.LeaseID
}

func newStore(prefix string, access etcd.Access, log *slog.Logger) *store {
	return &store{prefix: prefix, access: access, log: log, conns: map[string]*etcd.Member{}}
}

func (s *store) rowKey(id MemberID) string { return s.prefix + "/members/" + id.String() }
func (s *store) decisionKey() string       { return s.prefix + "/decision" }

// member returns the kept connection to one client URL.
func (s *store) member(url string) (*etcd.Member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.conns[url]; ok {
		return m, nil
	}
	m, err := etcd.Dial(url, s.access)
	if err != nil {
		return nil, err
	}
	s.conns[url] = m
	return m, nil
}

// keep closes connections to URLs that no member has any more.
func (s *store) keep(urls map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for url, m := range s.conns {
		if !urls[url] {
			_ = m.Close()
			delete(s.conns, url)
		}
	}
}

func (s *store) close() { s.keep(nil) }

// put writes the row through the member at url.
func (s *store) put(ctx context.Context, url string, row Row) error {
	m, err := s.member(url)
	if err != nil {
		return err
	}
	value, err := encodeRow(row)
	if err != nil {
		return err
	}
	// Without a leader the member answers at once instead of holding the
	// write for its request timeout of 7 s.
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), publishTimeout)
	defer cancel()
	cli, err := m.Client(ctx)
	if err != nil {
		return fmt.Errorf("put row through %s: %w", url, m.Failed(err))
	}
	if err := s.ensureLease(ctx, cli); err != nil {
		return fmt.Errorf("lease row through %s: %w", url, m.Failed(err))
	}
	_, err = cli.Put(ctx, s.rowKey(row.Member), string(value), clientv3.WithLease(s.lease))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.lease = 0
	}
	if err != nil {
		return fmt.Errorf("put row through %s: %w", url, m.Failed(err))
	}
	return nil
}

// ensureLease renews the lease, or takes a new one when it has lapsed. A
// renewal is no raft write.
func (s *store) ensureLease(ctx context.Context, cli *clientv3.Client) error {
	if s.lease != 0 {
		_, err := cli.KeepAliveOnce(ctx, s.lease)
		if err == nil || !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return err
		}
	}
	grant, err := cli.Grant(ctx, rowTTL)
	if err != nil {
		return err
	}
	s.lease = grant.ID
	return nil
}

// decision reads the record of the last move through a quorum.
func (s *store) decision(ctx context.Context, url string) (Penalty, int64, error) {
	m, err := s.member(url)
	if err != nil {
		return Penalty{}, 0, err
	}
	cli, err := m.Client(ctx)
	if err != nil {
		return Penalty{}, 0, fmt.Errorf("read last decision: %w", m.Failed(err))
	}
	r, err := cli.Get(clientv3.WithRequireLeader(ctx), s.decisionKey())
	if err != nil {
		return Penalty{}, 0, fmt.Errorf("read last decision: %w", m.Failed(err))
	}
	if len(r.Kvs) == 0 {
		return Penalty{}, 0, nil
	}
	p, err := decodePenalty(r.Kvs[0].Value)
	if err != nil {
		err = fmt.Errorf("key %s: %w (%w)", s.decisionKey(), errNonsense, err)
	}
	return p, r.Kvs[0].ModRevision, err
}

// errNonsense says that the record of the last move was read, and that no
// agent wrote it so.
var errNonsense = errors.New("not a record of a move; the next move is damped as far as it can be, and replaces it")

// ErrOvertaken says that another agent recorded a decision first.
var errOvertaken = errors.New("another decision was recorded first")

// decide records p, unless somebody else recorded a decision since revision.
func (s *store) decide(ctx context.Context, url string, p Penalty, revision int64) (int64, error) {
	m, err := s.member(url)
	if err != nil {
		return 0, err
	}
	value, err := json.Marshal(wirePenalty(p))
	if err != nil {
		return 0, fmt.Errorf("encode decision: %w", err)
	}
	cli, err := m.Client(ctx)
	if err != nil {
		return 0, fmt.Errorf("record decision: %w", m.Failed(err))
	}
	r, err := cli.Txn(clientv3.WithRequireLeader(ctx)).
		If(clientv3.Compare(clientv3.ModRevision(s.decisionKey()), "=", revision)).
		Then(clientv3.OpPut(s.decisionKey(), string(value))).Commit()
	if err != nil {
		return 0, fmt.Errorf("record decision: %w", m.Failed(err))
	}
	if !r.Succeeded {
		return 0, errOvertaken
	}
	return r.Header.Revision, nil
}

func decodePenalty(b []byte) (Penalty, error) {
	var w wirePenalty
	if err := json.Unmarshal(b, &w); err != nil {
		return Penalty{}, fmt.Errorf("decode decision: %w", err)
	}
	if w.Seq > maxSeq {
		return Penalty{}, fmt.Errorf("decode decision: seq %d: no record could follow it", w.Seq)
	}
	return w.penalty(), nil
}

// follow hands rows and decisions to sink as they are written, reading from
// the member at url, until ctx ends or the watch breaks. Rows found at the
// start are handed over as stale, for nobody can say when they were written;
// then listed is called.
func (s *store) follow(ctx context.Context, url string, sink func(Row), decided func(Penalty), listed func()) error {
	m, err := s.member(url)
	if err != nil {
		return err
	}
	list, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	cli, err := m.Client(list)
	if err != nil {
		return fmt.Errorf("list rows: %w", m.Failed(err))
	}
	r, err := cli.Get(list, s.prefix+"/", clientv3.WithPrefix(), clientv3.WithSerializable())
	if err != nil {
		return fmt.Errorf("list rows: %w", m.Failed(err))
	}
	for _, kv := range r.Kvs {
		s.take(kv.Key, kv.Value, maxAge, sink, decided)
	}
	listed()
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	changes := cli.Watch(ctx, s.prefix+"/", clientv3.WithPrefix(), clientv3.WithRev(r.Header.Revision+1))
	for resp := range changes {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("watch rows: %w", err)
		}
		for _, ev := range resp.Events {
			if ev.Type == clientv3.EventTypePut {
				s.take(ev.Kv.Key, ev.Kv.Value, 0, sink, decided)
			}
		}
	}
	return ctx.Err()
}

// take decodes one key. What cannot be read is another agent's business (the
// prefix may be shared with the seed's agents): it makes nobody known.
func (s *store) take(key, value []byte, age time.Duration, sink func(Row), decided func(Penalty)) {
	switch {
	case strings.HasPrefix(string(key), s.prefix+"/members/"):
		row, err := decodeRow(value)
		if err == nil && string(key) != s.rowKey(row.Member) {
			err = fmt.Errorf("row of member %s under the key of another", row.Member)
		}
		if err != nil {
			s.log.Debug("row not understood", "key", string(key), keyError, err.Error())
			return
		}
		row.Age = age
		sink(row)
	case string(key) == s.decisionKey():
		if p, err := decodePenalty(value); err == nil {
			decided(p)
		}
	}
}

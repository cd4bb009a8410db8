package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// callTimeout bounds a call whose context has no deadline of its own. It is
// below etcd's smallest election timeout, so a hung member is noticed before
// its cluster has re-elected.
const callTimeout = time.Second

// Access is how a member's client port is reached.
type Access struct {
	TLS      creds.Files // zero for plain http
	Username string      // auth-enabled clusters only
	// PasswordFile holds the password of Username. It is read for every new
	// connection, so that a changed password needs no restart.
	PasswordFile string
}

// Member is a connection to the client port of one member.
type Member struct {
	Endpoint string // URL, as given
	access   Access
	host     string
	tls      *tls.Config // nil for plain http

	mu     sync.Mutex
	conn   *connection // nil before the first call, and after refused credentials
	closed bool

	diagnosing sync.Mutex
	diagnosed  time.Time
	cause      error // of the last failure, as diagnose found it
}

// Dial prepares a connection to the member at endpoint (an http or https
// URL). It does not wait for the member to answer: an unreachable member is
// an error of the later calls, because it is a condition that can pass.
func Dial(endpoint string, a Access) (*Member, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("endpoint %q: not a URL; write https://HOST:2379", endpoint)
	}
	m := &Member{Endpoint: endpoint, access: a, host: u.Host}
	if u.Scheme == "https" {
		if m.tls, err = a.TLS.Client(u.Hostname()); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Status is what a member says of itself.
type Status struct {
	Cluster, Member uint64
	Leader          uint64 // 0: its raft has no leader
	Term            uint64
	Index, Applied  uint64
	Learner         bool
	Version         string
	Alarms          []string // NOSPACE, CORRUPT, or other errors it reports
	// NoSpace says that some member has the alarm NOSPACE: then none takes writes.
	NoSpace bool
	// Raised are the alarms NOSPACE and CORRUPT of all members: while one of them stands,
	// no member takes writes.
	Raised []Alarm
}

// Alarm is what a member was found to have, by itself or by the leader.
type Alarm struct {
	Member uint64
	Name   string // NOSPACE or CORRUPT
}

// Status asks the member for its own view. It needs no quorum: a member that
// is cut off answers it in about a millisecond.
func (m *Member) Status(ctx context.Context) (Status, error) {
	ctx, cancel := bound(ctx)
	defer cancel()
	cli, err := m.Client(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("read status of %s: %w", m.Endpoint, m.diagnose(Explain(err)))
	}
	// The client's own Status dials anew on every call, a TLS handshake each.
	r, err := etcdserverpb.NewMaintenanceClient(cli.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return Status{}, fmt.Errorf("read status of %s: %w", m.Endpoint, m.diagnose(m.refused(Explain(err))))
	}
	s := Status{
		Cluster: r.Header.ClusterId, Member: r.Header.MemberId, Leader: r.Leader, Term: r.RaftTerm,
		Index: r.RaftIndex, Applied: r.RaftAppliedIndex, Learner: r.IsLearner, Version: r.Version,
	}
	for _, e := range r.Errors {
		if a := alarm(e, s.Member); a != "" {
			s.Alarms = append(s.Alarms, a)
		}
		if a, ok := raised(e); ok {
			s.Raised = append(s.Raised, a)
			s.NoSpace = s.NoSpace || a.Name == "NOSPACE"
		}
	}
	return s, nil
}

// alarm turns an entry of StatusResponse.Errors into the name of an alarm of
// this member. The list holds the alarms of all members, and "no leader", which
// Status.Leader says better. What is not understood is taken for an alarm.
func alarm(entry string, member uint64) string {
	if strings.Contains(entry, "no leader") {
		return ""
	}
	a, ok := raised(entry)
	switch {
	case !ok:
		return entry
	case a.Member != member:
		return ""
	}
	return a.Name
}

// raised reads an entry that is an alarm: "memberID:123 alarm:NOSPACE" with one space or
// two (etcd server/etcdserver/api/v3rpc/maintenance.go).
func raised(entry string) (Alarm, bool) {
	member, name, ok := strings.Cut(entry, "alarm:")
	number, named := strings.CutPrefix(strings.TrimSpace(member), "memberID:")
	id, err := strconv.ParseUint(number, 10, 64)
	if !ok || !named || err != nil {
		return Alarm{}, false
	}
	return Alarm{id, strings.TrimSpace(name)}, true
}

// Peer is a member as the cluster's membership lists it.
type Peer struct {
	ID         uint64
	Name       string // empty: added but never started
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
}

// Peers lists the membership as this member knows it, sorted by id. It is a
// serializable read: a linearizable one hangs on a member that is cut off.
func (m *Member) Peers(ctx context.Context) ([]Peer, error) {
	ctx, cancel := bound(ctx)
	defer cancel()
	cli, err := m.Client(ctx)
	if err != nil {
		return nil, fmt.Errorf("list members at %s: %w", m.Endpoint, Explain(err))
	}
	r, err := cli.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, fmt.Errorf("list members at %s: %w", m.Endpoint, Explain(err))
	}
	peers := make([]Peer, 0, len(r.Members))
	for _, e := range r.Members {
		peers = append(peers, Peer{ID: e.ID, Name: e.Name, PeerURLs: e.PeerURLs, ClientURLs: e.ClientURLs, Learner: e.IsLearner})
	}
	slices.SortFunc(peers, func(a, b Peer) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return peers, nil
}

// MoveLeader asks this member, which must be the leader, to hand leadership
// to target. The caller's context should carry a deadline; 5 s is imposed
// otherwise.
func (m *Member) MoveLeader(ctx context.Context, target uint64) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	cli, err := m.Client(ctx)
	if err == nil {
		_, err = cli.MoveLeader(ctx, target)
	}
	if err != nil {
		return fmt.Errorf("move leadership to %x: %w", target, Explain(err))
	}
	return nil
}

func bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callTimeout)
}

// Errors that a person must mend; each carries its remedy.
var (
	ErrAuth       = errors.New("etcd refused the credentials; since 3.5.28 and 3.6.9 MoveLeader needs the root role: give etcd.username and etcd.passwordFile, or a client certificate whose CN is such a user")
	ErrPermission = errors.New("the etcd user lacks permission; grant it the root role (MoveLeader asks for it)")
)

// Explain maps refusals that no retry mends to the sentence that mends them.
func Explain(err error) error {
	switch s := err.Error(); {
	case strings.Contains(s, rpctypes.ErrUserEmpty.Error()),
		strings.Contains(s, "invalid user ID or password"),
		strings.Contains(s, "user name is empty"),
		strings.Contains(s, "invalid auth token"):
		return fmt.Errorf("%w (%w)", ErrAuth, err)
	case strings.Contains(s, rpctypes.ErrPermissionDenied.Error()):
		return fmt.Errorf("%w (%w)", ErrPermission, err)
	}
	return err
}

// Unfinished reports whether err leaves it open if the request was carried
// out: the caller gave up, or the connection went away after sending.
func Unfinished(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "DeadlineExceeded") ||
		strings.Contains(err.Error(), "Unavailable")
}

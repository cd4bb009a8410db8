package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	member "github.com/holdfast-ha/holdfast/internal/quorum/etcd"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"
)

// Place is where an object is: etcd+https://HOST:PORT,HOST:PORT/KEY.
type Place struct {
	// Endpoints are client URLs, the one to be asked first in front.
	Endpoints []string
	Key       string
}

// Parse reads the URL of a Place. It is not one of RFC 3986, which knows one host.
func Parse(s string) (Place, error) {
	scheme, rest, _ := strings.Cut(s, "://")
	scheme, ok := strings.CutPrefix(scheme, "etcd+")
	hosts, key, keyed := strings.Cut(rest, "/")
	if !ok || scheme != "https" && scheme != "http" || !keyed || key == "" || strings.ContainsAny(key, "?#") {
		return Place{}, errors.New("url: write etcd+https://HOST:2379,HOST:2379/KEY")
	}
	p := Place{Key: "/" + key}
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse(scheme + "://" + host)
		switch {
		case err != nil || u.Hostname() == "" || u.Port() == "" || u.User != nil:
			return Place{}, fmt.Errorf("url: endpoint %q; write HOST:PORT, and names and passwords in files", redacted(host))
		case scheme == "http" && !loopback(u.Hostname()):
			return Place{}, fmt.Errorf("url: http to %s could be read and changed on the way; use etcd+https (etcd+http only to 127.0.0.1 or [::1])", u.Hostname())
		}
		p.Endpoints = append(p.Endpoints, u.String())
	}
	return p, nil
}

func redacted(host string) string {
	if _, after, ok := strings.Cut(host, "@"); ok {
		return "…@" + after
	}
	return host
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Object is a store.Store in one key.
type Object struct {
	place Place
	ring  *ring
	own   bool // of the ring

	mu   sync.Mutex
	last held
}

// held is what was read or written last, to be compared with.
type held struct {
	version store.Version
	data    []byte
}

// ring is the members, of which one is asked.
type ring struct {
	members []*member.Member

	mu sync.Mutex
	at int
}

var _ store.Store = (*Object)(nil)

// New prepares the object at p. Nothing is sent yet.
func New(p Place, access member.Access) (*Object, error) {
	r := &ring{}
	for _, endpoint := range p.Endpoints {
		m, err := member.Dial(endpoint, access)
		if err != nil {
			_ = r.close()
			return nil, err
		}
		r.members = append(r.members, m)
	}
	return &Object{place: p, ring: r, own: true}, nil
}

func (r *ring) close() error {
	var all []error
	for _, m := range r.members {
		all = append(all, m.Close())
	}
	return errors.Join(all...)
}

func (r *ring) now() (at int, m *member.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at, r.members[r.at]
}

// away gives the turn to the next, unless another caller did.
func (r *ring) away(from int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == from {
		r.at = (from + 1) % len(r.members)
	}
}

// Name is the URL.
func (o *Object) Name() string {
	var hosts []string
	for _, e := range o.place.Endpoints {
		_, host, _ := strings.Cut(e, "://")
		hosts = append(hosts, host)
	}
	return "etcd " + strings.Join(hosts, ",") + o.place.Key
}

// Key is the last part of the key.
func (o *Object) Key() string { return path.Base(o.place.Key) }

// Close ends the connections.
func (o *Object) Close() error {
	if !o.own {
		return nil
	}
	return o.ring.close()
}

// Beside shares the connections of o.
func (o *Object) Beside(suffix string) (store.Store, error) {
	p := o.place
	p.Key += suffix
	return &Object{place: p, ring: o.ring}, nil
}

// Cluster is the id of the cluster that answers.
func (o *Object) Cluster(ctx context.Context) (uint64, error) {
	r, err := o.get(ctx)
	if err != nil {
		return 0, err
	}
	return r.Header.ClusterId, nil
}

// Read gets the key.
func (o *Object) Read(ctx context.Context) ([]byte, store.Version, error) {
	r, err := o.get(ctx)
	if err != nil {
		return nil, "", err
	}
	if len(r.Kvs) == 0 {
		return nil, "", nil
	}
	h := held{version(r.Kvs[0].ModRevision), r.Kvs[0].Value}
	o.hold(h)
	return h.data, h.version, nil
}

// get asks one member after the other, each for its share of the time; a single one
// twice, as a connection that was kept may have died unnoticed.
func (o *Object) get(ctx context.Context) (*clientv3.GetResponse, error) {
	var all error
	for left := max(2, len(o.ring.members)); left > 0; left-- {
		at, m := o.ring.now()
		r, err := ask(ctx, m, left, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
			return c.Get(ctx, o.place.Key)
		})
		if err == nil {
			return r, nil
		}
		o.ring.away(at)
		if err = o.refusal(err, store.ErrUnreachable); all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, all
}

// ask makes a call of one member, within its share of the time: 1/left of it.
func ask[T any](ctx context.Context, m *member.Member, left int, call func(context.Context, *clientv3.Client) (T, error)) (answer T, err error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	c, err := m.Client(ctx)
	if err != nil {
		return answer, errUnsent{member.Explain(err)}
	}
	if !connected(ctx, c.ActiveConnection()) {
		return answer, errUnsent{why(ctx, m)}
	}
	answer, err = call(ctx, c)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			m.Renew()
		}
		return answer, m.Failed(err)
	}
	return answer, nil
}

// againTimeout bounds a new attempt at a connection that had failed before: the library
// stays in that state while it tries.
const againTimeout = 500 * time.Millisecond

// connected waits until there is a connection, or one attempt at it has failed. The
// library itself would go on trying to the end of ctx.
func connected(ctx context.Context, conn *grpc.ClientConn) bool {
	conn.Connect()
	if conn.GetState() == connectivity.TransientFailure {
		conn.ResetConnectBackoff()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, againTimeout)
		defer cancel()
		if !conn.WaitForStateChange(ctx, connectivity.TransientFailure) {
			return false
		}
	}
	for {
		switch now := conn.GetState(); now {
		case connectivity.Ready:
			return true
		case connectivity.TransientFailure, connectivity.Shutdown:
			return false
		case connectivity.Idle:
			conn.Connect()
			fallthrough
		default:
			if !conn.WaitForStateChange(ctx, now) {
				return false
			}
		}
	}
}

// whyTimeout bounds the question for the cause, which a state of a connection lacks.
const whyTimeout = 300 * time.Millisecond

func why(ctx context.Context, m *member.Member) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), whyTimeout)
	defer cancel()
	if _, err := m.Status(ctx); err != nil {
		return err
	}
	return errors.New("no connection came about in time")
}

// errUnsent is the error of a call that had nobody to be sent to.
type errUnsent struct{ error }

func (e errUnsent) Unwrap() error { return e.error }

// Swap puts the key if its modification revision is that of was.
func (o *Object) Swap(ctx context.Context, was store.Version, data []byte) (store.Version, error) {
	revision, conditions := int64(0), []clientv3.Cmp(nil)
	if was != "" {
		var err error
		if revision, err = strconv.ParseInt(string(was), 10, 64); err != nil || revision <= 0 {
			return "", store.ErrLost // never one of this store
		}
		if h := o.held(); h.version == was {
			conditions = append(conditions, clientv3.Compare(clientv3.Value(o.place.Key), "=", string(h.data)))
		}
	}
	conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(o.place.Key), "=", revision))
	r, err := o.send(ctx, func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(conditions...).Then(clientv3.OpPut(o.place.Key, string(data))).Commit()
	})
	if err != nil {
		return "", o.refusal(err, unfinished(err))
	}
	if !r.Succeeded {
		return "", store.ErrLost
	}
	h := held{version(r.Header.Revision), data}
	o.hold(h)
	return h.version, nil
}

// send makes a call of one member. Only where nothing could be sent does it go on to
// the next.
func (o *Object) send(ctx context.Context, call func(context.Context, *clientv3.Client) (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
	for left := len(o.ring.members); ; left-- {
		at, m := o.ring.now()
		// All the time there is for one that has a connection: its answer decides.
		r, err := ask(ctx, m, 1, call)
		if err == nil {
			return r, nil
		}
		o.ring.away(at)
		if _, ok := errors.AsType[errUnsent](err); !ok || left == 1 || ctx.Err() != nil {
			return nil, err
		}
	}
}

func version(revision int64) store.Version {
	return store.Version(strconv.FormatInt(revision, 10))
}

func (o *Object) hold(h held) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = h
}

func (o *Object) held() held {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// unfinished says what a failed write has come to: ErrUnknown unless it is certain that
// it was not carried out.
func unfinished(err error) error {
	if _, ok := errors.AsType[errUnsent](err); ok {
		return store.ErrUnreachable
	}
	// A member answers these before it proposes anything.
	switch status.Code(unwrapStatus(err)) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted, codes.InvalidArgument, codes.FailedPrecondition, codes.Unimplemented:
		return store.ErrUnreachable
	case codes.Unavailable:
		// gRPC's words for a connection that never came about.
		if strings.Contains(err.Error(), "rror while dialing") {
			return store.ErrUnreachable
		}
	}
	return store.ErrUnknown
}

// unwrapStatus finds the error that has a gRPC status; etcd's own typed errors carry
// one by another name.
func unwrapStatus(err error) error {
	type coded interface{ Code() codes.Code }
	if c, ok := errors.AsType[interface {
		error
		coded
	}](err); ok {
		return status.Error(c.Code(), c.Error())
	}
	return err
}

func (o *Object) refusal(err, kind error) error {
	switch {
	case errors.Is(err, member.ErrAuth):
		return fmt.Errorf("%w: etcd does not take the account or certificate; give username and passwordFile of a user of that etcd", store.ErrDenied)
	case errors.Is(err, member.ErrPermission):
		return fmt.Errorf("%w: grant the user readwrite on the prefix %s", store.ErrDenied, o.place.Key)
	}
	return fmt.Errorf("%w: %w", kind, err)
}

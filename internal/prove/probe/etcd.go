package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// etcdPath calls one member over gRPC stubs. clientv3 is not used: its balancer
// and retries would make several attempts out of a sample and hide what failed.
// Unary calls do not demand a leader, as kube-apiserver's do not; what a
// leaderless member does with them is what the sample shows.
type etcdPath struct {
	*Path
	tls *tls.Config
	// writes counts the keys of kind write; run tells them from those of other
	// probers with the same path.
	writes atomic.Uint64
	run    string
}

func newEtcd(p *Path) (attempter, error) {
	e, err := loadEtcd(p)
	if err != nil {
		return nil, err
	}
	return attempts(p, e.dial, e.call), nil
}

func loadEtcd(p *Path) (*etcdPath, error) {
	e := &etcdPath{Path: p, run: strconv.FormatInt(time.Now().UnixNano(), 36)}
	if p.Secure {
		var err error
		if e.tls, err = p.TLS.load(p.host()); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// etcdLink is one gRPC connection on one TCP connection; it never reconnects.
type etcdLink struct {
	conn *grpc.ClientConn
	wire *wire
	// handshake is how TLS failed, if it did.
	handshake *failure
}

// failure is an error passed from one goroutine to another; the first stays.
type failure struct {
	mu  sync.Mutex
	err error
}

func (f *failure) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = or(f.err, err)
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// dial connects TCP first, for the typed error, and hands gRPC that connection.
func (e *etcdPath) dial(ctx context.Context) (*etcdLink, error) {
	w, err := dialWire(ctx, e.address())
	if err != nil {
		return nil, err
	}
	l := &etcdLink{wire: w, handshake: &failure{}}
	unused := make(chan net.Conn, 1)
	unused <- w
	l.conn, err = grpc.NewClient("passthrough:///"+e.address(),
		grpc.WithTransportCredentials(e.credentials(l.handshake)),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case c := <-unused:
				return c, nil
			default:
				return nil, errClosed
			}
		}),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), grpc.WithIdleTimeout(0))
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("set up gRPC: %w", err)
	}
	if err := l.ready(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (e *etcdPath) credentials(seen *failure) credentials.TransportCredentials {
	if e.tls == nil {
		return insecure.NewCredentials()
	}
	return &noting{credentials.NewTLS(e.tls), seen}
}

// noting keeps the error of the TLS handshake, of which gRPC keeps the text only.
type noting struct {
	credentials.TransportCredentials
	seen *failure
}

func (n *noting) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := n.TransportCredentials.ClientHandshake(ctx, authority, c)
	if err != nil {
		n.seen.set(err)
	}
	return secure, info, err
}

func (n *noting) Clone() credentials.TransportCredentials {
	return &noting{n.TransportCredentials.Clone(), n.seen}
}

// ready waits for the HTTP/2 handshake.
func (l *etcdLink) ready(ctx context.Context) error {
	l.conn.Connect()
	for {
		state := l.conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			cause := or(l.handshake.get(), l.wire.broken(), errClosed)
			return fmt.Errorf("connect: %w", cause)
		}
		if !l.conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("connect: %w", ctx.Err())
		}
	}
}

func (l *etcdLink) gone() error {
	if err := l.wire.broken(); err != nil {
		return err
	}
	if l.conn.GetState() != connectivity.Ready {
		return errRetired
	}
	return nil
}

func (l *etcdLink) close() {
	_ = l.conn.Close()
	_ = l.wire.Close()
}

// call makes the one request of the path's kind.
func (e *etcdPath) call(ctx context.Context, l *etcdLink) outcome {
	l.wire.ask()
	kv := pb.NewKVClient(l.conn)
	o := outcome{local: l.wire.local(), peer: l.wire.peer()}
	var err error
	switch e.Kind {
	case KindPut:
		_, err = kv.Put(ctx, &pb.PutRequest{Key: []byte(e.Key), Value: timestamp()})
	case KindWrite:
		var r *pb.PutResponse
		o.key = fmt.Sprintf("%s/%s-%d", e.Key, e.run, e.writes.Add(1))
		if r, err = kv.Put(ctx, &pb.PutRequest{Key: []byte(o.key), Value: timestamp()}); err == nil {
			o.revision = r.Header.GetRevision()
		}
	default:
		_, err = kv.Range(ctx, &pb.RangeRequest{Key: []byte(e.Key), Serializable: e.Kind == KindSerializable})
	}
	o.err = l.explain(err)
	return o
}

func timestamp() []byte { return []byte(time.Now().UTC().Format(time.RFC3339Nano)) }

// explain tells what the server said from what happened to the connection;
// gRPC gives both as a status. etcd prefixes every error of its own.
func (l *etcdLink) explain(err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	if strings.HasPrefix(s.Message(), "etcdserver:") || strings.HasPrefix(s.Message(), "auth:") {
		return serverError{s.Message()}
	}
	switch s.Code() {
	case codes.DeadlineExceeded, codes.Canceled:
		return fmt.Errorf("wait for answer: %w", context.DeadlineExceeded)
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.FailedPrecondition,
		codes.Unimplemented, codes.ResourceExhausted, codes.NotFound:
		return serverError{s.Code().String() + ": " + s.Message()}
	}
	if broke := l.wire.broken(); broke != nil {
		return fmt.Errorf("connection broke: %w", broke)
	}
	if strings.Contains(s.Message(), errClosed.Error()) {
		return errClosed
	}
	return errors.New(s.Code().String() + ": " + s.Message())
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// reconnectEvery bounds how often refused credentials are shown again: each
// time costs etcd a bcrypt of some 50 ms (its default cost is 10).
const reconnectEvery = 2 * time.Second

// mostPatience is how long an attempt to show the account may take at most. It is what
// keepalives give a silent connection (5 s + 3 s), so no attempt outlives its connection.
const mostPatience = 8 * time.Second

var errClosed = errors.New("the connection was closed")

// connection is a client, made or in the making.
type connection struct {
	begun time.Time
	// patience is how long etcd may take to check the account.
	patience time.Duration
	done     chan struct{} // closed when cli and err are set
	cli      *clientv3.Client
	err      error
	slow     bool // it failed for want of patience
}

// Client returns the underlying client for reads and watches. With an account
// the client library asks the member for a token before it gives a client at
// all; so it is made at the first call, and again after a failure.
func (m *Member) Client(ctx context.Context) (*clientv3.Client, error) {
	c, err := m.connection(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.done:
		return c.cli, c.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to etcd %s: %w", m.Endpoint, ctx.Err())
	}
}

// connection returns the one in force, or begins one, with the patience of who asks.
func (m *Member) connection(ctx context.Context) (*connection, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	if m.conn == nil || m.conn.failed() && time.Since(m.conn.begun) >= reconnectEvery {
		m.conn = &connection{begun: time.Now(), patience: m.conn.nextPatience(ctx), done: make(chan struct{})}
		go m.conn.open(m)
	}
	return m.conn, nil
}

func (c *connection) failed() bool {
	select {
	case <-c.done:
		return c.err != nil
	default:
		return false
	}
}

// nextPatience is how long the next attempt may take: what the caller has left, and at
// least twice as long as one that it was too short for. An etcd on a busy machine may
// take seconds for a bcrypt, and would otherwise never be done with one.
func (c *connection) nextPatience(ctx context.Context) time.Duration {
	patience := callTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = max(patience, time.Until(deadline))
	}
	if c != nil && c.slow {
		patience = max(patience, 2*c.patience)
	}
	return min(patience, mostPatience)
}

func (c *connection) open(m *Member) {
	defer close(c.done)
	cfg, err := m.config()
	cfg.DialTimeout = c.patience
	begun := time.Now()
	if err == nil {
		c.cli, err = clientv3.New(cfg)
	}
	if err != nil {
		c.slow = time.Since(begun) >= c.patience
		c.err = fmt.Errorf("connect to etcd %s: %w", m.Endpoint, err)
	}
}

// end closes the connection, as soon as it is made.
func (c *connection) end() {
	go func() {
		<-c.done
		if c.cli != nil {
			_ = c.cli.Close() // nothing is lost with it
		}
	}()
}

func (m *Member) config() (clientv3.Config, error) {
	cfg := clientv3.Config{
		Endpoints:            []string{m.Endpoint},
		TLS:                  m.tls,
		DialKeepAliveTime:    5 * time.Second, // a cut is felt by calls anyway; this frees the socket
		DialKeepAliveTimeout: 3 * time.Second,
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithDisableRetry(),
			// gRPC's own backoff grows to two minutes; after a heal the agent
			// must be back within its reporting interval.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
				MinConnectTimeout: callTimeout,
			}),
		},
	}
	if m.access.Username == "" {
		return cfg, nil
	}
	var err error
	cfg.Username = m.access.Username
	cfg.Password, err = ReadPassword(m.access.PasswordFile)
	return cfg, err
}

// ReadPassword reads the one line of a password file. An empty password is
// refused: with it the client library would show no account at all.
func ReadPassword(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("etcd.passwordFile: %w", err)
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" || strings.ContainsAny(password, "\r\n") {
		return "", fmt.Errorf("etcd.passwordFile: %s does not hold one line; write the password in it, and nothing else", path)
	}
	return password, nil
}

// Failed explains the error of a call made through Client, and does what the
// calls of Member do after a failure: a refused account is read anew.
func (m *Member) Failed(err error) error { return m.refused(Explain(err)) }

// refused drops a connection whose account is refused, so that the next one
// reads the password anew.
func (m *Member) refused(err error) error {
	if m.access.Username == "" || !errors.Is(err, ErrAuth) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil && !m.conn.failed() && time.Since(m.conn.begun) >= reconnectEvery {
		m.conn.end()
		m.conn = nil
	}
	return err
}

// Renew drops a connection on which an answer stayed away, so that the next call makes
// another: one that died silently is only given up after 8 s by itself.
func (m *Member) Renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil && !m.conn.failed() && (m.access.Username == "" || time.Since(m.conn.begun) >= reconnectEvery) {
		m.conn.end()
		m.conn = nil
	}
}

// Close releases the connection.
func (m *Member) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.conn != nil {
		m.conn.end()
		m.conn = nil
	}
	return nil
}

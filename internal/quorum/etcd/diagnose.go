package etcd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// diagnoseEvery bounds how often a failing member is dialled only to learn why.
	diagnoseEvery = 5 * time.Second
	// diagnoseTimeout bounds one such attempt; a server that refuses a client
	// certificate in TLS 1.3 says so only after the handshake.
	diagnoseTimeout = 300 * time.Millisecond
)

// ErrTLS says that one side refused the other's certificate, or TLS itself. Silence is none: a
// member that has no leader yet has its client port bound, and serves nobody there.
var ErrTLS = errors.New("TLS")

// refusesTLS tells a refusal from a connection that was not served, or broke.
func refusesTLS(err error) bool {
	var silence net.Error
	return !(errors.As(err, &silence) && silence.Timeout()) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET)
}

// diagnose finds the cause behind an error that names none. gRPC answers
// "context deadline exceeded" for a refused port and for a wrong certificate
// alike; a plain TLS connection tells them apart.
func (m *Member) diagnose(err error) error {
	if !Unfinished(err) {
		return err
	}
	m.diagnosing.Lock()
	defer m.diagnosing.Unlock()
	if time.Since(m.diagnosed) >= diagnoseEvery {
		m.cause = tryTLS(m.host, m.tls)
		m.diagnosed = time.Now()
	}
	if m.cause == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", m.cause, err)
}

// tryTLS connects and waits a moment for the server to complain.
func tryTLS(host string, cfg *tls.Config) error {
	conn, err := net.DialTimeout("tcp", host, diagnoseTimeout)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(diagnoseTimeout))
	if cfg == nil { // plain http
		return nil
	}
	secure := tls.Client(conn, cfg)
	if err := secure.Handshake(); err != nil {
		if !refusesTLS(err) {
			return fmt.Errorf("no TLS with %s: %w", host, err)
		}
		return fmt.Errorf("%w with %s: %w", ErrTLS, host, err)
	}
	var b [1]byte
	if _, err := secure.Read(b[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		if !refusesTLS(err) {
			return fmt.Errorf("no TLS with %s: %w", host, err)
		}
		return fmt.Errorf("%w with %s: %w; is the certificate one that etcd's client CA signed?", ErrTLS, host, err)
	}
	return nil
}

package collect

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// ProbeTimeout bounds one probe, from the first packet to the answer. An apiserver
// at the other end of the world answers in half a second.
const ProbeTimeout = 2 * time.Second

// Prober asks one address, host:port, and says what answered.
type Prober func(ctx context.Context, address string) fact.Probe

// TLS is a Prober that asks for /readyz over TLS, without credentials. Roots are
// what the server's chain is held against; nil leaves the chain alone and only
// compares names and dates. From is the name of the machine that asks.
func TLS(roots *x509.CertPool, from string) Prober {
	return func(ctx context.Context, address string) fact.Probe {
		ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
		defer cancel()
		p := fact.Probe{Address: address, From: from}
		p.Outcome, p.Status, p.Error = ask(ctx, &p, roots)
		return p
	}
}

func ask(ctx context.Context, p *fact.Probe, roots *x509.CertPool) (outcome string, status int, why string) {
	host, _, err := net.SplitHostPort(p.Address)
	if err != nil {
		return fact.ProbeFailed, 0, "not an address; give HOST:PORT"
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Address)
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a connection that is closed says so below
	}
	// Verified below: a certificate that does not fit is what is looked for.
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: host}) //nolint:gosec // see above
	if err := client.HandshakeContext(ctx); err != nil {
		return failed(err)
	}
	if why := certificate(p, client.ConnectionState().PeerCertificates, host, roots); why != "" {
		return fact.ProbeX509, 0, why
	}
	return readyz(client, p.Address)
}

// certificate records the server's own certificate, and says why a client would
// refuse it; "" where none would.
func certificate(p *fact.Probe, chain []*x509.Certificate, host string, roots *x509.CertPool) string {
	if len(chain) == 0 {
		return "the server showed no certificate"
	}
	leaf := chain[0]
	p.Names, p.Issuer, p.NotAfter = leaf.DNSNames, leaf.Issuer.String(), leaf.NotAfter.UTC()
	for _, ip := range leaf.IPAddresses {
		p.Addresses = append(p.Addresses, ip.String())
	}
	if err := leaf.VerifyHostname(host); err != nil {
		return err.Error()
	}
	if roots == nil {
		if time.Now().After(leaf.NotAfter) {
			return "the certificate has expired"
		}
		return ""
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return err.Error()
	}
	return ""
}

func readyz(conn net.Conn, address string) (outcome string, status int, why string) {
	if _, err := fmt.Fprintf(conn, "GET /readyz HTTP/1.1\r\nHost: %s\r\nUser-Agent: holdfast\r\nConnection: close\r\n\r\n", address); err != nil {
		return failed(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return failed(err)
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return fact.ProbeOK, answer.StatusCode, ""
	case http.StatusUnauthorized, http.StatusForbidden:
		return fact.ProbeUnauthorized, answer.StatusCode, ""
	}
	return fact.ProbeUnready, answer.StatusCode, ""
}

// failed tells silence from a refusal.
func failed(err error) (outcome string, status int, why string) {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return fact.ProbeRefused, 0, "the connection was refused"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fact.ProbeSilent, 0, fmt.Sprintf("no answer within %s", ProbeTimeout)
	}
	return fact.ProbeFailed, 0, err.Error()
}

package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestClassify(t *testing.T) {
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
	}
	for _, c := range []struct {
		err  error
		want Class
	}{
		{nil, ClassOK},
		{dial(syscall.ECONNREFUSED), ClassRefused},
		{dial(syscall.EHOSTUNREACH), ClassUnreachable},
		{dial(syscall.ENETUNREACH), ClassUnreachable},
		{dial(syscall.EPERM), ClassUnreachable},  // dropped by an output rule of this host
		{dial(syscall.EACCES), ClassUnreachable}, // prohibited by a route
		{dial(syscall.EINVAL), ClassUnreachable}, // blackhole route
		{dial(syscall.ETIMEDOUT), ClassTimeout},
		{dial(syscall.EMFILE), ClassOther},
		{fmt.Errorf("connection broke: %w", syscall.ECONNRESET), ClassReset},
		{syscall.EPIPE, ClassReset},
		{io.EOF, ClassReset},
		{io.ErrUnexpectedEOF, ClassReset},
		{errClosed, ClassReset},
		{errSilent, ClassTimeout},
		{context.DeadlineExceeded, ClassTimeout},
		{os.ErrDeadlineExceeded, ClassTimeout},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, ClassDNS},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, ClassTLS},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, ClassTLS},
		{errors.New("x509: certificate has expired"), ClassTLS},
		{codeError(500), ClassHTTP},
		{serverError{"etcdserver: no leader"}, ClassServer},
		{errors.New("malformed HTTP response"), ClassOther},
	} {
		if got := Classify(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestFirstLine(t *testing.T) {
	if got := firstLine(errors.New("one\ntwo")); got != "one" {
		t.Errorf("got %q", got)
	}
	if got := firstLine(errors.New(strings.Repeat("é", 200))); len(got) > 310 {
		t.Errorf("%d bytes", len(got))
	}
}

// Every way of failing, against a server that fails that way, over every mode
// of every kind that can tell.
func TestFailuresAreClassified(t *testing.T) {
	noLeaks(t)
	a := newAuthority(t)
	other := newAuthority(t)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	t.Cleanup(broken.Close)
	plain := serve(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\n") })
	secure := serve(t, func(c net.Conn) { _ = tls.Server(c, a.server(t)).Handshake() })
	refusing, resetting, silent := closedPort(t), serve(t, reset), serve(t, hang)
	all := []string{"https", "http", "etcd", "etcd+insecure"}
	for _, c := range []struct {
		name    string
		schemes []string
		address string
		tls     TLS
		want    Class
		code    int
	}{
		{"refused", append(all, "tcp"), refusing, TLS{}, ClassRefused, 0},
		{"reset", all, resetting, TLS{}, ClassReset, 0},
		{"timeout", all, silent, TLS{}, ClassTimeout, 0},
		{"code", []string{"http"}, broken.Listener.Addr().String(), TLS{}, ClassHTTP, 500},
		{"unknown authority", []string{"https", "etcd"}, secure, other.client(), ClassTLS, 0},
		{"wrong name", []string{"https", "etcd"}, secure, TLS{CA: a.ca, ServerName: "elsewhere"}, ClassTLS, 0},
		{"plain port", []string{"https", "etcd"}, plain, TLS{}, ClassTLS, 0},
		{"no such name", append(all, "tcp"), "no-such-host.invalid:2379", TLS{}, ClassDNS, 0},
	} {
		for _, scheme := range c.schemes {
			modes := []Mode{ModeNew, ModeReused}
			if scheme == "http" || scheme == "https" {
				modes = append(modes, ModeStream)
			}
			target := Target{Name: "t", URL: scheme + "://" + c.address, Modes: modes, TLS: &c.tls, Timeout: 300 * time.Millisecond}
			for _, s := range probeOnce(t, target) {
				if s.OK || s.Class != c.want || s.Code != c.code && !strings.HasSuffix(s.Path, "stream") {
					t.Errorf("%s: %s %s: class %q code %03d (%s), want %q", c.name, scheme, s.Path, s.Class, s.Code, s.Error, c.want)
				}
				if s.Latency() > time.Second {
					t.Errorf("%s: %s %s took %v with a timeout of 300ms", c.name, scheme, s.Path, s.Latency())
				}
			}
		}
	}
}

package collect

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// Each way in which an address may answer or not, against real sockets.
func TestOutcomes(t *testing.T) {
	code := http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || r.Header.Get("Authorization") != "" {
			t.Errorf("asked for %s with %v", r.URL.Path, r.Header)
		}
		w.WriteHeader(code)
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	at := server.Listener.Addr().String()
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}

	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refuses := closed.Addr().String()
	closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()

	for _, tc := range []struct {
		name, address string
		roots         *x509.CertPool
		code          int
		want          string
	}{
		{"ready", at, roots, 200, fact.ProbeOK},
		{"ready, chain left alone", at, nil, 200, fact.ProbeOK},
		{"anonymous is off", at, roots, 401, fact.ProbeUnauthorized},
		{"not ready", at, roots, 500, fact.ProbeUnready},
		{"another name", net.JoinHostPort("localhost", port), roots, 200, fact.ProbeX509},
		{"another authority", at, x509.NewCertPool(), 200, fact.ProbeX509},
		{"frozen", silent.Addr().String(), roots, 0, fact.ProbeSilent},
		{"nobody there", refuses, roots, 0, fact.ProbeRefused},
		{"no TLS", strings.TrimPrefix(plain.URL, "http://"), roots, 0, fact.ProbeFailed},
		{"no port", "127.0.0.1", roots, 0, fact.ProbeFailed},
	} {
		code = tc.code
		p := TLS(tc.roots, "here")(context.Background(), tc.address)
		if p.Outcome != tc.want || p.Address != tc.address || p.From != "here" {
			t.Errorf("%s: %+v, want %s", tc.name, p, tc.want)
		}
		shown := tc.want == fact.ProbeOK || tc.want == fact.ProbeX509 || tc.want == fact.ProbeUnready || tc.want == fact.ProbeUnauthorized
		if shown != (len(p.Addresses) > 0 && !p.NotAfter.IsZero()) {
			t.Errorf("%s: the certificate was recorded as %v %v until %s", tc.name, p.Names, p.Addresses, p.NotAfter)
		}
		if (p.Error == "") != (tc.want == fact.ProbeOK || tc.want == fact.ProbeUnready || tc.want == fact.ProbeUnauthorized) {
			t.Errorf("%s: error %q", tc.name, p.Error)
		}
	}
}

package probe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// authority is a CA with one leaf for 127.0.0.1, good for both ends of TLS.
type authority struct{ ca, cert, key string }

func newAuthority(t *testing.T) authority {
	t.Helper()
	dir := t.TempDir()
	caKey, caCert := issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	key, cert := issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test leaf"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, caCert, caKey)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return authority{
		ca:   writePEM(t, filepath.Join(dir, "ca.crt"), "CERTIFICATE", caCert.Raw),
		cert: writePEM(t, filepath.Join(dir, "leaf.crt"), "CERTIFICATE", cert.Raw),
		key:  writePEM(t, filepath.Join(dir, "leaf.key"), "EC PRIVATE KEY", der),
	}
}

// issue signs template with the parent, or with itself when there is none.
func issue(t *testing.T, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert
}

func writePEM(t *testing.T, path, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (a authority) client() TLS { return TLS{CA: a.ca, Cert: a.cert, Key: a.key} }

func (a authority) server(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.cert, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// serve accepts connections on loopback and hands each to handle, which need
// not close it. The address is returned.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go handle(c)
		}
	}()
	return l.Addr().String()
}

// closedPort is an address on loopback where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// freeAddress is an address for a server to be started. It lies below the
// ephemeral ports (32768 and up), which a prober on loopback takes by the
// hundred.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+mathrand.IntN(12000)))
		if err == nil {
			_ = l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port between 20000 and 32000")
	return ""
}

// reset ends a connection with RST.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// hang says nothing; the test's cleanup closes.
func hang(net.Conn) {}

// probeOnce takes one sample of each path of a target.
func probeOnce(t *testing.T, target Target) []Sample {
	t.Helper()
	var got []Sample
	p := mustNew(t, &Config{Targets: []Target{target}, Control: Control{Off: true}})
	p.Once(t.Context(), func(s Sample) { got = append(got, s) })
	return got
}

func mustNew(t *testing.T, cfg *Config) *Prober {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// follow runs a prober until until returns true for the samples so far of some
// path, or fails the test after a minute. The samples come back by path.
func follow(t *testing.T, cfg *Config, until func(path string, samples []Sample) bool) map[string][]Sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	paths := map[string][]Sample{}
	mustNew(t, cfg).Run(ctx, func(s Sample) {
		paths[s.Path] = append(paths[s.Path], s)
		if until(s.Path, paths[s.Path]) {
			cancel()
		}
	})
	if context.Cause(ctx) == context.DeadlineExceeded {
		t.Fatalf("condition not met in a minute: %s", letters(paths))
	}
	return paths
}

// letters draws samples: o for good, the first letter of the class otherwise.
func letters(paths map[string][]Sample) string {
	var b strings.Builder
	for path, samples := range paths {
		b.WriteString(path + " ")
		for _, s := range samples {
			b.WriteString(or(string(s.Class), "o")[:1])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// noLeaks waits until no more goroutines run than before, at the end of a test.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<16)
				t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				return
			}
			runtime.Gosched()
		}
	})
}

package health

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// TestKeptConnectionStandsToday changes files under a kept connection: it is
// asked again only if it would come about with them.
func TestKeptConnectionStandsToday(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	server := a.issue("server", tomorrow, false)
	renewed, err := os.ReadFile(a.issue("two", tomorrow, true).Cert)
	if err != nil {
		t.Fatal(err)
	}
	renewed = append(renewed, "renewed\n"...) // a size of its own, whatever the clock of the files
	both := bytes.Join([][]byte{a.pem, other.pem}, nil)
	s := newCounted(t, server)
	for _, c := range []struct {
		name   string
		change func(f creds.Files, token string)
		fresh  bool
		grade  Grade
	}{
		{"nothing", func(creds.Files, string) {}, false, Ready},
		{"CA without the server's", func(f creds.Files, _ string) { a.write(f.CA, other.pem) }, true, NotReady},
		{"CA with the server's alone", func(f creds.Files, _ string) { a.write(f.CA, a.pem) }, false, Ready},
		{"half a CA", func(f creds.Files, _ string) { a.write(f.CA, both[:100]) }, false, Ready},
		{"no CA", func(f creds.Files, _ string) { os.Remove(f.CA) }, false, Ready},
		{"certificate and key", func(f creds.Files, _ string) { a.write(f.Cert, renewed) }, true, Ready},
		{"token", func(_ creds.Files, token string) { a.write(token, []byte("second")) }, true, Ready},
		{"bad token", func(_ creds.Files, token string) { a.write(token, []byte("two words")) }, false, Ready},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, token := a.issue("one", tomorrow, true), filepath.Join(t.TempDir(), "token")
			a.write(f.CA, both)
			a.write(token, []byte("first"))
			m, err := Check{Kind: HTTPS, TLS: f, TokenFile: token}.Open()
			if err != nil {
				t.Fatal(err)
			}
			p, err := m.Prober("tcp", address(s.Server))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			probe1(t, p, false)
			if r := probe1(t, p, false); r.Grade != Ready || r.Fresh {
				t.Fatalf("before: %+v", r)
			}
			c.change(f, token)
			_, _ = m.certs.Check(), m.token.err() // look at the files now
			if r := probe1(t, p, false); r.Grade != c.grade || r.Fresh != c.fresh || r.NewOnly != (c.grade != Ready) {
				t.Errorf("after: %+v, want %s, fresh %v", r, c.grade, c.fresh)
			}
			nothingLost(t, p)
		})
	}
}

// TestNewOnly: the last answer of a new connection is not refuted by an older
// one, and an answer on one that stays can be asked for again.
func TestNewOnly(t *testing.T) {
	files := newAuthority(t).issue("server", tomorrow, false)
	s := newCounted(t, files)
	p := prober(t, Check{Kind: HTTPS, TLS: creds.Files{CA: files.CA}}, address(s.Server))
	s.code.Store(500)
	if r := probe1(t, p, true); r.Grade != NotReady || r.NewOnly {
		t.Errorf("a connection that stays: %+v", r)
	}
	s.bye.Store(true)
	if r := probe1(t, p, true); r.Grade != NotReady || !r.NewOnly {
		t.Errorf("one that ends: %+v", r)
	}
}

// TestCheckerAsksNewConnections: a server begins to show a certificate that
// does not verify, while the connection made before still answers.
func TestCheckerAsksNewConnections(t *testing.T) {
	files, strange := newAuthority(t).issue("server", tomorrow, false), newAuthority(t).issue("server", tomorrow, false)
	good, bad := pair(t, files), pair(t, strange)
	var shown atomic.Pointer[tls.Certificate]
	shown.Store(good)
	s := serveTLS(t, files, says(http.StatusOK, "ok"), func(c *tls.Config) {
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{*shown.Load()}}, nil
		}
	})
	m, err := Check{Kind: HTTPS, TLS: creds.Files{CA: files.CA}}.Open()
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Prober("tcp", address(s))
	if err != nil {
		t.Fatal(err)
	}
	c := NewChecker(p, Default(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()

	await(t, "ready", func() bool { return c.Verdict().Grade == Ready })
	shown.Store(bad)
	c.Nudge()
	await(t, "fallen", func() bool { return c.Verdict().Grade == NotReady })
	fallen := c.Verdict()
	await(t, "asked six times more", func() bool { return c.Verdict().Checks >= fallen.Checks+6 })
	if v := c.Verdict(); v.Since != fallen.Since || !strings.Contains(v.Reason, "unknown authority") {
		t.Errorf("came back by the word of an older connection: %+v", v)
	}
	shown.Store(good)
	await(t, "back", func() bool { return c.Verdict().Grade == Ready })
}

func TestCredentialsRotate(t *testing.T) {
	a := newAuthority(t)
	server := a.issue("server", tomorrow, false)
	client := a.issue("one", tomorrow, true)
	tokenFile := filepath.Join(t.TempDir(), "token")
	a.write(tokenFile, []byte("first"))
	var seen atomic.Value
	s := serveTLS(t, server, func(_ http.ResponseWriter, r *http.Request) {
		seen.Store(r.TLS.PeerCertificates[0].Subject.CommonName + " " + r.Header.Get("Authorization"))
	})
	p := prober(t, Check{Kind: HTTPS, TLS: client, TokenFile: tokenFile}, address(s))
	if probe1(t, p, true); seen.Load() != "one Bearer first" {
		t.Errorf("first: %v", seen.Load())
	}
	data, err := os.ReadFile(a.issue("two", tomorrow, true).Cert)
	if err != nil {
		t.Fatal(err)
	}
	a.write(client.Cert, data)
	a.write(tokenFile, []byte("second\n"))
	await(t, "the new certificate and token are shown", func() bool {
		probe1(t, p, true)
		return seen.Load() == "two Bearer second"
	})
	a.write(tokenFile, []byte("two words"))
	m := p.(*web).question.(*readyz).token
	if err := m.err(); err == nil || !strings.Contains(err.Error(), tokenFile) || strings.Contains(err.Error(), "words") {
		t.Errorf("bad token file: %v", err)
	}
	if got := m.value(); got != "second" {
		t.Errorf("token %q while the file is bad", got)
	}
}

func pair(t *testing.T, f creds.Files) *tls.Certificate {
	t.Helper()
	c, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

package creds

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var later = time.Now().Add(24 * time.Hour)

// shake runs one handshake over loopback and returns the name in the server's
// certificate and the error of each side. Not over net.Pipe: unbuffered, a
// client that refuses and a server that still writes would wait for each other.
func shake(t *testing.T, client, server *tls.Config) (name string, clientErr, serverErr error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			// TLS 1.3 tells a client of its refusal only after its own
			// handshake is over, so both sides wait for a byte.
			_, err = c.Write([]byte{1})
		}
		done <- err
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, client)
	if clientErr = c.Handshake(); clientErr == nil {
		name = c.ConnectionState().PeerCertificates[0].Subject.CommonName
		_, clientErr = c.Read(make([]byte, 1))
	}
	raw.Close()
	return name, clientErr, <-done
}

// pair opens the same files for both sides on a clock of the test.
func pair(t *testing.T, f Files, c *clock) (client, server *tls.Config, s *Source) {
	t.Helper()
	s, err := open(f, c.now)
	if err != nil {
		t.Fatal(err)
	}
	if server, err = s.Server(true); err != nil {
		t.Fatal(err)
	}
	return s.Client("127.0.0.1"), server, s
}

func TestRotationOfCertificateAndAuthority(t *testing.T) {
	dir := t.TempDir()
	old, fresh := newAuthority(t, "old"), newAuthority(t, "fresh")
	cert, key := old.issue("one", later)
	f := write(t, dir, old.pem, cert, key)
	c := &clock{time.Now()}
	client, server, s := pair(t, f, c)
	if name, ce, se := shake(t, client, server); ce != nil || se != nil || name != "one" {
		t.Fatalf("first: %v, %v, %q", ce, se, name)
	}

	cert, key = fresh.issue("two", later.Add(time.Hour))
	write(t, dir, fresh.pem, cert, key)
	if name, _, _ := shake(t, client, server); name != "one" {
		t.Errorf("within a second: %q, want the old one still", name)
	}
	c.forward(checkEvery)
	if name, ce, se := shake(t, client, server); ce != nil || se != nil || name != "two" {
		t.Errorf("after a second: %v, %v, %q", ce, se, name)
	}
	if got := s.NotAfter(); !got.Equal(later.Add(time.Hour).Truncate(time.Second).UTC()) {
		t.Errorf("NotAfter %s", got)
	}
}

// TestFailedHandshakeLooksAgain has the peer rotate first: the client's CA file
// changes within the second, and the handshake that would fail finds it.
func TestFailedHandshakeLooksAgain(t *testing.T) {
	old, fresh := newAuthority(t, "old"), newAuthority(t, "fresh")
	cert, key := old.issue("client", later)
	clientDir := t.TempDir()
	client, _, _ := pair(t, write(t, clientDir, old.pem, cert, key), &clock{time.Now()})
	cert, key = fresh.issue("server", later)
	_, server, _ := pair(t, write(t, t.TempDir(), bytes.Join([][]byte{fresh.pem, old.pem}, nil), cert, key), &clock{time.Now()})

	_, ce, _ := shake(t, client, server)
	if ce == nil || !strings.Contains(ce.Error(), "ca.crt its CA?") {
		t.Fatalf("unknown authority: %v", ce)
	}
	write(t, clientDir, bytes.Join([][]byte{old.pem, fresh.pem}, nil), nil, nil)
	if _, ce, se := shake(t, client, server); ce != nil || se != nil {
		t.Errorf("after the CA was added: %v, %v", ce, se)
	}
}

func TestHalfWrittenKeepsLastGood(t *testing.T) {
	a := newAuthority(t, "ca")
	cert, key := a.issue("one", later)
	newCert, newKey := a.issue("two", later)
	for _, c := range []struct {
		name, want    string
		ca, cert, key []byte
	}{
		{"empty certificate", "no certificate in PEM form", nil, []byte{}, nil},
		{"half a certificate", "no certificate in PEM form", nil, newCert[:len(newCert)/2], nil},
		{"new certificate, old key", "does not belong to certificate", nil, newCert, nil},
		{"half a key", "no private key in PEM form", nil, nil, key[:len(key)/2]},
		{"half a CA", "no certificate in PEM form", a.pem[:len(a.pem)/2], nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := write(t, dir, a.pem, cert, key)
			clock := &clock{time.Now()}
			client, server, s := pair(t, f, clock)
			write(t, dir, c.ca, c.cert, c.key)
			clock.forward(checkEvery)
			if name, ce, se := shake(t, client, server); ce != nil || se != nil || name != "one" {
				t.Errorf("while half written: %v, %v, %q", ce, se, name)
			}
			if err := s.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Err %v, want %q", err, c.want)
			}
			write(t, dir, a.pem, newCert, newKey)
			clock.forward(checkEvery)
			if name, ce, se := shake(t, client, server); ce != nil || se != nil || name != "two" || s.Err() != nil {
				t.Errorf("when whole: %v, %v, %q, %v", ce, se, name, s.Err())
			}
		})
	}
}

func TestOpenNamesFileAndRemedy(t *testing.T) {
	a := newAuthority(t, "ca")
	cert, key := a.issue("one", later)
	_, otherKey := a.issue("two", later)
	junk := []byte("not pem\n")
	for _, c := range []struct {
		name, file, want string
		ca, cert, key    []byte
	}{
		{"no CA", "ca.crt", "file does not exist; check the path", nil, cert, key},
		{"no certificate", "tls.crt", "file does not exist; check the path", a.pem, nil, key},
		{"no key", "tls.key", "file does not exist; check the path", a.pem, cert, nil},
		{"CA not PEM", "ca.crt", "no certificate in PEM form", junk, cert, key},
		{"key for certificate", "tls.crt", "no certificate in PEM form", a.pem, key, key},
		{"certificate for key", "tls.key", "no private key in PEM form", a.pem, cert, cert},
		{"foreign key", "tls.key", "does not belong to certificate", a.pem, cert, otherKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(write(t, t.TempDir(), c.ca, c.cert, c.key))
			if err == nil || !strings.Contains(err.Error(), c.file) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s and %q", err, c.file, c.want)
			}
		})
	}
	if _, err := (Files{Cert: "a"}).Client(""); err == nil || !strings.Contains(err.Error(), "give both or neither") {
		t.Errorf("certificate without key: %v", err)
	}
	if _, err := (Files{}).Server(false); err == nil {
		t.Error("a server without certificate was made")
	}
}

func TestExpired(t *testing.T) {
	a := newAuthority(t, "ca")
	cert, key := a.issue("old", time.Now().Add(-time.Hour))
	f := write(t, t.TempDir(), a.pem, cert, key)
	client, server, s := pair(t, f, &clock{time.Now()})
	if err := s.Check(); !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), "tls.crt") || !strings.Contains(err.Error(), "renew it") {
		t.Errorf("Check: %v", err)
	}
	_, ce, _ := shake(t, client, server)
	if ce == nil || !strings.Contains(ce.Error(), "renew its certificate or set the clock") {
		t.Errorf("handshake: %v", ce)
	}
}

func TestPeerIsVerified(t *testing.T) {
	a, other := newAuthority(t, "ca"), newAuthority(t, "other")
	cert, key := a.issue("server", later)
	_, server, s := pair(t, write(t, t.TempDir(), a.pem, cert, key), &clock{time.Now()})

	if _, ce, _ := shake(t, s.Client("10.1.2.3"), server); ce == nil || !strings.Contains(ce.Error(), "10.1.2.3") {
		t.Errorf("wrong address: %v", ce)
	}
	if _, ce, _ := shake(t, s.Client("[::1]"), server); ce != nil {
		t.Errorf("address in brackets: %v", ce)
	}
	unnamed := s.Client("")
	if _, ce, _ := shake(t, unnamed, server); ce == nil || !strings.Contains(ce.Error(), "pass the address to Client") {
		t.Errorf("no name: %v", ce)
	}
	byName := unnamed.Clone()
	byName.ServerName = "localhost" // as http.Transport and grpc fill it in
	if _, ce, se := shake(t, byName, server); ce != nil || se != nil {
		t.Errorf("name from the dialler: %v, %v", ce, se)
	}

	cert, key = other.issue("stranger", later)
	stranger, err := write(t, t.TempDir(), a.pem, cert, key).Client("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, ce, se := shake(t, stranger, server); ce == nil || se == nil || !strings.Contains(se.Error(), "verify client stranger") {
		t.Errorf("foreign client: %v, %v", ce, se)
	}
	bare, err := (Files{CA: filepath.Join(filepath.Dir(s.files.CA), "ca.crt")}).Client("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, ce, se := shake(t, bare, server); ce == nil || se == nil {
		t.Errorf("client without certificate: %v, %v", ce, se)
	}
}

func TestVanishedFileKeepsLastGood(t *testing.T) {
	a := newAuthority(t, "ca")
	cert, key := a.issue("one", later)
	f := write(t, t.TempDir(), a.pem, cert, key)
	clock := &clock{time.Now()}
	client, server, s := pair(t, f, clock)
	if err := os.Remove(f.Key); err != nil {
		t.Fatal(err)
	}
	clock.forward(checkEvery)
	if _, ce, se := shake(t, client, server); ce != nil || se != nil {
		t.Errorf("handshake: %v, %v", ce, se)
	}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), f.Key) {
		t.Errorf("Check: %v", err)
	}
}

package kubeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
)

// secured starts a TLS server with a certificate for name and the loopbacks
// that wants a client certificate, and returns the files of its node.
func secured(t *testing.T, name string, h http.HandlerFunc) (server string, f pki.Files) {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.NewAuthority(dir, "authority", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if f, err = ca.Issue(filepath.Join(dir, "node"), name); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(f.ServerCert, f.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read(t, f.CA))
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, f
}

// leadsTo dials the server whatever address is asked for, as a balancer does.
func leadsTo(server string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(server, "https://"))
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestClientCertificatesFromFilesAndData(t *testing.T) {
	server, f := secured(t, ClusterName, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	})
	there := leadsTo(server)
	ca, cert, key := read(t, f.CA), read(t, f.ClientCert), read(t, f.ClientKey)
	for name, c := range map[string]Config{
		"all files":            {CAFile: f.CA, CertFile: f.ClientCert, KeyFile: f.ClientKey},
		"all data":             {CAData: ca, CertData: cert, KeyData: key},
		"data wins over files": {CAFile: "/missing", CAData: ca, CertFile: "/missing", KeyFile: "/missing", CertData: cert, KeyData: key},
		"CA data, cert file":   {CAData: ca, CertFile: f.ClientCert, KeyFile: f.ClientKey}, // a kubelet's
		"CA file, cert data":   {CAFile: f.CA, CertData: cert, KeyData: key},
		"by name":              {CAFile: f.CA, ServerName: ClusterName, CertData: cert, KeyData: key},
		"any server, file":     {CAFile: f.CA, Dial: there, AnyServer: true, CertData: cert, KeyData: key},
		"any server, data":     {CAData: ca, Dial: there, AnyServer: true, CertData: cert, KeyData: key},
	} {
		t.Run(name, func(t *testing.T) {
			c.Server = server
			if c.Dial != nil {
				c.Server = "https://10.0.0.1:6443" // which is not in the certificate
			}
			client, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			got, err := client.Get(t.Context(), "/x", nil)
			if err != nil || string(got) != "kube-etcd-healthcheck-client" {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

func TestClientRefusesAnotherServer(t *testing.T) {
	server, f := secured(t, "node", func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	_, other := secured(t, "node", nil)
	good := Config{Server: server, CertFile: f.ClientCert, KeyFile: f.ClientKey}
	for name, change := range map[string]func(*Config){
		"CA file":      func(c *Config) { c.CAFile = other.CA },
		"CA data":      func(c *Config) { c.CAData = read(t, other.CA) },
		"system roots": func(*Config) {},
		"any server":   func(c *Config) { c.CAFile, c.AnyServer = other.CA, true },
		"neither name": func(c *Config) {
			c.CAFile, c.AnyServer, c.Dial, c.Server = f.CA, true, leadsTo(server), "https://10.0.0.1:6443"
		},
		"name":       func(c *Config) { c.CAFile, c.ServerName = f.CA, "kubernetes" },
		"name, data": func(c *Config) { c.CAData, c.ServerName = read(t, f.CA), "kubernetes" },
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			change(&c)
			client, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Get(t.Context(), "/x", nil)
			if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	_, f := secured(t, "node", nil)
	cert := read(t, f.ClientCert)
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"CA data":      {Config{CAData: []byte("x")}, "certificate-authority-data: no certificate"},
		"half a pair":  {Config{CertData: cert}, "client-key-data: missing"},
		"another key":  {Config{CertData: cert, KeyData: read(t, f.ServerKey)}, "issued together"},
		"missing file": {Config{CertFile: "/missing.crt", KeyFile: "/missing.key"}, "/missing.crt"},
		"user":         {Config{Server: "https://u:p@h:1"}, "a URL with user"},
		"scheme":       {Config{Server: "ftp://h:1"}, "scheme is not https"},
	} {
		if c.config.Server == "" {
			c.config.Server = "https://127.0.0.1:1"
		}
		if _, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// plainServer is a server on loopback, for a client without credentials; with
// a token, tests reach around New's rule that tokens are never sent in the clear.
func plainServer(t *testing.T, c Config, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	client, err := New(Config{Server: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	client.config, client.token = c, c.Token
	return client
}

func TestTokenFileRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	var sent string
	client := plainServer(t, Config{Token: "first", TokenFile: path}, func(_ http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
	})
	for _, c := range []struct{ file, want string }{
		{"", "Bearer first"}, {"second\n", "Bearer second"}, {"third", "Bearer third"}, {"\n", "Bearer third"},
	} {
		if c.file != "" {
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := client.Get(t.Context(), "/x", nil); err != nil || sent != c.want {
			t.Errorf("file %q: sent %q, %v; want %q", c.file, sent, err, c.want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(t.Context(), "/x", nil); err != nil || sent != "Bearer third" {
		t.Errorf("file gone: sent %q, %v", sent, err)
	}
}

func TestClientWritesAndReadsRefusals(t *testing.T) {
	client := plainServer(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/old":
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"kind":"Status","reason":"Conflict","message":"changed\nmeanwhile"}`)
		case r.URL.Path == "/proxy":
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "a page with a secret")
		case r.URL.Path == "/elsewhere":
			http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
		case r.URL.Path == "/large":
			_, _ = w.Write(make([]byte, maxBody+1))
		default:
			_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("Content-Type")+" "+r.URL.String()+" "+string(body))
		}
	})
	got, err := client.Put(t.Context(), "/new", []byte("{}"))
	if err != nil || string(got) != "PUT application/json /new {}" {
		t.Errorf("put: %s, %v", got, err)
	}
	got, err = client.Create(t.Context(), "/new", []byte("{}"))
	if err != nil || string(got) != "POST application/json /new {}" {
		t.Errorf("create: %s, %v", got, err)
	}
	got, err = client.Get(t.Context(), "/new", url.Values{"a": {"b c"}})
	if err != nil || string(got) != "GET  /new?a=b+c " {
		t.Errorf("get: %s, %v", got, err)
	}
	for path, want := range map[string]string{
		"/old":       "put /old: 409 Conflict: changed meanwhile",
		"/proxy":     "put /proxy: 502 Bad Gateway",
		"/elsewhere": "put /elsewhere: 302 Found",
		"/large":     "put /large: answer too large: over 8388608 bytes",
	} {
		if _, err := client.Put(t.Context(), path, nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		} else if se, ok := errors.AsType[*StatusError](err); path == "/old" && (!ok || se.Reason != "Conflict" || se.RetryAfter != 3*time.Second) {
			t.Errorf("%s: %#v", path, err)
		}
	}
}

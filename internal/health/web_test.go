package health

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// amply is a time that only a broken test runs into.
const amply = 20 * time.Second

// serveTLS starts an HTTPS server with a certificate of a that asks clients
// for one without insisting, as a kube-apiserver does.
func serveTLS(t *testing.T, files creds.Files, h http.HandlerFunc, with ...func(*tls.Config)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert}
	for _, set := range with {
		set(s.TLS)
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// address returns where a test server listens.
func address(s *httptest.Server) string { return s.Listener.Addr().String() }

// prober opens a check of one server, and closes it at the end of the test.
func prober(t *testing.T, c Check, addr string) Prober {
	t.Helper()
	m, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
	p, err := m.Prober("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// probe makes one check that has ample time.
func probe1(t *testing.T, p Prober, fresh bool) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), amply)
	defer cancel()
	return p.Probe(ctx, fresh)
}

// says is a handler that gives one answer.
func says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// As kube-apiserver 1.35 words it.
const (
	shutdownOnly = "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]poststarthook/start-apiextensions-informers ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n"
	etcdAndMore  = "[+]ping ok\n[-]etcd failed: reason withheld\n[-]etcd-readiness failed: reason withheld\n[-]shutdown failed: reason withheld\nreadyz check failed\n"
)

func TestReadyzGrades(t *testing.T) {
	a := newAuthority(t)
	files := a.issue("server", tomorrow, false)
	tokenFile := filepath.Join(t.TempDir(), "token")
	a.write(tokenFile, []byte("very.secret.token\n"))
	ca := creds.Files{CA: files.CA}
	other := newAuthority(t)

	for _, c := range []struct {
		name    string
		check   Check
		code    int
		body    string
		grade   Grade
		reason  string // contained
		refused bool
	}{
		{"ready", Check{TLS: ca}, 200, "ok", Ready, "", false},
		{"anonymous", Check{TLS: ca}, 401, `{"kind":"Status"}`, Alive, "(401)", false},
		{"anonymous, forbidden", Check{TLS: ca}, 403, "", Alive, "(403)", false},
		{"token refused", Check{TLS: ca, TokenFile: tokenFile}, 401, "", Alive, "credentials refused (401)", true},
		{"certificate refused", Check{TLS: files}, 403, "", Alive, "credentials refused (403)", true},
		{"shutting down", Check{TLS: ca}, 500, shutdownOnly, ShuttingDown, "shuts down", false},
		{"not only shutting down", Check{TLS: ca}, 500, etcdAndMore, NotReady, "answers 500, failing: etcd, etcd-readiness, shutdown", false},
		{"no body", Check{TLS: ca}, 500, "", NotReady, "answers 500", false},
		{"redirect", Check{TLS: ca}, 302, "", NotReady, "answers 302", false},
		{"busy", Check{TLS: ca}, 429, "", NotReady, "answers 429", false},
		{"long body", Check{TLS: ca}, 200, strings.Repeat("x", 3*maxBody), Ready, "", false},
		{"wrong CA", Check{TLS: creds.Files{CA: other.issue("x", tomorrow, false).CA}}, 200, "ok", NotReady, "x509: certificate signed by unknown authority", false},
		{"wrong name", Check{TLS: ca, ServerName: "api.example"}, 200, "ok", NotReady, "not api.example", false},
		{"name given", Check{TLS: ca, ServerName: "kubernetes"}, 200, "ok", Ready, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serveTLS(t, files, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" {
					t.Errorf("asked for %s", r.URL.Path)
				}
				if got := r.Header.Get("Authorization"); (got == "Bearer very.secret.token") != (c.check.TokenFile != "") {
					t.Errorf("authorization %q", got)
				}
				says(c.code, c.body)(w, r)
			})
			c.check.Kind = HTTPS
			r := probe1(t, prober(t, c.check, address(s)), false)
			if r.Grade != c.grade || !strings.Contains(r.Reason, c.reason) || (c.reason == "") != (r.Reason == "") ||
				r.CredentialsRefused != c.refused || !r.Fresh || r.RTT <= 0 {
				t.Errorf("got %+v", r)
			}
			if strings.Contains(r.Reason, "secret") || strings.Contains(r.Reason, "\n") {
				t.Errorf("reason %q", r.Reason)
			}
		})
	}
}

func TestExpiredServerCertificate(t *testing.T) {
	a := newAuthority(t)
	files := a.issue("server", time.Now().Add(-time.Hour), false)
	s := serveTLS(t, files, says(200, "ok"))
	r := probe1(t, prober(t, Check{Kind: HTTPS, TLS: creds.Files{CA: files.CA}}, address(s)), false)
	if r.Grade != NotReady || !strings.Contains(r.Reason, "renew its certificate") {
		t.Errorf("got %+v", r)
	}
}

// raw starts a server that does with each connection what f says, and then
// closes it.
func raw(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { defer c.Close(); f(c) })
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return l.Addr().String()
}

// drain reads until the peer closes.
func drain(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// reset waits for the first byte, so that the dial is over.
func reset(c net.Conn) {
	_, _ = c.Read(make([]byte, 1))
	_ = c.(*net.TCPConn).SetLinger(0)
}

func TestServersThatDoNotAnswer(t *testing.T) {
	files := newAuthority(t).issue("server", tomorrow, false)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // its kernel accepts, nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	secure := Check{Kind: HTTPS, TLS: creds.Files{CA: files.CA}}
	hang := make(chan struct{})
	defer close(hang)
	stuck := serveTLS(t, files, func(http.ResponseWriter, *http.Request) { <-hang })

	for _, c := range []struct {
		name   string
		check  Check
		addr   string
		grade  Grade
		reason string
		stages []Stage
	}{
		{"refused", secure, gone.Addr().String(), Refused, "connection refused", []Stage{Dialling}},
		{"frozen", secure, silent.Addr().String(), Frozen, "no answer", []Stage{Dialling, Connected}},
		{"frozen after TLS", secure, address(stuck), Frozen, "no answer", []Stage{Dialling, Connected, Spoke}},
		{"frozen etcd", Check{Kind: Etcd, TLS: files}, silent.Addr().String(), Frozen, "no answer", []Stage{Dialling, Connected}},
		{"no TLS", secure, raw(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.0 400 Bad Request\r\n\r\n"); drain(c) }), NotReady, "does not speak TLS", []Stage{Dialling, Connected}},
		{"reset", secure, raw(t, reset), Refused, "reset", []Stage{Dialling, Connected}},
		{"closed", secure, raw(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }), Refused, "TLS handshake", []Stage{Dialling, Connected}},
		{"plain, closed", Check{Kind: HTTP}, raw(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }), Refused, "", []Stage{Dialling, Connected}},
		{"plain, nonsense", Check{Kind: HTTP}, raw(t, func(c net.Conn) { fmt.Fprint(c, "SSH-2.0-x\r\n"); drain(c) }), NotReady, "", []Stage{Dialling, Connected}},
		{"plain, endless", Check{Kind: HTTP}, raw(t, func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nX: ")
			for {
				if _, err := fmt.Fprint(c, strings.Repeat("x", 4096)); err != nil {
					return
				}
			}
		}), NotReady, "header of more than", []Stage{Dialling, Connected}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), amply)
			defer cancel()
			var stages []Stage
			r := prober(t, c.check, c.addr).Probe(WithReport(ctx, func(s Stage) {
				if stages = append(stages, s); c.grade == Frozen && len(stages) == len(c.stages) {
					cancel() // nothing more will come
				}
			}), false)
			if r.Grade != c.grade || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("got %+v", r)
			}
			if fmt.Sprint(stages) != fmt.Sprint(c.stages) {
				t.Errorf("stages %v, want %v", stages, c.stages)
			}
		})
	}
}

// counted is a server that counts its connections and can end them.
type counted struct {
	*httptest.Server
	conns atomic.Int32
	mu    sync.Mutex
	open  map[net.Conn]bool
	code  atomic.Int32
	bye   atomic.Bool // announce the end of the connection
	hang  chan struct{}
	held  chan struct{} // a value for each request that hangs
}

func newCounted(t *testing.T, files creds.Files) *counted {
	t.Helper()
	c := &counted{open: map[net.Conn]bool{}, hang: make(chan struct{}), held: make(chan struct{}, 10)}
	c.code.Store(200)
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.code.Load() == 0 {
			c.held <- struct{}{}
			<-c.hang
		}
		if c.bye.Load() {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(int(c.code.Load()))
	}))
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	c.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.Config.ConnState = func(conn net.Conn, s http.ConnState) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch s {
		case http.StateNew:
			c.conns.Add(1)
			c.open[conn] = true
		case http.StateClosed:
			delete(c.open, conn)
		}
	}
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

func (c *counted) standing() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// cut ends all connections from the server's side.
func (c *counted) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		conn.Close()
	}
}

// await waits for a condition.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(amply); !holds(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

func (c *counted) want(t *testing.T, r Result, grade Grade, fresh bool, conns int32) {
	t.Helper()
	if r.Grade != grade || r.Fresh != fresh || c.conns.Load() != conns || r.RTT <= 0 {
		t.Errorf("got %+v on connection %d, want %s, fresh %v, connection %d", r, c.conns.Load(), grade, fresh, conns)
	}
}

func nothingLost(t *testing.T, p Prober) {
	t.Helper()
	select {
	case <-p.Lost():
		t.Error("Lost says so of a connection that we ended, or that was announced to end")
	default:
	}
}

func TestConnectionIsKept(t *testing.T) {
	files := newAuthority(t).issue("server", tomorrow, false)
	s := newCounted(t, files)
	p := prober(t, Check{Kind: HTTPS, TLS: creds.Files{CA: files.CA}}, s.Listener.Addr().String())

	s.want(t, probe1(t, p, false), Ready, true, 1)
	s.want(t, probe1(t, p, false), Ready, false, 1)
	s.code.Store(500)
	s.want(t, probe1(t, p, false), NotReady, false, 1)
	s.want(t, probe1(t, p, true), NotReady, true, 2)
	await(t, "the older connection is closed", func() bool { return s.standing() == 1 })
	s.code.Store(200)
	s.want(t, probe1(t, p, false), Ready, false, 2)
	nothingLost(t, p)

	s.cut()
	select {
	case <-p.Lost():
	case <-time.After(amply):
		t.Fatal("the kept connection was lost, and nobody says so")
	}
	s.want(t, probe1(t, p, false), Ready, true, 3)

	s.bye.Store(true)
	s.want(t, probe1(t, p, false), Ready, false, 3)
	await(t, "the connection ends as announced", func() bool { return s.standing() == 0 })
	s.bye.Store(false)
	s.want(t, probe1(t, p, false), Ready, true, 4)
	nothingLost(t, p)
}

// TestStuckRequest has a request hang on the kept connection while a fresh one
// finds out, and takes its place.
func TestStuckRequest(t *testing.T) {
	files := newAuthority(t).issue("server", tomorrow, false)
	s := newCounted(t, files)
	p := prober(t, Check{Kind: HTTPS, TLS: creds.Files{CA: files.CA}}, s.Listener.Addr().String())
	s.want(t, probe1(t, p, false), Ready, true, 1)

	s.code.Store(0)
	ctx, cancel := context.WithCancel(t.Context())
	stuck := make(chan Result)
	go func() { stuck <- p.Probe(ctx, false) }()
	<-s.held
	s.code.Store(200)
	s.want(t, probe1(t, p, false), Ready, true, 2) // the kept one is busy
	s.want(t, probe1(t, p, false), Ready, false, 2)
	cancel()
	if r := <-stuck; r.Grade != Frozen || r.Fresh {
		t.Errorf("the stuck one: %+v", r)
	}
	close(s.hang)
	await(t, "the stuck connection is closed", func() bool { return s.standing() == 1 })
	s.want(t, probe1(t, p, false), Ready, false, 2)
	nothingLost(t, p)
}

// TestCutWhileAsked: a connection that ends under a request is no Lost; the
// answer says it.
func TestCutWhileAsked(t *testing.T) {
	files := newAuthority(t).issue("server", tomorrow, false)
	s := newCounted(t, files)
	defer close(s.hang)
	p := prober(t, Check{Kind: HTTPS, TLS: creds.Files{CA: files.CA}}, s.Listener.Addr().String())
	s.want(t, probe1(t, p, false), Ready, true, 1)
	s.code.Store(0)
	answer := make(chan Result)
	go func() { answer <- p.Probe(t.Context(), false) }()
	<-s.held
	s.cut()
	if r := <-answer; r.Grade != Refused || r.Fresh {
		t.Errorf("got %+v", r)
	}
	nothingLost(t, p)
}

func TestPlainPage(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/x?y=z" || r.Host != r.Context().Value(http.LocalAddrContextKey).(net.Addr).String() {
			t.Errorf("asked %s for %s", r.Host, r.URL)
		}
		w.WriteHeader(204)
	}))
	defer s.Close()
	for _, c := range []struct {
		codes []int
		want  Grade
	}{{nil, NotReady}, {[]int{200, 204}, Ready}} {
		if r := probe1(t, prober(t, Check{Kind: HTTP, Path: "/x?y=z", Codes: c.codes}, address(s)), false); r.Grade != c.want {
			t.Errorf("codes %v: %+v", c.codes, r)
		}
	}
}

func TestPreface(t *testing.T) {
	const hello = "PROXY UNKNOWN\r\n"
	got := make(chan string, 2)
	addr := raw(t, func(c net.Conn) {
		b := make([]byte, len(hello))
		_, _ = io.ReadFull(c, b)
		got <- string(b)
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		drain(c)
	})
	for _, kind := range []Kind{HTTP, TCP} {
		if r := probe1(t, prober(t, Check{Kind: kind, Preface: []byte(hello)}, addr), false); r.Grade != Ready {
			t.Errorf("%s: %+v", kind, r)
		}
		if g := <-got; g != hello {
			t.Errorf("%s: server got %q", kind, g)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: says(200, "ok"), ReadHeaderTimeout: amply}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	m, err := Check{Kind: HTTP}.Open()
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Prober("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if r := probe1(t, p, false); r.Grade != Ready {
		t.Errorf("got %+v", r)
	}
}

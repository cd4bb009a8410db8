package balance

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/access/balance/relay"
)

// apiserver is a TLS server with a /readyz that can be made to fail; every
// other path answers its name.
type apiserver struct {
	*httptest.Server
	unready atomic.Bool
}

func newAPIServer(t *testing.T, name string) *apiserver {
	t.Helper()
	a := &apiserver{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && a.unready.Load() {
			http.Error(w, "[-]etcd failed: reason withheld", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, name)
	}))
	a.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.StartTLS()
	t.Cleanup(a.Close)
	return a
}

func (a *apiserver) address() string { return a.Listener.Addr().String() }

// balancer is one process of the program, run within the test.
type balancer struct {
	t       *testing.T
	dir     string
	log     *syncBuffer
	stop    context.CancelFunc
	ended   chan error
	control string
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// home is a directory with the CA of the test servers; all balancers of a test
// share it.
func home(t *testing.T, servers ...*apiserver) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf") // a unix socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: servers[0].Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// settings are of one frontend on a unix socket.
func settings(dir string, backends ...string) string {
	list := ""
	for _, b := range backends {
		list += fmt.Sprintf("    - {address: %q}\n", b)
	}
	return fmt.Sprintf("drain: 5s\ncontrol: %[1]s/control\ntelemetry: {listen: \"127.0.0.1:0\"}\nfrontends:\n- listen: [\"unix:%[1]s/api\"]\n  check: {ca: %[1]s/ca.crt}\n  backends:\n    state: none\n    static:\n%[2]s", dir, list)
}

func write(t *testing.T, dir, text string) {
	t.Helper()
	fresh := filepath.Join(dir, "new.yaml")
	if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, filepath.Join(dir, "balance.yaml")); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, dir string, upgrade bool) *balancer {
	t.Helper()
	return startWith(t, dir, "balance.yaml", upgrade, nil)
}

// startWith starts a balancer with another file of the directory; around, if
// not nil, is called instead of reading the settings and may do so.
func startWith(t *testing.T, dir, file string, upgrade bool, around func(func() (Settings, error)) (Settings, error)) *balancer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	b := &balancer{t: t, dir: dir, log: &syncBuffer{}, stop: stop, ended: make(chan error, 1), control: filepath.Join(dir, "control")}
	cmd := &cobra.Command{}
	s, q := defaultSettings(), &quick{path: filepath.Join(dir, file), upgrade: upgrade}
	load := func() (Settings, error) { return q.load(cmd, &s) }
	if around != nil {
		inner := load
		load = func() (Settings, error) { return around(inner) }
	}
	go func() { b.ended <- run(ctx, b.log, q, load) }()
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("balancer:\n%s", b.log)
		}
	})
	return b
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

func (b *balancer) status() (Status, error) {
	var s Status
	err := ask(b.t.Context(), b.control, http.MethodGet, "/status", &s)
	return s, err
}

// await waits until every backend has the grade given for its address.
func (b *balancer) await(want map[string]string) {
	b.t.Helper()
	until(b.t, fmt.Sprint("grades ", want), func() error {
		s, err := b.status()
		if err != nil {
			return err
		}
		have := map[string]string{}
		for _, be := range s.Frontends[0].Backends {
			if !be.Leaving {
				have[be.ID] = be.Grade.String()
			}
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			return fmt.Errorf("have %v", have)
		}
		return nil
	})
}

// dial opens a TLS connection through the frontend.
func (b *balancer) dial(name string) (*tls.Conn, error) {
	raw, err := net.DialTimeout("unix", filepath.Join(b.dir, "api"), 5*time.Second)
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, ServerName: name})
	return conn, conn.Handshake()
}

// who asks over a connection which server answers.
func who(conn net.Conn) (string, error) {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return "", err
	}
	buf := make([]byte, 1024)
	n, err := conn.Read(buf)
	if err != nil {
		return "", err
	}
	_, body, _ := strings.Cut(string(buf[:n]), "\r\n\r\n")
	return body, nil
}

// ask opens a connection and asks who answers.
func (b *balancer) who() string {
	b.t.Helper()
	conn, err := b.dial("x")
	if err != nil {
		b.t.Fatalf("connect: %v", err)
	}
	defer func() { _ = conn.Close() }()
	name, err := who(conn)
	if err != nil {
		b.t.Fatalf("ask: %v", err)
	}
	return name
}

func TestServesWhatIsReady(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address(), two.address()))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready", two.address(): "ready"})
	one.unready.Store(true)
	b.await(map[string]string{one.address(): "not ready", two.address(): "ready"})
	for range 20 {
		if got := b.who(); got != "two" {
			t.Fatalf("%s answered while it is not ready", got)
		}
	}
	one.unready.Store(false)
	b.await(map[string]string{one.address(): "ready", two.address(): "ready"})
	two.CloseClientConnections()
	two.Close()
	for range 20 {
		if got := b.who(); got != "one" {
			t.Fatalf("%s answered, which is gone", got)
		}
	}
	b.await(map[string]string{one.address(): "ready", two.address(): "refused"})
	s, err := b.status()
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := s.print(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{one.address() + ": not ready, was ready: ", one.address() + ": ready, was not ready\n", two.address() + ": refused, was ready: "} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}

func TestEstablishedConnectionsOfAFailedBackendAreReset(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address(), two.address()))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready", two.address(): "ready"})
	conns := map[string]net.Conn{}
	for len(conns) < 2 {
		conn, err := b.dial("x")
		if err != nil {
			t.Fatal(err)
		}
		name, err := who(conn)
		if err != nil {
			t.Fatal(err)
		}
		conns[name] = conn
	}
	one.unready.Store(true)
	if _, err := conns["one"].Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection to the failed backend: %v, want a reset", err)
	}
	if got, err := who(conns["two"]); err != nil || got != "two" {
		t.Errorf("the other connection: %q, %v", got, err)
	}
}

func TestDrainAndUndrain(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address(), two.address()))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready", two.address(): "ready"})
	command := func(args ...string) error {
		cmd := Command()
		cmd.SetArgs(append(args, "--control", b.control))
		cmd.SetOut(io.Discard)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		return cmd.ExecuteContext(t.Context())
	}
	idle := map[string]net.Conn{}
	for len(idle) < 2 {
		conn, err := b.dial("x")
		if err != nil {
			t.Fatal(err)
		}
		name, err := who(conn)
		if err != nil {
			t.Fatal(err)
		}
		idle[name] = conn
	}
	// An idle connection would never end by itself.
	if err := command("drain", one.address(), "--wait", "10s"); err != nil {
		t.Fatal(err)
	}
	if _, err := who(idle["one"]); err == nil {
		t.Error("the idle connection to the drained backend goes on")
	}
	if got, err := who(idle["two"]); err != nil || got != "two" {
		t.Errorf("the other idle connection: %q, %v", got, err)
	}
	for range 20 {
		if got := b.who(); got != "two" {
			t.Fatalf("%s answered although it is drained", got)
		}
	}
	if err := command("undrain", one.address()); err != nil {
		t.Fatal(err)
	}
	until(t, "the undrained backend serves", func() error {
		if got := b.who(); got != "one" {
			return fmt.Errorf("%s answered", got)
		}
		return nil
	})
	err := command("drain", "192.0.2.1:1")
	if err == nil || !strings.Contains(err.Error(), `no backend "192.0.2.1:1"`) {
		t.Errorf("an unknown backend: %v", err)
	}
}

func TestReloadKeepsWhatWorks(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address()))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready"})
	conn, err := b.dial("x")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"frontends: [", settings(dir), strings.Replace(settings(dir, one.address()), "ca.crt", "none.crt", 1),
		strings.Replace(settings(dir, one.address()), "unix:"+dir+"/api", "192.0.2.1:1", 1),
	} {
		before, _ := b.status()
		write(t, dir, bad)
		until(t, "the mistake is told", func() error {
			s, err := b.status()
			if err == nil && (s.Settings.Error == "" || s.Settings.Tried == before.Settings.Tried) {
				err = fmt.Errorf("%+v", s.Settings)
			}
			return err
		})
		if got := b.who(); got != "one" {
			t.Fatalf("%s answered", got)
		}
	}
	write(t, dir, settings(dir, one.address(), two.address()))
	b.await(map[string]string{one.address(): "ready", two.address(): "ready"})
	if got, err := who(conn); err != nil || got != "one" {
		t.Errorf("the connection from before: %q, %v", got, err)
	}
	write(t, dir, settings(dir, two.address()))
	b.await(map[string]string{two.address(): "ready"})
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection to the backend that left the list goes on")
	}
}

func TestUpgradeLosesNothing(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address()))
	old := start(t, dir, false)
	old.await(map[string]string{one.address(): "ready"})
	kept, err := old.dial("x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var failed atomic.Value
	var made atomic.Int64
	wg.Go(func() {
		for ctx.Err() == nil {
			conn, err := old.dial("x")
			if err == nil {
				_, err = who(conn)
				_ = conn.Close()
			}
			made.Add(1)
			if err != nil {
				failed.Store(err)
				return
			}
		}
	})
	fresh := start(t, dir, true)
	until(t, "the newer process answers", func() error {
		if text := fresh.log.String(); !strings.Contains(text, "took over from the process before") {
			return fmt.Errorf("log: %s", text)
		}
		return nil
	})
	target := made.Load() + 50
	until(t, "clients go on", func() error {
		if made.Load() < target && failed.Load() == nil {
			return fmt.Errorf("%d connections", made.Load())
		}
		return nil
	})
	cancel()
	wg.Wait()
	if err := failed.Load(); err != nil {
		t.Errorf("a client failed: %v", err)
	}
	if got, err := who(kept); err != nil || got != "one" {
		t.Errorf("the connection from before: %q, %v", got, err)
	}
	_ = kept.Close()
	select {
	case err := <-old.ended:
		if err != nil {
			t.Errorf("the older process: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the older process has not ended after its last connection")
	}
	fresh.await(map[string]string{one.address(): "ready"})
}

func TestStopDrains(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address()))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready"})
	conn, err := b.dial("x")
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	until(t, "new connections are refused", func() error {
		c, err := b.dial("x")
		if err == nil {
			_ = c.Close()
			return fmt.Errorf("one was accepted")
		}
		return nil
	})
	if got, err := who(conn); err != nil || got != "one" {
		t.Errorf("the connection from before: %q, %v", got, err)
	}
	_ = conn.Close()
	select {
	case err := <-b.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the process has not ended after its last connection")
	}
	if _, err := os.Stat(b.control); err == nil {
		t.Error("the control socket is still there")
	}
}

func TestRoutesByName(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address())+fmt.Sprintf("  routes:\n  - names: [\"*.two.example\"]\n    check: {ca: %s/ca.crt}\n    backends: {static: [{address: %q}]}\n", dir, two.address()))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready"})
	for name, want := range map[string]string{"api.two.example": "two", "other.example": "one"} {
		conn, err := b.dial(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := who(conn); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %s", name, got, err, want)
		}
		_ = conn.Close()
	}
}

func TestStartRefuses(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address()))
	first := start(t, dir, false)
	first.await(map[string]string{one.address(): "ready"})
	again := start(t, dir, false)
	if err := <-again.ended; err == nil || !strings.Contains(err.Error(), "a balancer answers at") {
		t.Errorf("a second process: %v", err)
	}
	taken := one.address() // somebody listens there
	write(t, dir, strings.NewReplacer("unix:"+dir+"/api", taken, dir+"/control", dir+"/other").Replace(settings(dir, "192.0.2.1:1")))
	if err := <-start(t, dir, false).ended; err == nil || !strings.Contains(err.Error(), "listen") || !strings.Contains(err.Error(), taken) {
		t.Errorf("a taken port: %v", err)
	}
	if got := first.who(); got != "one" {
		t.Errorf("%s answered", got)
	}
}

// The registry refuses two series of one name and labels, and so checks that
// pools, routes and leaving backends keep out of each other's way.
func TestMetrics(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir := home(t, one)
	p := bare(t, dir)
	route := fmt.Sprintf("  routes:\n  - names: [two.example]\n    check: {ca: %s/ca.crt}\n    backends: {static: [{address: %q}]}\n", dir, two.address())
	p.take(t, dir, settings(dir, one.address(), two.address())+route)
	p.stats.saw(relay.Event{Kind: relay.DialFailed, Frontend: "kube-apiserver"})
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, f := range families {
		text += fmt.Sprintln(f)
	}
	for _, want := range []string{
		"holdfast_balance_backend_usable", "holdfast_balance_backend_broken_total", "holdfast_balance_settings_good",
		`value:"kube-apiserver/two.example"`, `value:"dial_failed"`, `value:"` + one.address() + `"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// The timers of others begin with an opinion instead of a check.
func TestProfileAnchorsServesAtOnce(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir := home(t, one)
	write(t, dir, "profile: anchors\n"+strings.Replace(settings(dir, one.address(), two.address()), "  check: {ca: "+dir+"/ca.crt}\n", "", 1))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready", two.address(): "ready"})
	until(t, "both serve", func() error {
		got := map[string]bool{b.who(): true, b.who(): true}
		if len(got) < 2 {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
}

// A mistyped control path is somebody's file.
func TestControlLeavesFilesAlone(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	path := filepath.Join(dir, "precious")
	for _, file := range []string{path, path + ".new"} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		write(t, dir, strings.Replace(settings(dir, one.address()), dir+"/control", path, 1))
		if err := <-start(t, dir, false).ended; err == nil || !strings.Contains(err.Error(), "is no socket") {
			t.Errorf("%s: %v", file, err)
		}
		if data, err := os.ReadFile(file); string(data) != "x" {
			t.Errorf("%s: %q, %v; want it untouched", file, data, err)
		}
		_ = os.Remove(file)
	}
}

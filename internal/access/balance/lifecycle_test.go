package balance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/access/balance/source"
)

// freePort is a TCP port that nobody has.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// bare is a process whose engine runs and which serves nothing yet.
func bare(t *testing.T, dir string) *process {
	t.Helper()
	cmd := &cobra.Command{}
	s, q := defaultSettings(), &quick{path: filepath.Join(dir, "balance.yaml")}
	p, err := newProcess(q.path, func() (Settings, error) { return q.load(cmd, &s) }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var end context.CancelFunc
	p.life, end = context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.engine.Run(p.life) })
	t.Cleanup(func() { p.halt(); end(); wg.Wait() })
	return p
}

// take puts settings in force.
func (p *process) take(t *testing.T, dir, text string) {
	t.Helper()
	write(t, dir, text)
	s, err := p.load()
	if err == nil {
		err = p.apply(s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func page(url string) (code int, body string, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// A person sees the drain, load balancers are told to go elsewhere, and no
// change of the settings opens a listener again.
func TestDrainIsSeenAndTakesNoSettings(t *testing.T) {
	one := newAPIServer(t, "one")
	dir, port := home(t, one), freePort(t)
	text := strings.NewReplacer("drain: 5s", "drain: 1m", "127.0.0.1:0", "127.0.0.1:"+port).Replace(settings(dir, one.address()))
	write(t, dir, text)
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready"})
	until(t, "ready", func() error {
		code, body, err := page("http://127.0.0.1:" + port + "/readyz")
		if err == nil && code != http.StatusOK {
			err = errors.New(body)
		}
		return err
	})
	conn, err := b.dial("x")
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	var checks uint64
	until(t, "status says draining", func() error {
		s, err := b.status()
		if err == nil && !s.Draining {
			err = errors.New("it does not")
		}
		if err == nil {
			checks = s.Frontends[0].Backends[0].Checks
		}
		return err
	})
	if code, body, err := page("http://127.0.0.1:" + port + "/readyz"); err != nil || code != http.StatusServiceUnavailable || !strings.Contains(body, "serving: draining") {
		t.Errorf("readyz: %d, %s, %v", code, body, err)
	}
	write(t, dir, text+"  maxConns: 7\n")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "some seconds have passed", func() error {
		if c, err := b.dial("x"); err == nil {
			_ = c.Close()
			t.Fatal("a client was accepted")
		}
		s, err := b.status()
		if err == nil && s.Frontends[0].Backends[0].Checks < checks+3 {
			err = errors.New("not yet")
		}
		return err
	})
	if s, err := b.status(); err != nil || !s.Settings.Tried.IsZero() {
		t.Errorf("settings were read: %+v, %v", s.Settings, err)
	}
	_ = conn.Close()
	if err := b.end(); err != nil {
		t.Error(err)
	}
}

func TestClosingTakesNoSettings(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	p := bare(t, dir)
	p.take(t, dir, settings(dir, one.address()))
	s, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.prepare(s, nil) // a reload that was under way
	if err != nil {
		t.Fatal(err)
	}
	p.close()
	if err := p.commit(c); !errors.Is(err, errClosing) {
		t.Errorf("the one under way: %v", err)
	}
	if err := p.apply(s); !errors.Is(err, errClosing) {
		t.Errorf("a later one: %v", err)
	}
	if _, err := net.Dial("unix", filepath.Join(dir, "api")); err == nil {
		t.Error("somebody listens")
	}
}

// A reload would open addresses under the hands of the newer process.
func TestReloadWaitsForAHandOver(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	p := bare(t, dir)
	p.take(t, dir, settings(dir, one.address()))
	end, err := p.beginOffer()
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.apply(s) }()
	b := &balancer{t: t, dir: dir}
	for range 20 {
		_ = b.who()
	}
	if len(done) > 0 {
		t.Error("it has not waited")
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// SIGHUP while the settings are first read is no death, and no loss.
func TestSignalBeforeTheStart(t *testing.T) {
	spare := make(chan os.Signal, 1) // what would end the test if nobody listened
	signal.Notify(spare, syscall.SIGHUP)
	defer signal.Stop(spare)
	one := newAPIServer(t, "one")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address()))
	var once sync.Once
	b := startWith(t, dir, "balance.yaml", false, func(load func() (Settings, error)) (Settings, error) {
		once.Do(func() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGHUP)
			<-spare
		})
		return load()
	})
	until(t, "the settings are read again", func() error {
		s, err := b.status()
		if err == nil && s.Settings.Tried.IsZero() {
			err = errors.New("they are not")
		}
		return err
	})
}

// What reads files may hang; what answers and ends may not.
func TestSettingsOnAFileSystemThatHangs(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address()))
	var reads atomic.Int64
	b := startWith(t, dir, "balance.yaml", false, func(load func() (Settings, error)) (Settings, error) {
		if reads.Add(1) > 1 {
			<-t.Context().Done()
		}
		return load()
	})
	b.await(map[string]string{one.address(): "ready"})
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "it reads", func() error {
		if reads.Load() < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if _, err := b.status(); err != nil {
		t.Error(err)
	}
	b.stop()
	if err := b.end(); err != nil {
		t.Error(err)
	}
}

// hung is a source that does not even end.
type hung struct{ runs, free chan struct{} }

func (hung) Name() string          { return "hung" }
func (hung) Status() source.Status { return source.Status{Name: "hung"} }

func (h hung) Run(context.Context, func([]source.Backend)) error {
	close(h.runs)
	<-h.free
	return errors.New("freed")
}

func TestSourceThatHangs(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	p := bare(t, dir)
	p.take(t, dir, settings(dir, one.address()))
	stuck := hung{make(chan struct{}), make(chan struct{})}
	defer close(stuck.free)
	pool := p.pools["kube-apiserver"]
	pool.start(p.life, pool.cfg, pool.profile, pool.method, source.NewSet(source.Options{Sources: []source.Source{stuck}}))
	<-stuck.runs
	done := make(chan error)
	go func() {
		s, err := p.load()
		if err == nil {
			err = p.apply(s)
		}
		done <- err
	}()
	_ = p.status() // waits for no source
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := len(p.status().Frontends[0].Backends); got != 1 {
		t.Errorf("%d backends", got)
	}
}

func TestSight(t *testing.T) {
	for _, c := range []struct{ looks, reads string }{
		{"a a a", "..."},
		{"b b b", ".r."},
		{"b c c d d", "..r.r"},
		{"- - b b", "...r"},
		{"b a a", "..."},
		{"b - b b", "...r"},
	} {
		s, got := sight{taken: "a", last: "a"}, ""
		for _, now := range strings.Fields(c.looks) {
			got += map[bool]string{true: "r", false: "."}[s.look(strings.Trim(now, "-"))]
			if want := map[bool]time.Duration{true: settleAfter, false: watchEvery}[now != "-" && now != s.taken]; s.pause() != want {
				t.Errorf("%s: after %s a pause of %s", c.looks, now, s.pause())
			}
		}
		if got != c.reads {
			t.Errorf("%s: %s, want %s", c.looks, got, c.reads)
		}
	}
}

// A file is read whole, and whatever has changed since its stamp was taken.
func TestFollow(t *testing.T) {
	dir := home(t, newAPIServer(t, "one"))
	p := bare(t, dir)
	path := filepath.Join(dir, "balance.yaml")
	put := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var read []string
		p.load = func() (Settings, error) {
			text, _ := os.ReadFile(path)
			mu.Lock()
			defer mu.Unlock()
			read = append(read, string(text))
			return Settings{}, errors.New("enough")
		}
		put("first")
		seen := stamp(path)
		put("second, while the first was being read")
		ctx, stop := context.WithCancel(t.Context())
		reread := make(chan struct{}, 1)
		go p.follow(ctx, sight{taken: seen, last: seen}, reread)
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if fmt.Sprint(read) != fmt.Sprint(want) {
				t.Errorf("read %q, want %q", read, want)
			}
			read = nil
		}
		const off = settleAfter / 4 // never at the moment of a look
		time.Sleep(watchEvery + settleAfter + off)
		expect("second, while the first was being read")
		put("half")
		time.Sleep(watchEvery + 2*off)
		put("half and half")
		time.Sleep(settleAfter)
		expect()
		time.Sleep(settleAfter)
		expect("half and half")
		put("told")
		reread <- struct{}{}
		expect("told")
		stop()
		synctest.Wait()
	})
}

// 127.0.0.1 and 0.0.0.0 of one port cannot be had at once, not even from
// oneself.
func TestReloadToAnOverlappingAddress(t *testing.T) {
	one := newAPIServer(t, "one")
	dir, port := home(t, one), freePort(t)
	p := bare(t, dir)
	at := func(ip string) string {
		return strings.Replace(settings(dir, one.address()), "/api\"]", "/api\", \""+ip+":"+port+"\"]", 1)
	}
	reachable := func(ip string) bool {
		conn, err := net.Dial("tcp", ip+":"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	p.take(t, dir, at("127.0.0.1"))
	p.take(t, dir, at("0.0.0.0"))
	if !reachable("127.0.0.1") || !reachable("127.0.0.9") {
		t.Error("not all addresses are served")
	}
	p.take(t, dir, at("127.0.0.1"))
	if !reachable("127.0.0.1") || reachable("127.0.0.9") {
		t.Error("not the one address is served")
	}
	stranger, err := net.Listen("tcp", "127.0.0.9:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close() }()
	write(t, dir, at("0.0.0.0"))
	p.reload()
	if s := p.status(); !strings.Contains(s.Settings.Error, "0.0.0.0:"+port) {
		t.Errorf("a taken port: %q", s.Settings.Error)
	}
	if !reachable("127.0.0.1") {
		t.Error("the address that was to give way is not served any more")
	}
}

func twoFrontends(dir, a, b string, servers ...*apiserver) string {
	text := strings.Replace(settings(dir, servers[0].address()), "- listen: [\"unix:"+dir+"/api\"]", fmt.Sprintf("- name: a\n  listen: [\"unix:%s/%s\"]", dir, a), 1)
	return text + fmt.Sprintf("- name: b\n  listen: [\"unix:%s/%s\"]\n  check: {ca: %s/ca.crt}\n  backends: {state: none, static: [{address: %q}]}\n", dir, b, dir, servers[1].address())
}

func TestAddressesMoveBetweenFrontends(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir := home(t, one)
	p := bare(t, dir)
	b := &balancer{t: t, dir: dir}
	p.take(t, dir, twoFrontends(dir, "api", "other", one, two))
	if got := b.who(); got != "one" {
		t.Errorf("before: %s", got)
	}
	p.take(t, dir, twoFrontends(dir, "other", "api", one, two))
	if got := b.who(); got != "two" {
		t.Errorf("after: %s", got)
	}
}

// A route that comes before another takes nothing from it.
func TestRoutesKeepTheirPools(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir := home(t, one)
	p := bare(t, dir)
	b := &balancer{t: t, dir: dir}
	route := func(names string, a *apiserver) string {
		return fmt.Sprintf("  - names: [%s]\n    check: {ca: %s/ca.crt}\n    backends: {state: none, static: [{address: %q}]}\n", names, dir, a.address())
	}
	base := settings(dir, one.address()) + "  routes:\n"
	p.take(t, dir, base+route("b.example, z.example", two))
	conn, err := b.dial("b.example")
	if err != nil {
		t.Fatal(err)
	}
	pool := p.frontends["kube-apiserver"].routes[0]
	p.take(t, dir, base+route("a.example", one)+route("z.example, b.example", two))
	if f := p.frontends["kube-apiserver"]; len(f.routes) != 2 || f.routes[1] != pool || f.routes[0] == pool {
		t.Errorf("the pools are %v", f.routes)
	}
	if got, err := who(conn); err != nil || got != "two" {
		t.Errorf("the connection from before: %q, %v", got, err)
	}
	s := p.status()
	if len(s.Frontends) != 3 || s.Frontends[2].Name != "kube-apiserver/b.example" || s.Frontends[2].Backends[0].Total != 1 {
		t.Errorf("%+v", s.Frontends)
	}
}

// A frontend that is removed is seen until its last connection has ended, and
// leaves nothing behind; one that comes back meanwhile takes up where it was.
func TestRemovedFrontend(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir := home(t, one)
	p := bare(t, dir)
	b := &balancer{t: t, dir: dir}
	both, only := twoFrontends(dir, "other", "api", one, two), strings.Replace(settings(dir, one.address()), "/api", "/other", 1)
	only = strings.Replace(only, "- listen", "- name: a\n  listen", 1)
	p.take(t, dir, both)
	conn, err := b.dial("x")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p.take(t, dir, only)
		p.forgetRetired()
		s := p.status()
		if len(s.Frontends) != 2 || !s.Frontends[1].Removed || s.Frontends[1].Backends[0].Connections != 1 || !s.Frontends[1].Backends[0].Leaving {
			t.Fatalf("%+v", s.Frontends)
		}
		if s.verdict() != nil && strings.Contains(s.verdict().Error(), "frontend b") {
			t.Error(s.verdict())
		}
		if _, err := p.registry.Gather(); err != nil {
			t.Error(err)
		}
		p.take(t, dir, both)
		if s := p.status(); len(s.Frontends) != 2 || s.Frontends[1].Removed || s.Frontends[1].Backends[0].Connections != 1 {
			t.Fatalf("back again: %+v", s.Frontends)
		}
	}
	p.take(t, dir, only)
	if got, err := who(conn); err != nil || got != "two" {
		t.Errorf("its connection: %q, %v", got, err)
	}
	_ = conn.Close()
	until(t, "it is forgotten", func() error {
		p.forgetRetired()
		if s := p.status(); len(s.Frontends) != 1 {
			return fmt.Errorf("%+v", s.Frontends)
		}
		return nil
	})
	n := 0
	p.checkers.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d checkers, want that of the one backend", n)
	}
}

func TestReadyNeedsEveryRoute(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	p := bare(t, dir)
	one.unready.Store(true)
	p.take(t, dir, settings(dir, one.address())+fmt.Sprintf("  routes:\n  - names: [b.example]\n    check: {ca: %s/ca.crt}\n    backends: {state: none, static: [{address: %q}]}\n", dir, "127.0.0.1:"+freePort(t)))
	p.ready.Set(condServing, nil)
	for _, want := range []string{"frontend kube-apiserver has no", "frontend kube-apiserver/b.example has no"} {
		until(t, want, func() error {
			p.judgeReady()
			if err := p.ready.Err(); err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("readyz: %w", err)
			}
			return nil
		})
		one.unready.Store(false)
	}
}

func TestPulse(t *testing.T) {
	var v pulse
	for i := range 3 * mostMissed {
		if err := v.look(i%mostMissed == 0, i%mostMissed == 0); err != nil {
			t.Fatalf("look %d: %v", i, err)
		}
	}
	v = pulse{}
	for i := range mostMissed {
		if err := v.look(false, true); (err != nil) != (i == mostMissed-1) {
			t.Errorf("loops, look %d: %v", i, err)
		}
	}
	v = pulse{}
	for i := range mostMissed {
		if err := v.look(true, false); (err != nil) != (i == mostMissed-1) {
			t.Errorf("steering, look %d: %v", i, err)
		}
	}
	if err := v.look(true, true); err != nil {
		t.Errorf("back again: %v", err)
	}
}

func TestTelemetryOff(t *testing.T) {
	p := bare(t, home(t, newAPIServer(t, "one")))
	p.serveTelemetry(t.Context(), "") // returns at once
	select {
	case <-p.quiet:
	default:
		t.Error("a newer process would wait for its port")
	}
}

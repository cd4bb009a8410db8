package balance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/access/balance/relay"
)

// elder plays the older process: it listens at dir/api, answers one request on
// the control socket with an offer, and then does as told. As a process that
// dies does, it closes all when told returns.
func elder(t *testing.T, dir string, offers bool, then func(*net.UnixConn)) {
	t.Helper()
	file, err := relay.Listen("unix:"+filepath.Join(dir, "api"), false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "control"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	go func() {
		defer func() { _ = file.Close() }()
		defer func() { _ = l.Close() }()
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		if offers {
			fds, _ := numbers([]*os.File{file})
			text, _ := json.Marshal(offer{Listen: []string{"unix:" + filepath.Join(dir, "api")}})
			_, _, _ = conn.WriteMsgUnix(append(text, '\n'), unix.UnixRights(fds...), nil)
		}
		then(conn)
	}()
}

// younger plays a newer process that has got an offer.
func younger(b *balancer) *net.UnixConn {
	b.t.Helper()
	raw, err := net.Dial("unix", b.control)
	if err != nil {
		b.t.Fatal(err)
	}
	h := &handover{conn: raw.(*net.UnixConn), listeners: map[string]*os.File{}}
	b.t.Cleanup(h.close)
	if err := h.receive(); err != nil {
		b.t.Fatal(err)
	}
	if h.count == 0 {
		b.t.Fatal("no listener came")
	}
	return h.conn
}

func (b *balancer) logs(what string) {
	b.t.Helper()
	until(b.t, "log "+what, func() error {
		if text := b.log.String(); !strings.Contains(text, what) {
			return fmt.Errorf("it says %s", text)
		}
		return nil
	})
}

// end is how the process ended.
func (b *balancer) end() error {
	b.t.Helper()
	select {
	case err := <-b.ended:
		return err
	case <-time.After(20 * time.Second):
		b.t.Fatal("the process goes on")
		return nil
	}
}

// Whoever holds the sockets serves, when nobody else can.
func TestUpgradeThoughTheOldProcessDies(t *testing.T) {
	for name, then := range map[string]func(*net.UnixConn){
		"before go": func(*net.UnixConn) {},
		"after go":  func(conn *net.UnixConn) { _, _ = bufio.NewReader(conn).ReadString('\n') },
	} {
		t.Run(name, func(t *testing.T) {
			one := newAPIServer(t, "one")
			dir := home(t, one)
			write(t, dir, settings(dir, one.address()))
			elder(t, dir, true, then)
			b := start(t, dir, true)
			b.logs("did not say farewell")
			if got := b.who(); got != "one" {
				t.Errorf("%s answered", got)
			}
			b.await(map[string]string{one.address(): "ready"})
		})
	}
}

func TestUpgradeRefused(t *testing.T) {
	for name, c := range map[string]struct {
		offers bool
		then   func(*net.UnixConn)
		want   string
	}{
		"at once": {false, func(conn *net.UnixConn) {
			_, _ = fmt.Fprint(conn, "HTTP/1.1 409 Conflict\r\nContent-Length: 5\r\nConnection: close\r\n\r\nbusy\n")
			_ = conn.Close()
		}, "upgrade: refused: busy; the running process goes on"},
		"at the end": {true, func(conn *net.UnixConn) {
			_ = conn.CloseRead()
			_, _ = fmt.Fprintln(conn, "no: too late")
		}, "upgrade: the running process goes on: too late"},
	} {
		t.Run(name, func(t *testing.T) {
			one := newAPIServer(t, "one")
			dir := home(t, one)
			write(t, dir, settings(dir, one.address()))
			elder(t, dir, c.offers, func(conn *net.UnixConn) {
				c.then(conn)
				<-t.Context().Done() // it lives on
			})
			if err := start(t, dir, true).end(); err == nil || err.Error() != c.want {
				t.Errorf("ended with %v, want %s", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "control.new")); err == nil {
				t.Error("a control socket was left behind")
			}
		})
	}
}

// No "go" is lost, however late the old process looks for it, and none that
// comes later is believed to have arrived.
func TestGoDoesNotCross(t *testing.T) {
	pair := func() (old, fresh *net.UnixConn) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		var conns []*net.UnixConn
		for _, fd := range fds {
			f := os.NewFile(uintptr(fd), "pair")
			c, err := net.FileConn(f)
			_ = f.Close()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			conns = append(conns, c.(*net.UnixConn))
		}
		return conns[0], conns[1]
	}
	old, fresh := pair()
	if _, err := fmt.Fprintln(fresh, "go"); err != nil {
		t.Fatal(err)
	}
	if err := awaitGo(old, -time.Second); err != nil {
		t.Errorf("it had been said: %v", err)
	}
	old, fresh = pair()
	if err := awaitGo(old, -time.Second); err == nil {
		t.Error("nobody had said it")
	}
	if _, err := fmt.Fprintln(fresh, "go"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("said too late: %v, want a broken pipe", err)
	}
}

// One that takes the sockets and hangs takes no client, and no second one is
// let in beside it.
func TestOneOfferAtATime(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address()))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready"})
	hangs := younger(b)
	err := start(t, dir, true).end()
	if want := "upgrade: refused: another upgrade is under way; wait for its end; the running process goes on"; err == nil || err.Error() != want {
		t.Errorf("a second upgrade ended with %v, want %s", err, want)
	}
	if got := b.who(); got != "one" {
		t.Errorf("%s answered", got)
	}
	_ = hangs.Close()
	b.logs("hand-over broken off; this process goes on")
	fresh := start(t, dir, true)
	fresh.logs("took over from the process before")
	if err := b.end(); err != nil {
		t.Error(err)
	}
	fresh.await(map[string]string{one.address(): "ready"})
}

// A process that is asked to stop while it hands over goes through with it.
func TestStopDuringHandOver(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address()))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready"})
	fresh := younger(b)
	b.stop()
	b.logs("drained")
	if _, err := fmt.Fprintln(fresh, "go"); err != nil {
		t.Fatal(err)
	}
	_ = fresh.SetDeadline(time.Now().Add(20 * time.Second))
	if line, err := bufio.NewReader(fresh).ReadString('\n'); line != "gone\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := b.end(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.control); err != nil {
		t.Errorf("it has removed the control socket, which is the other's now: %v", err)
	}
}

// A newer process that waits for verdicts accepts nobody, and when it is
// stopped meanwhile the old one goes on.
func TestStopBeforeGo(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address()))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready"})
	// A list that never comes keeps it waiting.
	never := strings.Replace(settings(dir), "    static:\n", "    file: "+dir+"/none\n", 1)
	if err := os.WriteFile(filepath.Join(dir, "fresh.yaml"), []byte(never), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := startWith(t, dir, "fresh.yaml", true, nil)
	until(t, "it has the sockets", func() error {
		_, err := os.Stat(filepath.Join(dir, "control.new"))
		return err
	})
	for range 10 {
		if got := b.who(); got != "one" {
			t.Errorf("%s answered", got)
		}
	}
	fresh.stop()
	if err := fresh.end(); err != nil {
		t.Error(err)
	}
	b.logs("hand-over broken off; this process goes on")
	if got := b.who(); got != "one" {
		t.Errorf("%s answered", got)
	}
	if _, err := b.status(); err != nil {
		t.Error(err)
	}
}

func TestUpgradeNeedsItsControlSocketFirst(t *testing.T) {
	one := newAPIServer(t, "one")
	dir := home(t, one)
	write(t, dir, settings(dir, one.address()))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready"})
	if err := os.MkdirAll(filepath.Join(dir, "control.new", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := start(t, dir, true).end(); err == nil || !strings.HasPrefix(err.Error(), "control: ") {
		t.Errorf("ended with %v", err)
	}
	b.logs("hand-over broken off; this process goes on")
	if got := b.who(); got != "one" {
		t.Errorf("%s answered", got)
	}
}

// Sockets that the new settings do not name are closed, holds go along, and an
// address that overlaps the old one is listened on in the end.
func TestUpgradeToOtherSettings(t *testing.T) {
	one, two := newAPIServer(t, "one"), newAPIServer(t, "two")
	dir, port := home(t, one), freePort(t)
	listen := func(more string) string {
		return strings.Replace(settings(dir, one.address(), two.address()), "/api\"]", "/api\", "+more+"]", 1)
	}
	write(t, dir, listen(fmt.Sprintf("\"unix:%s/old\", \"127.0.0.1:%s\"", dir, port)))
	b := start(t, dir, false)
	b.await(map[string]string{one.address(): "ready", two.address(): "ready"})
	if err := ask(t.Context(), b.control, http.MethodPost, "/hold?backend="+one.address(), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fresh.yaml"), []byte(listen("\"0.0.0.0:"+port+"\"")), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := startWith(t, dir, "fresh.yaml", true, nil)
	fresh.logs("settings taken")
	if err := b.end(); err != nil {
		t.Error(err)
	}
	for range 10 {
		if got := fresh.who(); got != "two" {
			t.Errorf("%s answered although it is held", got)
		}
	}
	if _, err := net.Dial("unix", filepath.Join(dir, "old")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the address that nobody wants: %v", err)
	}
	for _, ip := range []string{"127.0.0.1", "127.0.0.9"} {
		conn, err := net.Dial("tcp", ip+":"+port)
		if err != nil {
			t.Errorf("all addresses: %v", err)
			continue
		}
		_ = conn.Close()
	}
	s, err := fresh.status()
	if err != nil || s.Settings.Error != "" || !strings.Contains(fmt.Sprint(s.Frontends[0].Listen), "0.0.0.0") {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestBridge(t *testing.T) {
	for _, c := range []struct{ want, handed, interim string }{
		{"127.0.0.1:1 127.0.0.1:2", "127.0.0.1:1", "127.0.0.1:1 127.0.0.1:2"},
		{"0.0.0.0:1", "127.0.0.1:1 127.0.0.2:1", "127.0.0.1:1 127.0.0.2:1"},
		{"127.0.0.1:1 127.0.0.2:1", ":1", ":1"},
		{":1 unix:/a", "unix:/a", ":1 unix:/a"},
	} {
		handed := map[string]*os.File{}
		for _, a := range strings.Fields(c.handed) {
			handed[a] = os.Stdin
		}
		s, bridged := bridge(Settings{Frontends: []Frontend{{Listen: strings.Fields(c.want)}}}, handed)
		if got := strings.Join(s.Frontends[0].Listen, " "); got != c.interim || bridged != (c.interim != c.want) {
			t.Errorf("%+v: %s, %v", c, got, bridged)
		}
	}
}

func TestSuccession(t *testing.T) {
	dir := home(t, newAPIServer(t, "one"))
	p := bare(t, dir)
	alive := make(chan error)
	started := 0
	start := func() error { started++; return nil }
	begin := func() error {
		return p.succeedBy(start, func() int { return 4711 }, func() error { return <-alive })
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	if err := begin(); err == nil || !strings.Contains(err.Error(), "with pid 4711") || started != 1 {
		t.Errorf("a second one: %v, %d started", err, started)
	}
	alive <- errors.New("exit status 2")
	until(t, "another one may start", func() error { return begin() })
	alive <- nil
	until(t, "it has ended", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.child != 0 {
			return errors.New("it has not")
		}
		return nil
	})
	end, err := p.beginOffer()
	if err != nil {
		t.Fatal(err)
	}
	if err := begin(); err == nil || !strings.Contains(err.Error(), "another upgrade is under way") {
		t.Errorf("while one takes over: %v", err)
	}
	end()
	p.close()
	if err := begin(); err == nil || !strings.Contains(err.Error(), "drains") || started != 2 {
		t.Errorf("while it drains: %v, %d started", err, started)
	}
	for args, want := range map[string]string{"balance run": "balance run --upgrade", "balance run --upgrade": "balance run --upgrade"} {
		if got := strings.Join(successorArgs(strings.Fields(args)), " "); got != want {
			t.Errorf("%s: %s", args, got)
		}
	}
}

func FuzzDecodeOffer(f *testing.F) {
	f.Add([]byte("{\"listen\":[\"127.0.0.1:7445\"],\"held\":{\"kube-apiserver\":[\"10.0.0.1:6443\"]}}\n"), 1)
	f.Add([]byte("{\"listen\":[]}\n"), 1)
	f.Add([]byte("HTTP/1.1 409 Conflict\r\nContent-Length: 5\r\n\r\nbusy\n"), 0)
	f.Add([]byte("HTTP/1.1 404\r\n"), 0)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, text []byte, sockets int) {
		o, err := decodeOffer(text, sockets)
		if err == nil && len(o.Listen) != sockets {
			t.Errorf("%d addresses for %d sockets", len(o.Listen), sockets)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than a line: %q", err)
		}
	})
}

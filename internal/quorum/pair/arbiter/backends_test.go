package arbiter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/server"
)

// backends are the places that a record may be kept in, each a real one: a function
// starts it and returns the settings of an object that is not there yet.
var backends = map[string]func(t *testing.T) Settings{
	"server":    func(t *testing.T) Settings { return serve(t, t.TempDir()) },
	"s3":        startS3,
	"etcd":      func(t *testing.T) Settings { return startEtcd(t).settings() },
	"configmap": func(t *testing.T) Settings { return startAPIServer(t, startEtcd(t)) },
}

// logged is what a server says, for the test to wait on.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}

// serve runs our own server on dir until the test ends.
func serve(t *testing.T, dir string) Settings {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a token that nobody guesses\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freeAddress(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	log := &logged{}
	go func() {
		done <- server.Run(ctx, log, server.Settings{Listen: addr, Dir: dir, TokenFile: token})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	until(t, "the server serves", func() bool { return log.has("serving") })
	return Settings{URL: "http://" + addr + "/pairs/prod", TokenFile: token}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func open(t *testing.T, s Settings) Store {
	t.Helper()
	opened, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// put swaps, and finds the version where the store does not give it.
func put(t *testing.T, s Store, was Version, data string) Version {
	t.Helper()
	v, err := s.Swap(soon(t), was, []byte(data))
	if err != nil {
		t.Fatalf("swap to %.40q: %v", data, err)
	}
	got, version, err := s.Read(soon(t))
	if err != nil || string(got) != data {
		t.Fatalf("read %.40q, %v after a swap to %.40q", got, err, data)
	}
	if v != "" && v != version {
		t.Fatalf("the swap gave version %q, the read %q", v, version)
	}
	return version
}

// loses wants a swap to change nothing, and to say so.
func loses(t *testing.T, s Store, was Version) {
	t.Helper()
	before, version, err := s.Read(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Swap(soon(t), was, []byte("from "+string(was))); !errors.Is(err, ErrLost) {
		t.Errorf("swap from version %q of an object of version %q: %v, not ErrLost", was, version, err)
	}
	if after, v, err := s.Read(soon(t)); err != nil || v != version || string(after) != string(before) {
		t.Errorf("it is %.40q %q %v after, %.40q %q before", after, v, err, before, version)
	}
}

// TestBackends asks of every back end what package store promises. Each is started once,
// and each question has an object of its own.
func TestBackends(t *testing.T) {
	for name, start := range backends {
		t.Run(name, func(t *testing.T) {
			settings := start(t)
			for i, q := range []struct {
				name string
				ask  func(*testing.T, Settings)
			}{
				{"compares and swaps", comparesAndSwaps},
				{"passes the race", passesTheRace},
				{"missing answers are settled by nonce", missingAnswersAreSettled},
				{"reads on a dead connection", readsOnADeadConnection},
			} {
				own := settings
				own.URL = strings.Replace(own.URL, "prod", fmt.Sprintf("prod%d", i), 1)
				t.Run(q.name, func(t *testing.T) { q.ask(t, own) })
			}
		})
	}
}

func comparesAndSwaps(t *testing.T, settings Settings) {
	a, b := open(t, settings), open(t, settings)
	if data, v, err := a.Read(soon(t)); err != nil || data != nil || v != "" {
		t.Fatalf("before there is any: %q %q %v", data, v, err)
	}
	if a.Name() == "" {
		t.Error("no name")
	}
	one := put(t, a, "", "one")
	loses(t, b, "")
	two := put(t, b, one, "two")
	loses(t, a, one)
	again := put(t, a, two, "two") // perhaps another version, perhaps the same
	beside, err := a.Beside("-selftest")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = beside.Close() }()
	put(t, beside, "", "beside")
	loses(t, beside, again)
	full := put(t, a, again, strings.Repeat("x", MaxRecord))
	put(t, a, full, "{}\n")
}

func passesTheRace(t *testing.T, settings Settings) {
	a, b := open(t, settings), open(t, settings)
	if trial, err := Race(soon(t), a, RoundsAtStart); err != nil || trial.Rounds != RoundsAtStart {
		t.Fatalf("%+v %v", trial, err)
	}
	// Two agents start at once.
	var both sync.WaitGroup
	for _, s := range []Store{a, b} {
		both.Go(func() {
			trial, err := Race(soon(t), s, RoundsAtStart)
			t.Logf("%+v", trial)
			if err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
}

// A store that is not there is neither an object that is not there, nor a change that
// may have been made.
func TestUnreachable(t *testing.T) {
	s := open(t, Settings{URL: "http://" + freeAddress(t) + "/x"})
	if _, _, err := s.Read(soon(t)); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	if _, err := s.Swap(soon(t), "", nil); !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

// The first of two members is dead, at the first question and at each later one. (It is
// asked again where the second failed.)
func TestDeadMemberOfEtcdCostsLittle(t *testing.T) {
	e := startEtcd(t)
	settings := e.settings()
	first, last, _ := strings.Cut(settings.URL, e.addr)
	s := open(t, settings)
	put(t, s, "", "one")
	settings.URL = first + "127.0.0.1:2" + last
	dead := open(t, settings)
	for range 4 {
		began := time.Now()
		if _, _, err := s.Read(soon(t)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := dead.Read(soon(t)); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "\n") {
			t.Fatal(err)
		}
		// Half a second and the question for the cause, for each of the two.
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it took %s, of the 20 s there were", took)
		}
	}
}

func TestOpenNamesTheMistake(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("two\nlines\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s    Settings
		want string
	}{
		{Settings{}, "url is empty"},
		{Settings{URL: "gopher://h/x"}, "gopher"},
		{Settings{URL: "https://%/x"}, "invalid URL escape"},
		{Settings{URL: "https://h"}, "name the object"},
		{Settings{URL: "https:///x"}, "no host"},
		{Settings{URL: "http://10.0.0.1/x"}, "use https"},
		{Settings{URL: "https://me:secret@h/x"}, "by a file"},
		{Settings{URL: "https://h/x?versionId=3"}, "query"},
		{Settings{URL: "https://h/x", Username: "me"}, "give both"},
		{Settings{URL: "https://h/x", Username: "a:b", PasswordFile: "open.go"}, "passwordFile"},
		{Settings{URL: "https://h/x", Username: "me", PasswordFile: file, TokenFile: file}, "give one"},
		{Settings{URL: "https://h/x", TokenFile: file}, "one line"},
		{Settings{URL: "https://h/x", TokenFile: "/nowhere"}, "tokenFile"},
		{Settings{URL: "https://h/x", CAFile: "/nowhere"}, "check the path"},
		{Settings{URL: "https://h/x", CertFile: "/nowhere"}, "give both"},
	} {
		_, err := Open(c.s)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%+v: %v, want a line with %q", c.s, err, c.want)
		}
	}
}

// Whatever stands in the URL, it is opened or refused, and nothing is sent.
func FuzzOpen(f *testing.F) {
	for _, s := range []string{
		"https://h:1/pairs/prod", "http://127.0.0.1/x", "s3://b/k?endpoint=https://h&region=r&style=virtual", "s3://b/k?region=x",
		"etcd+https://h:1,[::1]:2/k", "etcd+http://127.0.0.1:1/k", "configmap://n/m?kubeconfig=/nowhere&context=c", "", ":", "etcd+", "s3://",
	} {
		f.Add(s)
	}
	f.Setenv("AWS_ACCESS_KEY_ID", "id")
	f.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	f.Fuzz(func(t *testing.T, url string) {
		s, err := Open(Settings{URL: url})
		if err != nil {
			return
		}
		defer func() { _ = s.Close() }()
		beside, err := s.Beside(scratch)
		if err != nil || s.Name() == "" || beside.Name() == s.Name() {
			t.Errorf("%q: %v", url, err)
		}
	})
}

package arbiter

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// liar is a server with a fault of one kind; the zero value has none.
type liar struct {
	ignoresMatch, ignoresNone, ignoresAbsence bool
	gap                                       func() // between looking and writing
	weak, nameless                            bool
	stale, drops, denies                      bool

	mu      sync.Mutex
	objects map[string]liarObject
	before  map[string]liarObject
	count   int
}

type liarObject struct {
	data []byte
	etag string
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		l.get(w, r)
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(400)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, there := l.objects[r.URL.Path]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case none == "*" && there && !l.ignoresNone,
		match != "" && there && match != now.etag && !l.ignoresMatch,
		match != "" && !there && !l.ignoresAbsence && !l.ignoresMatch:
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	if l.gap != nil {
		l.mu.Unlock()
		l.gap()
		l.mu.Lock()
	}
	l.count++
	next := liarObject{data, fmt.Sprintf(`"%d"`, l.count)}
	if !l.drops || !there {
		l.before[r.URL.Path] = now
		l.objects[r.URL.Path] = next
	}
	if l.denies {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	l.name(w, next.etag)
	w.WriteHeader(http.StatusOK)
}

func (l *liar) name(w http.ResponseWriter, etag string) {
	if l.weak {
		etag = "W/" + etag
	}
	if !l.nameless {
		w.Header().Set("ETag", etag)
	}
}

func (l *liar) get(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.objects[r.URL.Path]
	if old := l.before[r.URL.Path]; l.stale && old.etag != "" {
		o = old
	}
	if o.etag == "" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	l.name(w, o.etag)
	_, _ = w.Write(o.data)
}

func lie(t *testing.T, l *liar) Settings {
	t.Helper()
	l.objects, l.before = map[string]liarObject{}, map[string]liarObject{}
	s := httptest.NewServer(l)
	t.Cleanup(s.Close)
	return Settings{URL: s.URL + "/pairs/prod"}
}

func TestRaceFindsLiars(t *testing.T) {
	// As long as the disk needs: what a gateway does that looks at a file, then writes it.
	disk, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	sync := func() {
		_, _ = disk.WriteString("x")
		_ = disk.Sync()
	}
	for name, l := range map[string]*liar{
		"ignores If-Match":              {ignoresMatch: true},
		"ignores If-None-Match":         {ignoresNone: true},
		"makes what If-Match asked for": {ignoresAbsence: true},
		"looks, then writes":            {gap: sync},
		"weak ETag":                     {weak: true},
		"no ETag":                       {nameless: true},
		"reads from a cache":            {stale: true},
		"drops what it acknowledged":    {drops: true},
		"refuses what it makes":         {denies: true},
	} {
		t.Run(name, func(t *testing.T) {
			trial, err := Race(soon(t), open(t, lie(t, l)), RoundsAtStart)
			if !errors.Is(err, ErrUnfit) {
				t.Fatalf("%+v %v, want ErrUnfit", trial, err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
		})
	}
	if trial, err := Race(soon(t), open(t, lie(t, &liar{})), RoundsByHand); err != nil || trial.Rounds != RoundsByHand {
		t.Errorf("an honest one: %+v %v", trial, err)
	}
}

// balancer hands connections to the addresses in turn, as in front of two gateways.
func balancer(t *testing.T, to ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var n atomic.Int64
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go pipe(in, to[int(n.Add(1))%len(to)])
		}
	}()
	return l.Addr().String()
}

func pipe(in net.Conn, to string) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(in, out)
	_ = out.Close()
}

// Two versitygw on one directory are fit as they come, and not without their lock files;
// nor is one without a place for its ETags.
func TestRaceOfRealGateways(t *testing.T) {
	credentials := keysFile(t, accessKey, secretKey)
	for name, c := range map[string]struct {
		flags  []string
		rounds int
		fit    bool
	}{
		"as they come": {nil, RoundsByHand, true},
		// Each gateway is right by itself, and the window between the two is short: a round
		// in ten hits it.
		"without lock files": {[]string{"--disable-object-lock-file"}, 500, false},
		"without metadata":   {[]string{"--nometa"}, RoundsByHand, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			addr := balancer(t, versitygw(t, dir, nil, c.flags...), versitygw(t, dir, nil, c.flags...))
			s := open(t, Settings{URL: "s3://bucket/pairs/prod?endpoint=http://" + addr, CredentialsFile: credentials})
			trial, err := Race(soon(t), s, c.rounds)
			t.Logf("%+v %v", trial, err)
			if c.fit != (err == nil) || !c.fit && !errors.Is(err, ErrUnfit) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRaceThatCannotBeHeldSaysNothing(t *testing.T) {
	if _, err := Race(soon(t), open(t, Settings{URL: "http://" + freeAddress(t) + "/x"}), 5); err == nil || errors.Is(err, ErrUnfit) {
		t.Error(err)
	}
	s := serve(t, t.TempDir())
	s.TokenFile = ""
	if _, err := Race(soon(t), open(t, s), 5); !errors.Is(err, ErrDenied) || errors.Is(err, ErrUnfit) {
		t.Error(err)
	}
}

// What rests on the pair itself could not be read when it matters.
func TestRests(t *testing.T) {
	pair, other := startEtcd(t), startEtcd(t)
	client := pair.dial(t)
	for name, c := range map[string]struct {
		s     Settings
		rests bool
	}{
		"the pair's etcd":                   {pair.settings(), true},
		"another etcd":                      {other.settings(), false},
		"a ConfigMap in the pair's cluster": {startAPIServer(t, pair), true},
		"the same, encrypted at rest":       {startAPIServer(t, pair, "--etcd-prefix=/encrypted", "--encryption-provider-config="+encryption(t)), true},
		"a ConfigMap elsewhere":             {startAPIServer(t, other), false},
		"our server":                        {serve(t, t.TempDir()), false},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				err := Rests(soon(t), open(t, c.s), client)
				if c.rests != errors.Is(err, ErrUnfit) || !c.rests && err != nil {
					t.Fatal(err)
				}
				if err != nil && strings.Contains(err.Error(), "\n") {
					t.Errorf("more than a line: %q", err)
				}
			}
		})
	}
}

// encryption is a file by which an apiserver writes no ConfigMap in the clear.
func encryption(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	write(t, path, `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [configmaps]
  providers:
  - secretbox:
      keys: [{name: one, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]
  - identity: {}
`)
	return path
}

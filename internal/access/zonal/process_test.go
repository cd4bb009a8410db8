package zonal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// Without an API the process waits, says so, and is not ready.
func TestWaitsForAnAPIThatIsNotThere(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "current-context: m\ncontexts: [{name: m, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := defaultSettings()
	s.API.Kubeconfig, s.Lease.Namespace, s.Telemetry.Listen = kubeconfig, "x", "127.0.0.1:0"
	var log lines
	ctx, cancel := context.WithCancel(t.Context())
	p := newProcess(s, slog.New(slog.NewTextHandler(&log, nil)))
	done := make(chan struct{})
	go func() { p.run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	deadline := time.After(10 * time.Second)
	for {
		st := p.status()
		if len(st.Conditions) >= 3 {
			if st.Complete || p.cond.ready.Err() == nil || st.verdict() == nil || exit.Code(st.verdict()) != exit.Unknown {
				t.Errorf("%+v, ready: %v", st, p.cond.ready.Err())
			}
			break
		}
		select {
		case <-deadline:
			t.Fatalf("%+v\n%s", st, log.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	if n := strings.Count(log.String(), "Services cannot be read"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *lines) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// passes looks and acts once a second of the bubble's time.
func (w *world) passes(t *testing.T, p *process, n int) {
	t.Helper()
	for range n {
		w.look(p.view)
		if err := p.act(t.Context(), w, Decide(p.view.snapshot())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	w.look(p.view)
}

// What the API refuses for one Service does not hold up the others, and is told
// with the right that is missing.
func TestOneRefusalHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.real(t, "bad", "true", object{})
		w.real(t, "good", "true", object{})
		w.fail = func(verb, path string) error {
			if verb == "create" && strings.HasSuffix(path, "/bad-zonal") {
				return &kubeapi.StatusError{Op: "create x", Code: http.StatusForbidden, Message: "no"}
			}
			return nil
		}
		p := newProcess(defaultSettings(), slog.New(slog.DiscardHandler))
		w.passes(t, p, 3)
		if w.objects[slicesPath+"good-zonal"] == nil || w.objects[servicesPath+"bad-zonal"] != nil {
			t.Errorf("%v", w.objects)
		}
		st := p.describe(Decide(p.view.snapshot()))
		if len(st) != 2 || st[0].State != Refused || st[0].Reason != "WriteRefused" || st[1].State != Kept {
			t.Errorf("%+v", st)
		}
		want := "may not create services in namespace shop: apply what `holdfast zonal manifest` prints"
		if got := p.cond.all()[condRights]; !strings.HasPrefix(got, want) || !strings.HasPrefix(st[0].Message, want) {
			t.Errorf("%q, %q", got, st[0].Message)
		}
		w.fail = nil
		w.passes(t, p, int(deniedWait/time.Second)+2)
		if len(p.cond.all()) != 0 || w.objects[slicesPath+"bad-zonal"] == nil {
			t.Errorf("%v, %v", p.cond.all(), w.objects)
		}
		// One that cannot be reached ends the pass, to be tried again soon.
		w.fail = func(string, string) error { return fmt.Errorf("connection refused") }
		w.real(t, "new", "true", object{})
		w.look(p.view)
		if err := p.act(t.Context(), w, Decide(p.view.snapshot())); err == nil || p.cond.all()[condWrites] == "" {
			t.Errorf("%v, %v though nobody answers", err, p.cond.all())
		}
	})
}

// A replica that does not act knows less, and says so.
func TestAStandbyCannotTellWhyAMirrorIsPending(t *testing.T) {
	w := newWorld()
	w.real(t, "web", "true", object{})
	p := newProcess(defaultSettings(), slog.New(slog.DiscardHandler))
	w.look(p.view)
	if err := p.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := p.status()
	if m := st.Mirrors[0]; m.State != Pending || m.Reason != "StandingBy" || !strings.Contains(m.Message, "no replica acts now") {
		t.Errorf("%+v", m)
	}
	st.Mirrors[0].Message = ""
	st.Holder = "holdfast-zonal-7c9-x2k8q_1f0a"
	st.Mirrors[0].standBy(&st)
	err := st.verdict()
	if exit.Code(err) != exit.Unknown || !strings.Contains(err.Error(), "ask the one that acts, holdfast-zonal-7c9-x2k8q") {
		t.Errorf("verdict %v", err)
	}
	// What it sees for itself it can tell.
	w.settle(p.view)
	if err := p.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := p.status(); st.verdict() != nil || st.Mirrors[0].State != Kept {
		t.Errorf("%+v, %v", st.Mirrors, st.verdict())
	}
}

func TestStatusForPeople(t *testing.T) {
	s := Status{
		Version: 1, Identity: "n1_ab", Holder: "n2_cd", Complete: true, Datapath: datapath.Datapath{Kind: datapath.Cilium, Major: 1, Minor: 19}.String(), Prefer: "PreferClose",
		Mirrors: []MirrorStatus{
			{Namespace: "shop", Service: "api", Mirror: "api-zonal", State: Refused, Reason: "Headless", Message: "a headless Service; mend it"},
			{Namespace: "shop", Service: "web", Mirror: "web-zonal", State: Kept, Endpoints: []string{"10.96.0.5", "fd00::5"}, Warnings: []string{"no ready endpoint in zone b"}},
		},
		Conditions: map[string]string{"nodes": "may not list nodes"},
	}
	var out bytes.Buffer
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	want := `replica n1_ab stands by for n2_cd; datapath cilium 1.19 (set trafficDistribution PreferClose)
NAMESPACE  SERVICE  MIRROR     STATE               ENDPOINTS
shop       api      api-zonal  refused (Headless)  
shop       web      web-zonal  kept                10.96.0.5 fd00::5
shop/api: a headless Service; mend it
shop/web: warning: no ready endpoint in zone b
condition nodes: may not list nodes
`
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
	if err := s.verdict(); exit.Code(err) != exit.Failed {
		t.Errorf("verdict %v", err)
	}
	data, err := json.Marshal(Status{Version: 1, Mirrors: []MirrorStatus{}, Conditions: map[string]string{}})
	if err != nil || string(data) != `{"version":1,"identity":"","acting":false,"complete":false,"datapath":"","traffic_distribution":"","mirrors":[],"conditions":{}}` {
		t.Errorf("%s, %v", data, err)
	}
}

package kube

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// api is an API server that knows one Lease, and nothing of merge patches but
// what a Lease needs.
type api struct {
	mu      sync.Mutex
	object  map[string]any
	version int
	bodies  []string
	changed chan struct{}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Query().Get("watch") == "true" {
		a.stream(w, r)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var patch map[string]any
	_ = json.Unmarshal(body, &patch)
	if len(body) > 0 {
		a.bodies = append(a.bodies, r.Method+" "+string(body))
	}
	switch one := strings.HasSuffix(r.URL.Path, "/leases/vip"); {
	case r.Method == http.MethodGet && !one:
		items := []any{}
		if a.object != nil {
			items = append(items, a.object)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]string{"resourceVersion": strconv.Itoa(a.version + 1)}, "items": items})
		return
	case r.Method == http.MethodPost && a.object != nil:
		refuse(w, http.StatusConflict)
		return
	case r.Method == http.MethodPost:
		a.put(patch)
	case a.object == nil:
		refuse(w, http.StatusNotFound)
		return
	case r.Method == http.MethodPatch && patch["metadata"].(map[string]any)["resourceVersion"] != strconv.Itoa(a.version):
		refuse(w, http.StatusConflict)
		return
	case r.Method == http.MethodPatch:
		a.put(merge(a.object, patch).(map[string]any))
	}
	_ = json.NewEncoder(w).Encode(a.object)
}

// stream sends the Lease as it is when it changes.
func (a *api) stream(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-a.changed:
		case <-r.Context().Done():
			return
		}
		a.mu.Lock()
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": a.object})
		a.mu.Unlock()
		w.(http.Flusher).Flush()
	}
}

func (a *api) put(object map[string]any) {
	a.version++
	object["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(a.version)
	a.object = object
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// merge is RFC 7386.
func merge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if t, ok := target.(map[string]any); ok {
		for k, v := range t {
			out[k] = v
		}
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = merge(out[k], v)
		}
	}
	return out
}

func refuse(w http.ResponseWriter, code int) {
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","code":%d}`, code)
}

func newStore(t *testing.T) (*Store, *api) {
	t.Helper()
	a := &api{changed: make(chan struct{}, 1)}
	server := httptest.NewTLSServer(a)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	path := filepath.Join(dir, "config")
	ca := filepath.Join(dir, "ca.crt")
	write(t, ca, pemOf(server))
	write(t, path, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x",
"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":%q,"certificate-authority":%q}}],
"users":[{"name":"x","user":{"token":"secret"}}]}`, server.URL, ca))
	return &Store{Cluster: &kubeapi.Cluster{Kubeconfig: path}, Namespace: "kube-system", Name: "vip"}, a
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func record() lease.Record {
	return lease.Record{
		Holder: "a", Turn: 3, Mark: lease.Mark{Incarnation: 1, Serial: 2}, Duration: 2500 * time.Millisecond,
		Peers: []lease.Peer{{Name: "a", Address: netip.MustParseAddrPort("10.0.0.1:8947")}}, Key: []byte("key"),
	}
}

func TestStore(t *testing.T) {
	s, a := newStore(t)
	ctx := t.Context()
	if seen, err := s.Read(ctx); err != nil || seen.Version != 0 {
		t.Fatalf("%+v, %v", seen, err)
	}
	if _, err := s.Write(ctx, record(), 7); !errors.Is(err, lease.ErrConflict) {
		t.Errorf("a write to what is not there: %v", err)
	}
	seen, err := s.Write(ctx, record(), 0)
	if err != nil || !reflect.DeepEqual(seen.Record, record()) {
		t.Fatalf("%+v, %v", seen, err)
	}
	if _, err := s.Write(ctx, record(), 0); !errors.Is(err, lease.ErrConflict) {
		t.Errorf("made twice: %v", err)
	}
	a.mu.Lock()
	a.object["metadata"].(map[string]any)["labels"] = map[string]any{"kept": "yes"}
	a.mu.Unlock()
	free := record()
	free.Holder, free.Turn = "", 4
	next, err := s.Write(ctx, free, seen.Version)
	if err != nil || next.Version <= seen.Version || !reflect.DeepEqual(next.Record, free) {
		t.Fatalf("%+v, %v", next, err)
	}
	if _, err := s.Write(ctx, record(), seen.Version); !errors.Is(err, lease.ErrConflict) {
		t.Errorf("a write to an old version: %v", err)
	}
	if again, err := s.Read(ctx); err != nil || !reflect.DeepEqual(again, next) {
		t.Errorf("%+v, %v", again, err)
	}
	if a.object["metadata"].(map[string]any)["labels"] == nil {
		t.Error("a label was lost")
	}
	spec := a.object["spec"].(map[string]any)
	if spec["leaseDurationSeconds"] != 3.0 || spec["leaseTransitions"] != 4.0 || spec["holderIdentity"] != nil {
		t.Errorf("%v", spec)
	}
}

func TestForeignLeases(t *testing.T) {
	s, a := newStore(t)
	if _, err := s.Write(t.Context(), record(), 0); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{
		`{"metadata":{},"spec":{"holderIdentity":"kube-vip-1"}}`,
		`{"metadata":{},"spec":{"holderIdentity":null}}`,
		`{"metadata":{"annotations":{"holdfast.dev/address":"{}"}}}`,
		`{"metadata":{"annotations":null}}`,
	} {
		var patch map[string]any
		if err := json.Unmarshal([]byte(change), &patch); err != nil {
			t.Fatal(err)
		}
		a.mu.Lock()
		a.put(merge(a.object, patch).(map[string]any))
		a.mu.Unlock()
		seen, err := s.Read(t.Context())
		if err != nil || seen.Foreign == "" || len(seen.Record.Peers) != 0 || seen.Version == 0 {
			t.Errorf("%s: %+v, %v", change, seen, err)
		}
	}
}

func TestWatch(t *testing.T) {
	s, _ := newStore(t)
	told := make(chan lease.Seen, 16)
	go s.Watch(t.Context(), func(seen lease.Seen) { told <- seen })
	if seen := <-told; seen.Version != 0 {
		t.Errorf("%+v", seen)
	}
	seen, err := s.Write(t.Context(), record(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-told; !reflect.DeepEqual(got, seen) {
		t.Errorf("%+v, want %+v", got, seen)
	}
}

func pemOf(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// store is an API server that knows one Lease.
type store struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once

	mu      sync.Mutex
	object  map[string]any // nil: there is none
	version int
	// before and after a request is done, a test may do what it likes; an
	// error loses the answer.
	before, after func(r *http.Request) error
	asked         []string
}

func newStore(t *testing.T) *store {
	s := &store{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(s) }()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

func (s *store) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}
func (s *store) Close() error   { s.once.Do(func() { close(s.done) }); return nil }
func (s *store) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (s *store) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case s.conns <- server:
		return client, nil
	case <-s.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lock returns a contender.
func (s *store) lock(t *testing.T, name string) *Lock {
	client, err := kubeapi.New(kubeapi.Config{Server: "http://127.0.0.1:1", Dial: s.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &Lock{
		Client:    func() (*kubeapi.Client, error) { return client, nil },
		Namespace: "ns", Name: "it", Identity: name, Duration: 10 * time.Second,
	}
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil && before(r) != nil {
		panic(http.ErrAbortHandler)
	}
	code, object := s.apply(r, body)
	if after != nil && after(r) != nil {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

func (s *store) apply(r *http.Request, body map[string]any) (int, any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method)
	meta, _ := body["metadata"].(map[string]any)
	switch {
	case r.Method == http.MethodPost && s.object != nil:
		return refusal(http.StatusConflict, "AlreadyExists")
	case r.Method == http.MethodPost:
		s.object = body
		meta["uid"] = fmt.Sprint("u", s.version)
	case s.object == nil:
		return refusal(http.StatusNotFound, "NotFound")
	case r.Method == http.MethodPatch && meta["resourceVersion"] != strconv.Itoa(s.version):
		return refusal(http.StatusConflict, "Conflict")
	case r.Method == http.MethodPatch:
		s.merge(body["spec"].(map[string]any))
	default:
		return http.StatusOK, s.object
	}
	s.touch()
	return http.StatusOK, s.object
}

func (s *store) merge(spec map[string]any) {
	old, _ := s.object["spec"].(map[string]any)
	fresh := maps.Clone(old)
	for k, v := range spec {
		if v == nil {
			delete(fresh, k)
		} else {
			fresh[k] = v
		}
	}
	s.replace("spec", fresh)
}

// replace sets a part without changing objects that answers still hold.
func (s *store) replace(key string, value any) {
	s.object = maps.Clone(s.object)
	s.object[key] = value
}

func (s *store) touch() {
	s.version++
	meta := maps.Clone(s.object["metadata"].(map[string]any))
	meta["resourceVersion"] = strconv.Itoa(s.version)
	s.replace("metadata", meta)
}

func refusal(code int, reason string) (int, any) {
	return code, map[string]any{"kind": "Status", "code": code, "reason": reason}
}

// trouble sets what happens before and after requests; nil is nothing.
func (s *store) trouble(before, after func(*http.Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *store) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.object = nil
}

func (s *store) holder() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.object == nil {
		return nil
	}
	return s.object["spec"].(map[string]any)["holderIdentity"]
}

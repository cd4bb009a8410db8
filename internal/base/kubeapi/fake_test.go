package kubeapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pipes is a listener of in-memory connections, so that a server runs in a
// bubble of testing/synctest.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, fmt.Errorf("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// step answers one request.
type step func(w http.ResponseWriter, r *http.Request)

// script is an API server that answers requests with its steps, one after the
// other, and remembers what was asked. After the last step it holds requests.
type script struct {
	listener *pipes
	server   *http.Server

	mu    sync.Mutex
	steps []step
	asked []string
}

func newScript(t *testing.T, steps ...step) *script {
	s := &script{listener: newPipes(), steps: steps}
	s.server = &http.Server{Handler: s}
	go func() { _ = s.server.Serve(s.listener) }()
	t.Cleanup(func() { _ = s.server.Close() })
	return s
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, describe(r.URL))
	do := hold
	if len(s.steps) > 0 {
		do, s.steps = s.steps[0], s.steps[1:]
	}
	s.mu.Unlock()
	do(w, r)
}

// describe is "list 0" or "watch 5", with what else was unusual.
func describe(u *url.URL) string {
	q := u.Query()
	text := "list"
	if q.Get("watch") == "true" {
		text = "watch"
		if q.Get("allowWatchBookmarks") != "true" || q.Get("timeoutSeconds") == "" {
			text += " without bookmarks or timeout"
		}
	}
	if match := q.Get("resourceVersionMatch"); match != "" {
		text += " " + match
	}
	if version := q.Get("resourceVersion"); version != "" {
		text += " " + version
	}
	for _, key := range []string{"limit", "continue"} {
		if value := q.Get(key); value != "" {
			text += " " + key + " " + value
		}
	}
	return text
}

func (s *script) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *script) client() (*Client, error) {
	return New(Config{Server: "http://127.0.0.1:8001", Dial: s.listener.dial})
}

// hold keeps a stream open and silent until the client gives up.
func hold(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// send answers with the text and ends; each of texts is flushed by itself.
func send(texts ...string) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		for _, t := range texts {
			_, _ = w.Write([]byte(t))
			w.(http.Flusher).Flush()
		}
	}
}

// sendAndHold sends like send and keeps the stream open.
func sendAndHold(texts ...string) step {
	return func(w http.ResponseWriter, r *http.Request) {
		send(texts...)(w, r)
		<-r.Context().Done()
	}
}

// refuse answers with a Status.
func refuse(code int, reason string) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","reason":%q,"message":"no  such\nluck","code":%d}`, reason, code)
	}
}

// cut ends the connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// object is what the tests follow.
type object struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec string `json:"spec"`
}

func list(version string, names ...string) string {
	var items []string
	for _, n := range names {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"1"},"spec":"listed","more":{"x":[1]}}`, n))
	}
	return fmt.Sprintf(`{"kind":"List","metadata":{"resourceVersion":%q},"items":[%s]}`, version, strings.Join(items, ","))
}

func event(kind, name, version string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"name":%q,"resourceVersion":%q},"spec":"watched"}}`+"\n", kind, name, version)
}

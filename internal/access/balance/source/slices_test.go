package source

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// apiserver serves EndpointSlices over in-memory connections: lists and
// watches as a real one does, with the status that a test sets.
type apiserver struct {
	conns chan net.Conn
	done  chan struct{}

	mu      sync.Mutex
	deny    int // status instead of an answer
	version int
	slices  map[string]string
	asked   []string
	watch   chan string // events for the watch that is open
}

func newAPI(t *testing.T) *apiserver {
	a := &apiserver{conns: make(chan net.Conn), done: make(chan struct{}), version: 7, slices: map[string]string{}, watch: make(chan string)}
	s := &http.Server{Handler: a}
	go func() { _ = s.Serve(a) }()
	t.Cleanup(func() { _ = s.Close() })
	return a
}

func (a *apiserver) Accept() (net.Conn, error) {
	select {
	case c := <-a.conns:
		return c, nil
	case <-a.done:
		return nil, net.ErrClosed
	}
}

func (a *apiserver) Close() error   { close(a.done); return nil }
func (a *apiserver) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (a *apiserver) connect() (*kubeapi.Client, error) {
	return kubeapi.New(kubeapi.Config{Server: "http://127.0.0.1:8001", Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		a.conns <- server
		return client, nil
	}})
}

func (a *apiserver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.URL.Path+" "+r.URL.Query().Get("labelSelector"))
	code, version, items := a.deny, a.version, []string{}
	for _, s := range a.slices {
		items = append(items, s)
	}
	a.mu.Unlock()
	if code != 0 {
		w.WriteHeader(code)
		return
	}
	if r.URL.Query().Get("watch") == "" {
		_, _ = fmt.Fprintf(w, `{"metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, strings.Join(items, ","))
		return
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case e := <-a.watch:
			_, _ = w.Write([]byte(e))
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// set changes a slice; with a watch open, it tells.
func (a *apiserver) set(kind, name, text string) {
	a.mu.Lock()
	a.version++
	if kind == "DELETED" {
		delete(a.slices, name)
	} else {
		a.slices[name] = text
	}
	a.mu.Unlock()
	a.watch <- fmt.Sprintf(`{"type":%q,"object":%s}`, kind, text)
	synctest.Wait()
}

func simpleSlice(name string, ips ...string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"9"},"addressType":"IPv4","ports":[{"name":"https","port":6443}],"endpoints":[{"addresses":["%s"]}]}`,
		name, strings.Join(ips, `"]},{"addresses":["`))
}

func TestSlicesFollowAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.slices["one"] = simpleSlice("one", "10.0.0.1", "10.0.0.2")
		s := NewSlices(SlicesOptions{Namespace: "shop", Service: "web", Connect: a.connect})
		r := run(t, Options{Static: bs("10.0.0.9"), Sources: []Source{s}})
		time.Sleep(debounce)
		r.expect(t, "0s 10.0.0.9:6443", "50ms 10.0.0.1:6443 10.0.0.2:6443 10.0.0.9:6443")
		a.set("ADDED", "two", simpleSlice("two", "10.0.0.3"))
		a.set("MODIFIED", "one", simpleSlice("one", "10.0.0.2"))
		time.Sleep(debounce)
		r.expect(t, "100ms 10.0.0.2:6443 10.0.0.3:6443 10.0.0.9:6443")
		a.set("DELETED", "two", simpleSlice("two", "10.0.0.3"))
		time.Sleep(debounce)
		r.expect(t, "150ms 10.0.0.2:6443 10.0.0.9:6443")
		a.set("DELETED", "one", simpleSlice("one", "10.0.0.2")) // and then none: the last stays
		time.Sleep(debounce)
		r.expect(t, "200ms 10.0.0.2:6443 10.0.0.9:6443")
		if c := r.Current(); c[0].Source != lastGood || c[1].Demoted {
			t.Errorf("%+v", c)
		}
		want := "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices kubernetes.io/service-name=web"
		if !slices.Equal(a.asked, []string{want, want}) || s.Name() != "endpointslices shop/web" {
			t.Errorf("%s asked %q", s.Name(), a.asked)
		}
	})
}

func TestSlicesSayWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.slices["one"] = simpleSlice("one", "10.0.0.1")
		connect := func() (*kubeapi.Client, error) { return nil, fmt.Errorf("%w: no token", kubeapi.ErrNotInCluster) }
		var mu sync.Mutex
		s := NewSlices(SlicesOptions{Connect: func() (*kubeapi.Client, error) { mu.Lock(); defer mu.Unlock(); return connect() }})
		r := run(t, Options{Static: bs("10.0.0.9"), Sources: []Source{s}})
		expect := func(want string, backends int) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			row := r.Status()[1]
			if row.Error != want || row.OK != (want == "") || len(r.Current()) != backends {
				t.Errorf("%+v, %d backends; want %q", row, len(r.Current()), want)
			}
		}
		deny := func(code int) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.deny = code
		}
		expect("no credentials for the API: give a service account or kubeconfig", 1)
		deny(http.StatusForbidden)
		mu.Lock()
		connect = a.connect
		mu.Unlock()
		expect("may not list endpointslices in namespace default: give a service account or kubeconfig", 1)
		deny(http.StatusUnauthorized)
		expect("credentials refused (401): give a valid service account or kubeconfig", 1)
		deny(0)
		expect("", 2)
	})
}

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
)

const (
	// readTimeout is for the header of a request that needs one packet.
	readTimeout = 5 * time.Second
	// mostConns bounds who asks at once: a scraper, a kubelet and some people.
	// Descriptors that silent connections hold here are missing elsewhere.
	mostConns = 64
	// stopTimeout is how long requests in flight may take after the end; a
	// scrape takes milliseconds, and kubelet kills after 30 s by default.
	stopTimeout = 5 * time.Second
)

// NewRegistry returns a registry with the process, Go and build collectors.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(),
		collectors.NewBuildInfoCollector(),
	)
	return r
}

// Server answers /metrics, /healthz and /readyz.
type Server struct {
	listener net.Listener
	http     *http.Server
	mux      *http.ServeMux
}

// Listen binds addr (host:port) and prepares the answers: metrics from r,
// /healthz from alive (nil: always good), /readyz from ready. field names the
// setting in errors, such as "metrics-addr".
func Listen(field, addr string, r *prometheus.Registry, alive, ready *Conditions) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen on %q: %w", field, addr, withRemedy(err))
	}
	l = netutil.LimitListener(l, mostConns)
	if alive == nil {
		alive = &Conditions{}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r}))
	mux.Handle("GET /healthz", alive)
	mux.Handle("GET /readyz", ready)
	return &Server{listener: l, mux: mux, http: &http.Server{Handler: mux, ReadHeaderTimeout: readTimeout}}, nil
}

// withRemedy keeps the cause of a failed listen and says what to do.
func withRemedy(err error) error {
	remedy := "write HOST:PORT, or :PORT for all addresses"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err, remedy = syscall.EADDRINUSE, "stop what holds the port or choose another"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		err, remedy = syscall.EADDRNOTAVAIL, "choose an address of this machine"
	case errors.Is(err, syscall.EACCES):
		err, remedy = syscall.EACCES, "choose a port from 1024 up or add CAP_NET_BIND_SERVICE"
	}
	return fmt.Errorf("%w; %s", err, remedy)
}

// Addr is the address bound, with the port chosen when it was given as 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Handle adds a further answer, before Serve.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Serve answers until ctx ends, lets requests in flight finish, and returns
// nil then.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(stop); err != nil {
		_ = s.http.Close() // a client that never reads; nothing is lost
	}
	return nil
}

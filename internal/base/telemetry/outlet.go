package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Settings are the part of a settings file, with the key telemetry, that says
// where telemetry is served.
type Settings struct {
	// Listen is HOST:PORT; "" serves nothing.
	Listen string `yaml:"listen"`
}

// Check reports an address that cannot be one.
func (s Settings) Check() error {
	if s.Listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(s.Listen); err != nil {
		return fmt.Errorf("telemetry.listen: %q; write HOST:PORT, :PORT, or \"\" for none", s.Listen)
	}
	return nil
}

// Outlet is where a process serves its telemetry for as long as it lives. The
// fields are set before Serve.
type Outlet struct {
	Settings
	Registry *prometheus.Registry
	// Alive is /healthz (nil: always good), Ready /readyz.
	Alive, Ready *Conditions
	// Status answers GET /status.
	Status http.Handler
	// Again is how soon a port is tried again that is taken.
	Again time.Duration
	Log   *slog.Logger
	// Unserved is the warning that it is not served, given once until it is.
	Unserved string
}

// Serve serves until ctx ends, and waits for the port where it is taken: a
// process goes on without.
func (o *Outlet) Serve(ctx context.Context) {
	said := false
	for o.Listen != "" && ctx.Err() == nil {
		server, err := Listen("telemetry.listen", o.Listen, o.Registry, o.Alive, o.Ready)
		if err == nil {
			said = false
			server.Handle("GET /status", o.Status)
			err = server.Serve(ctx)
		}
		if err != nil && !said {
			said = true
			o.Log.Warn(o.Unserved, "error", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(o.Again):
		}
	}
}

// Document answers with what status returns as JSON, or 503 and why there is
// none yet.
func Document(status func() (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		document, err := status()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(document) // the asker is gone
	})
}

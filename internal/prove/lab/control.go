package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"
)

// The supervisor answers HTTP on a unix socket in the lab's directory.
const (
	pathStatus = "/status"
	pathCut    = "/cut"
	pathHeal   = "/heal"
	pathDelay  = "/delay"
	pathLinks  = "/links"
	pathDown   = "/down"
)

// fault is an error on its way through the socket.
type fault struct {
	Error      string `json:"error"`
	NotInForce bool   `json:"not_in_force,omitempty"`
}

// remoteError is an error of the supervisor.
type remoteError struct{ fault }

func (e remoteError) Error() string { return e.fault.Error }

func (e remoteError) Is(target error) bool { return e.NotInForce && target == ErrNotInForce }

// controller serves the lab to the command line. down is called once the
// answer to a request to end is on its way.
func controller(l *Lab, s state, down func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathStatus, func(w http.ResponseWriter, r *http.Request) {
		report, err := l.Report(r.Context())
		report.Pid, report.Started = s.Pid, s.Started
		reply(w, report, err)
	})
	mux.HandleFunc("GET "+pathLinks, func(w http.ResponseWriter, r *http.Request) { reply(w, l.Links(), nil) })
	handle(mux, pathCut, func(ctx context.Context, cuts []Cut) error { return l.Cut(ctx, cuts...) })
	handle(mux, pathHeal, func(ctx context.Context, names []string) error { return l.Heal(ctx, names...) })
	handle(mux, pathDelay, func(ctx context.Context, link Link) error { return l.Delay(ctx, link) })
	mux.HandleFunc("POST "+pathDown, func(w http.ResponseWriter, r *http.Request) {
		reply(w, struct{}{}, nil)
		down()
	})
	return mux
}

// handle serves a change: a JSON value in, an error or nothing out.
func handle[T any](mux *http.ServeMux, path string, f func(context.Context, T) error) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var v T
		err := json.NewDecoder(r.Body).Decode(&v)
		if err == nil {
			// A change is finished even when the asker goes away, so that the
			// network is always in a declared state.
			err = f(context.WithoutCancel(r.Context()), v)
		}
		reply(w, struct{}{}, err)
	})
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusConflict)
		v = fault{Error: err.Error(), NotInForce: errors.Is(err, ErrNotInForce)}
	}
	_ = json.NewEncoder(w).Encode(v) // the asker is gone
}

// remote is a supervisor seen from the command line.
type remote struct {
	client http.Client
	name   string
}

func newRemote(root, name string) *remote {
	socket := filepath.Join(root, name, socketFile)
	return &remote{name: name, client: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}}
}

// call sends in, if any, and decodes the answer into out.
func (r *remote) call(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return fmt.Errorf("ask lab %s: %w", r.name, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, &body)
	if err != nil {
		return fmt.Errorf("ask lab %s: %w", r.name, err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("lab %s does not answer: see %s, or end it with `holdfast lab down --name %s`: %w", r.name, logFile, r.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		var f fault
		if err := json.NewDecoder(resp.Body).Decode(&f); err != nil || f.Error == "" {
			return fmt.Errorf("ask lab %s: HTTP %d", r.name, resp.StatusCode)
		}
		return remoteError{f}
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("ask lab %s: %w", r.name, err)
	}
	return nil
}

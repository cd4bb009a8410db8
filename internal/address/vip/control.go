package vip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// mostRelease bounds a release: the longest time to linger, and then some.
const mostRelease = time.Minute

// control answers `holdfast vip release` on a unix socket, which only root may
// use: whoever can ask can move the addresses.
func (a *agent) control(ctx context.Context) {
	path := a.settings.Control
	if path == "" {
		return
	}
	listener, err := listenUnix(path)
	if err != nil {
		a.log.Warn("release cannot be asked for", keyError, err)
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /release/{group}", a.answerRelease)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		a.log.Warn("release cannot be asked for any more", keyError, err)
	}
}

// listenUnix replaces the socket of an earlier run.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("control: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("control: %w", err), l.Close())
	}
	return l, nil
}

func (a *agent) answerRelease(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), mostRelease)
	defer cancel()
	name := r.PathValue("group")
	for _, c := range a.contenders {
		for _, g := range c.of() {
			if g.settings.Name != name {
				continue
			}
			release := c.release
			if p, ok := c.(*publisher); ok {
				release = func(ctx context.Context, to string) error { return p.releaseOne(ctx, g, to) }
			}
			if err := release(ctx, r.URL.Query().Get("to")); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
			return
		}
	}
	http.Error(w, fmt.Sprintf("no group %s here; `holdfast vip status` lists them", name), http.StatusNotFound)
}

// askRelease asks the agent at the unix socket to hand a group over.
func askRelease(ctx context.Context, socket, group, to string) error {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	at := "http://vip/release/" + url.PathEscape(group) + "?to=" + url.QueryEscape(to)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, nil)
	if err != nil {
		return fmt.Errorf("release %s: %w", group, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("no agent answers at %s: start one with `holdfast vip run`, or name its control socket with --control", socket)
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("release %s: %w", group, err)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(said)))
	}
	return nil
}

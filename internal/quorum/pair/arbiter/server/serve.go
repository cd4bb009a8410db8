package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

const (
	// mostConns is many times what agents hold; each costs some 30 kB with TLS.
	mostConns = 256
	// requestTimeout is for a request of two packets and a sync of the disk.
	requestTimeout = 15 * time.Second
	// idleTimeout keeps the connection of an agent that asks every 10 s.
	idleTimeout = 60 * time.Second
	mostHeader  = 16 << 10
)

// Settings are those of `holdfast pair arbiter serve`.
type Settings struct {
	// Listen is HOST:PORT.
	Listen string `yaml:"listen"`
	// Dir keeps the objects; it is made if it is not there.
	Dir string `yaml:"dir"`
	// CertFile and KeyFile are the server's own.
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
	// ClientCAFile vouches for clients; with it every client must show a certificate.
	ClientCAFile string `yaml:"clientCAFile"`
	// TokenFile has the tokens that may come, one a line.
	TokenFile string        `yaml:"tokenFile"`
	Log       telemetry.Log `yaml:"log"`
}

// DefaultSettings listen on loopback.
func DefaultSettings() Settings {
	return Settings{Listen: "127.0.0.1:9387", Dir: "/var/lib/holdfast-arbiter"}
}

// Check reports, in one line, what a user has to correct.
func (s *Settings) Check() error {
	host, _, err := net.SplitHostPort(s.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("listen %q: write HOST:PORT, or :PORT for all addresses", s.Listen)
	case s.Dir == "":
		return errors.New("dir is empty: name the directory that keeps the objects")
	case (s.CertFile == "") != (s.KeyFile == ""):
		return fmt.Errorf("cert-file %q and key-file %q: one is missing; give both or neither", s.CertFile, s.KeyFile)
	case s.ClientCAFile != "" && s.CertFile == "":
		return errors.New("client-ca-file without cert-file: clients show certificates over TLS only; give cert-file and key-file")
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	if s.CertFile == "" {
		return fmt.Errorf("listen %q without TLS: whoever is on the way could decide who serves; give cert-file and key-file, or listen on 127.0.0.1", s.Listen)
	}
	if s.TokenFile == "" && s.ClientCAFile == "" {
		return fmt.Errorf("listen %q open to everybody: give token-file or client-ca-file, or listen on 127.0.0.1", s.Listen)
	}
	return nil
}

// Run serves until ctx ends. What may pass by itself, such as a port that is taken or
// a certificate that is not there yet, is said once and tried again.
func Run(ctx context.Context, stderr io.Writer, s Settings) error {
	log, err := s.Log.New(stderr)
	if err != nil {
		return err
	}
	shelf, err := openShelf(s.Dir, log)
	if err != nil {
		return err
	}
	defer func() { _ = shelf.close() }() // everything in it is synced
	said := ""
	for {
		l, h, err := s.open(shelf, log)
		if err == nil {
			log.Info("serving", "listen", l.Addr().String(), "dir", s.Dir, "tls", s.CertFile != "", "objects", len(shelf.objects))
			return serve(ctx, l, h, log)
		}
		if err.Error() != said {
			said = err.Error()
			log.Warn("not serving yet", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(daemon.RetryEvery):
		}
	}
}

// open reads what the settings name and binds the port.
func (s *Settings) open(shelf *shelf, log *slog.Logger) (net.Listener, http.Handler, error) {
	h := &handler{shelf: shelf, log: log}
	var config *tls.Config
	var err error
	if s.TokenFile != "" {
		if h.tokens, err = openTokens(s.TokenFile, log); err != nil {
			return nil, nil, err
		}
	}
	if s.CertFile != "" {
		files := creds.Files{CA: s.ClientCAFile, Cert: s.CertFile, Key: s.KeyFile}
		if config, err = files.Server(s.ClientCAFile != ""); err != nil {
			return nil, nil, err
		}
	}
	l, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("listen %q: %w", s.Listen, withRemedy(err))
	}
	l = limitPerHost(netutil.LimitListener(l, mostConns))
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, h, nil
}

func withRemedy(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; stop what holds the port or choose another", syscall.EADDRINUSE)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; choose an address of this machine", syscall.EADDRNOTAVAIL)
	}
	return err
}

// serve answers on l until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler: h, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: mostHeader,
		// What it says of failed handshakes could fill the log at the will of anybody.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		_ = srv.Close() // a client that never reads; nothing is lost
	}
	return nil
}

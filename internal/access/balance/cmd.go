package balance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// envPrefix is before the name of every flag in the environment.
const envPrefix = "HOLDFAST_BALANCE"

// Command is `holdfast balance`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "balance",
		Short: "Balance TCP to apiservers that can serve",
		Long: "A node-local balancer in front of kube-apiserver or etcd. It asks every backend over TLS\n" +
			"whether it is ready, sends clients only there, and resets connections to those that are not.",
	}
	cmd.AddCommand(runCommand(), statusCommand(), drainCommand(), undrainCommand(), manifestCommand())
	return cmd
}

// quick are the flags that make a settings file unnecessary.
type quick struct {
	path     string
	listen   []string
	backends []string
	check    Check
	upgrade  bool
	// base are the defaults with the flags given, before any file was read.
	base *Settings
}

func (q *quick) bind(cmd *cobra.Command, s *Settings) {
	f := cmd.Flags()
	f.StringVar(&q.path, "config", "", "settings file (YAML); see docs/guide/balance.md")
	f.StringSliceVar(&q.listen, "listen", nil, "where clients connect, with --backend (default "+defaultListen+")")
	f.StringSliceVar(&q.backends, "backend", nil, "IP:PORT of an apiserver, instead of frontends in a file")
	f.StringVar(&q.check.Kind, "check", "", "https, http, tcp or etcd, with --backend (default https)")
	f.StringVar(&q.check.CA, "ca", "", "CA of the backends (default: the kubelet's)")
	f.StringVar(&q.check.Cert, "cert", "", "client certificate of the checks (default: the kubelet's)")
	f.StringVar(&q.check.Key, "key", "", "key of the client certificate")
	f.StringVar(&q.check.TokenFile, "token-file", "", "bearer token of the checks")
	f.StringVar(&q.check.ServerName, "server-name", "", "name in the certificate of the backends (default: their address)")
	f.StringVar(&s.Zone, "zone", s.Zone, "zone of this node")
	f.StringVar(&s.Profile, "profile", s.Profile, "timers: default, seed (5 s/3 s) or anchors (TCP, 20 s/15 s)")
	f.DurationVar(&s.Drain, "drain", s.Drain, "how long connections may go on after SIGTERM or an upgrade")
	f.StringVar(&s.Telemetry.Listen, "telemetry", s.Telemetry.Listen, "where /metrics, /healthz, /readyz and /status are served")
	f.StringVar(&s.Control, "control", s.Control, "unix socket of status, drain and upgrade")
	f.BoolVar(&q.upgrade, "upgrade", false, "take the listeners over from the process that runs")
	s.Log.AddFlags(f)
}

// load layers file, environment and flags, and completes the settings. It may
// be called again: each time it starts from the defaults.
func (q *quick) load(cmd *cobra.Command, s *Settings) (Settings, error) {
	if q.base == nil {
		base := *s
		q.base = &base
	}
	*s = *q.base // what was taken out of the file is back to its default
	if err := config.Layer(cmd, envPrefix, &q.path, s); err != nil {
		return Settings{}, err
	}
	switch {
	case len(q.backends) > 0 && len(s.Frontends) > 0:
		return Settings{}, errors.New("--backend: frontends stand in the settings file already; write the backend there")
	case len(q.backends) == 0 && (len(q.listen) > 0 || q.check != Check{}):
		return Settings{}, errors.New("--listen, --check, --ca, --cert, --key, --token-file, --server-name: they go with --backend; in a settings file these stand at the frontend")
	case len(q.backends) > 0:
		f := Frontend{Listen: q.listen}
		f.Check = q.check
		for _, b := range q.backends {
			f.Backends.Static = append(f.Backends.Static, StaticBackend{Address: b})
		}
		s.Frontends = []Frontend{f}
	}
	out := *s
	if err := out.complete("/"); err != nil {
		return Settings{}, err
	}
	return out, nil
}

func runCommand() *cobra.Command {
	settings, q := defaultSettings(), &quick{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the balancer",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Before the first reading, which a later one starts from again.
			if err := config.Bind(cmd, envPrefix); err != nil {
				return err
			}
			load := func() (Settings, error) { return q.load(cmd, &settings) }
			return run(cmd.Context(), cmd.ErrOrStderr(), q, load)
		},
	}
	q.bind(cmd, &settings)
	return cmd
}

func statusCommand() *cobra.Command {
	return daemon.Asker[Status]{
		Short: "Show backends, their grades and why, and connections",
		Env:   envPrefix, Flag: "control", At: defaultControl, Usage: "control socket of the balancer",
		Fetch: func(ctx context.Context, control string) (s Status, err error) {
			err = ask(ctx, control, http.MethodGet, "/status", &s)
			return s, err
		},
		Print: Status.print, Verdict: Status.verdict,
	}.Command()
}

// verdict is the exit code: 1 when a frontend has nobody to offer.
func (s Status) verdict() error {
	for _, f := range s.Frontends {
		usable := f.Removed // nobody is sent there
		for _, b := range f.Backends {
			usable = usable || b.Grade.Usable() && !b.Held
		}
		if !usable {
			return exit.With(exit.Failed, fmt.Errorf("frontend %s has no backend that is ready", f.Name))
		}
	}
	return nil
}

func drainCommand() *cobra.Command {
	control, frontend, wait := defaultControl, "", time.Duration(0)
	cmd := &cobra.Command{
		Use:   "drain BACKEND",
		Short: "Send no new connections to a backend, and let the old ones end",
		Args:  oneBackend,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := config.Bind(cmd, envPrefix); err != nil {
				return err
			}
			if err := hold(cmd, control, "/hold", frontend, args[0]); err != nil {
				return err
			}
			return awaitDrained(cmd, control, frontend, args[0], wait)
		},
	}
	f := cmd.Flags()
	f.StringVar(&control, "control", control, "control socket of the balancer")
	f.StringVar(&frontend, "frontend", "", "of this frontend only (default: of all)")
	f.DurationVar(&wait, "wait", 0, "wait at most this long until its connections have ended; exit 1 if they have not")
	return cmd
}

func undrainCommand() *cobra.Command {
	control, frontend := defaultControl, ""
	cmd := &cobra.Command{
		Use:   "undrain BACKEND",
		Short: "Take a drained backend back into service",
		Args:  oneBackend,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := config.Bind(cmd, envPrefix); err != nil {
				return err
			}
			return hold(cmd, control, "/release", frontend, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&control, "control", control, "control socket of the balancer")
	f.StringVar(&frontend, "frontend", "", "of this frontend only (default: of all)")
	return cmd
}

func oneBackend(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s: %d backends given; write one as holdfast balance status shows it, such as 10.0.0.1:6443", cmd.Name(), len(args))
	}
	return nil
}

func hold(cmd *cobra.Command, control, what, frontend, backend string) error {
	query := url.Values{"backend": {backend}, "frontend": {frontend}}
	return ask(cmd.Context(), control, http.MethodPost, what+"?"+query.Encode(), nil)
}

// awaitDrained waits until a held backend has no connections left.
func awaitDrained(cmd *cobra.Command, control, frontend, backend string, wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	deadline := time.Now().Add(wait)
	for {
		var s Status
		if err := ask(cmd.Context(), control, http.MethodGet, "/status", &s); err != nil {
			return err
		}
		left := s.connections(frontend, backend)
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return exit.With(exit.Failed, fmt.Errorf("%s still has %d connections after %s; they are never quiet, and reset after its drainTimeout", backend, left, wait))
		}
		select {
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s Status) connections(frontend, backend string) int {
	n := 0
	for _, f := range s.Frontends {
		for _, b := range f.Backends {
			if b.ID == backend && (frontend == "" || frontend == f.Name || strings.HasPrefix(f.Name, frontend+"/")) {
				n += b.Connections + b.Connecting
			}
		}
	}
	return n
}

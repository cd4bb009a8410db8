package leader

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// envPrefix is before the name of every flag in the environment.
const envPrefix = "HOLDFAST_LEADER"

// Command is `holdfast leader`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "leader",
		Short: "Move the etcd leader away from a partial split",
		Long: "One agent beside each etcd member watches who sees whom. When the leader has lost a\n" +
			"voter that another member still sees, the agent beside the leader moves leadership there.",
	}
	cmd.AddCommand(runCommand(), statusCommand(), planCommand(), manifestCommand())
	return cmd
}

// bindFlags binds the settings that people change by flag; the rest stands in
// the file.
func bindFlags(cmd *cobra.Command, s *Settings, path *string) {
	f := cmd.Flags()
	f.StringVar(path, "config", "", "settings file (YAML); see docs/guide/leader.md")
	f.StringSliceVar(&s.Etcd.Endpoints, "endpoint", s.Etcd.Endpoints, "client URL of the own member (default "+defaultEndpoint+")")
	f.StringVar(&s.Etcd.CA, "ca", s.Etcd.CA, "CA of the client port")
	f.StringVar(&s.Etcd.Cert, "cert", s.Etcd.Cert, "client certificate")
	f.StringVar(&s.Etcd.Key, "key", s.Etcd.Key, "key of the client certificate")
	f.StringVar(&s.Etcd.Peer.CA, "peer-ca", s.Etcd.Peer.CA, "CA of the peer port")
	f.StringVar(&s.Etcd.Peer.Cert, "peer-cert", s.Etcd.Peer.Cert, "certificate etcd shows its peers")
	f.StringVar(&s.Etcd.Peer.Key, "peer-key", s.Etcd.Peer.Key, "key of the peer certificate")
	f.StringVar(&s.Etcd.Username, "username", s.Etcd.Username, "user of an auth-enabled etcd (needs the root role)")
	f.StringVar(&s.Etcd.PasswordFile, "password-file", s.Etcd.PasswordFile, "file with that user's password")
	f.StringVar(&s.Prefix, "prefix", s.Prefix, "key prefix of rows and of the last decision")
	f.StringVar(&s.Zone, "zone", s.Zone, "zone of this member")
	f.StringSliceVar(&s.Zones, "zones", s.Zones, "zones in order of preference, best first")
	f.StringVar(&s.PreferredZone, "preferred-zone", s.PreferredZone, "zone that leadership returns to in a quiet window")
	f.StringVar(&s.Profile, "profile", s.Profile, "default, or seed (3/10/15s/2min)")
	f.DurationVar(&s.Settle, "settle", s.Settle, "how long a better place must stay better (0: the profile's)")
	f.BoolVar(&s.DryRun, "dry-run", s.DryRun, "decide and log, but never move")
	f.StringVar(&s.Mesh.Listen, "mesh-listen", s.Mesh.Listen, "where the other agents ask this one (mTLS); empty for none")
	f.IntVar(&s.Mesh.Port, "mesh-port", s.Mesh.Port, "port of the other agents")
	f.StringVar(&s.Telemetry.Listen, "telemetry", s.Telemetry.Listen, "where /metrics, /healthz, /readyz and /status are served")
	f.IntVar(&s.Pace, "pace", s.Pace, "how many times faster than normal to work at rest; for soak tests")
	s.Log.AddFlags(f)
}

// load layers file, environment and flags, and completes the settings.
func load(cmd *cobra.Command, s *Settings, path *string) error {
	if err := config.Layer(cmd, envPrefix, path, s); err != nil {
		return err
	}
	return s.complete("/")
}

func runCommand() *cobra.Command {
	return daemon.Runner[Settings]{
		Short: "Run the agent beside one etcd member",
		Env:   envPrefix, Settings: defaultSettings(), Bind: bindFlags,
		Complete: func(s *Settings) error { return s.complete("/") }, Run: run,
	}.Command()
}

func planCommand() *cobra.Command {
	settings, path, asJSON, observe := defaultSettings(), "", false, 5*time.Second
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Observe for a moment and say what an agent here would do; changes nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := load(cmd, &settings, &path); err != nil {
				return err
			}
			if observe < leastObserve || observe > mostObserve {
				return fmt.Errorf("--observe %s: write a time from %s to %s", observe, leastObserve, mostObserve)
			}
			settings.DryRun, settings.observeOnly = true, true
			agent, err := New(settings, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), observe)
			defer cancel()
			if err := agent.Run(ctx); err != nil {
				return err
			}
			if err := daemon.Show(cmd.OutOrStdout(), agent.Status(), asJSON, Status.print); err != nil {
				return err
			}
			return agent.couldTell()
		},
	}
	bindFlags(cmd, &settings, &path)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.Flags().DurationVar(&observe, "observe", observe, "how long to observe before answering")
	return cmd
}

// A first round takes a second on a busy machine; rows at rest come every 5 s.
const (
	leastObserve = time.Second
	mostObserve  = 10 * time.Minute
)

// couldTell returns an error when the last round rests on nothing: the own
// member did not answer.
func (a *Agent) couldTell() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.snap.Own.Reachable {
		return nil
	}
	return exit.With(exit.Unknown, fmt.Errorf("could not tell: etcd at %s did not answer; see the condition own-member", a.settings.Etcd.Endpoints[0]))
}

func statusCommand() *cobra.Command {
	return daemon.Asker[Status]{
		Short: "Show who sees whom, and the reasoning of the agent's current plan",
		Env:   envPrefix, Flag: "agent", At: defaultTelemetry, Usage: "telemetry address of the agent",
		Fetch: fetchStatus, Print: Status.print,
	}.Command()
}

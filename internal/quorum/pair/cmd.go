package pair

import (
	"context"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/supervise"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// envPrefix is before the name of every flag in the environment.
const envPrefix = "HOLDFAST_PAIR"

// Command is `holdfast pair`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pair",
		Short: "Run etcd on two sites so that either one survives alone without losing a write",
		Long: "One agent beside each of two etcd members. When one site is lost, the agents settle by one record\n" +
			"in a third place who goes on, and the survivor's log is edited so that no acknowledged write is lost.",
	}
	cmd.AddCommand(runCommand(), statusCommand(), claimCommand(), releaseCommand(), arbiter.Command(), wal.Command(), manifestCommand(), handbackCommand())
	return cmd
}

// bindPersonFlags binds what every command needs that speaks to the arbiter.
func bindPersonFlags(cmd *cobra.Command, s *Settings, path *string) {
	f := cmd.Flags()
	f.StringVar(path, "config", "", "settings file (YAML); see docs/guide/pair.md")
	f.StringVar(&s.Name, "name", s.Name, "this member's name in the pair (default: etcd's --name)")
	f.StringVar(&s.StateDir, "state-dir", s.StateDir, "where the agent remembers the newest record it has seen")
	s.Arbiter.AddFlags(f)
}

func bindFlags(cmd *cobra.Command, s *Settings, path *string) {
	bindPersonFlags(cmd, s, path)
	f := cmd.Flags()
	f.StringVar(&s.Peer.Name, "peer", s.Peer.Name, "the other member's name (default: from etcd's --initial-cluster)")
	f.StringVar(&s.Peer.Client, "peer-client", s.Peer.Client, "the other member's client URL (default: its host with the own client port)")
	f.StringVar(&s.Peer.URL, "peer-url", s.Peer.URL, "the other member's peer URL (default: from etcd's --initial-cluster)")
	f.StringVar(&s.Etcd.Endpoint, "endpoint", s.Etcd.Endpoint, "the own client URL (default: etcd's --advertise-client-urls)")
	f.StringVar(&s.Etcd.CA, "ca", s.Etcd.CA, "CA of the client ports (default: etcd's own)")
	f.StringVar(&s.Etcd.Cert, "cert", s.Etcd.Cert, "client certificate (default: etcd's own)")
	f.StringVar(&s.Etcd.Key, "key", s.Etcd.Key, "key of the client certificate")
	f.StringVar(&s.Etcd.Username, "username", s.Etcd.Username, "user of an auth-enabled etcd (needs the root role)")
	f.StringVar(&s.Etcd.PasswordFile, "password-file", s.Etcd.PasswordFile, "file with that user's password")
	f.StringVar(&s.Profile, "profile", s.Profile, "default, or seed (20 s + 5 s)")
	f.DurationVar(&s.LostAfter, "lost-after", s.LostAfter, "how long there must be no quorum before a claim (0: the profile's)")
	f.DurationVar(&s.HeadStart, "head-start", s.HeadStart, "how much longer the member waits that neither led nor is preferred (0: the profile's)")
	f.DurationVar(&s.StuckAfter, "stuck-after", s.StuckAfter, "how long until a peer counts as lost that can be reached (0: the profile's)")
	f.StringVar(&s.Prefer, "prefer", s.Prefer, "name of the member that should win")
	f.StringSliceVar(&s.Clients, "clients", s.Clients, "tcp://HOST:PORT, of which one must be reached before a claim")
	f.StringVar(&s.Loser, "loser", s.Loser, "stop, or serve-stale: etcd answers stale reads until the survivor answers")
	f.StringVar(&s.Prefix, "prefix", s.Prefix, "key prefix of the write that both members have to take")
	f.StringVar(&s.Unit, "unit", s.Unit, "systemd unit that runs etcd")
	f.StringVar(&s.StaticPod, "static-pod", s.StaticPod, "manifest of the static pod that runs etcd")
	f.StringVar(&s.User, "user", s.User, "user that a child etcd runs as")
	f.StringVar(&s.Telemetry.Listen, "telemetry", s.Telemetry.Listen, "where /metrics, /healthz, /readyz and /status are served")
	s.Log.AddFlags(f)
}

func runCommand() *cobra.Command {
	s, path := defaultSettings(), ""
	cmd := &cobra.Command{
		Use:   "run [-- etcd ARGS…]",
		Short: "Run one member of the pair, and the agent beside it",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := config.Layer(cmd, envPrefix, &path, &s); err != nil {
				return err
			}
			s.command = args
			if err := s.check(); err != nil {
				return err
			}
			return run(cmd.Context(), cmd.ErrOrStderr(), s)
		},
	}
	bindFlags(cmd, &s, &path)
	return cmd
}

// run is `holdfast pair run`.
func run(ctx context.Context, stderr io.Writer, s Settings) error {
	log, err := s.Log.New(stderr)
	if err != nil {
		return err
	}
	sup, err := supervisor(ctx, s, log)
	if err != nil {
		return err
	}
	if err := s.adopt(sup.Describe()); err != nil {
		return err
	}
	newProcess(s, sup, log).Run(ctx)
	return nil
}

// newProcess is an agent as a program. Once its settings are sound it ends only
// with its context.
func newProcess(s Settings, sup supervise.Supervisor, log *slog.Logger) *daemon.Late[Agent] {
	registry := telemetry.NewRegistry()
	ready := telemetry.Require(condServes)
	return &daemon.Late[Agent]{
		Outlet: telemetry.Outlet{
			Settings: s.Telemetry, Registry: registry, Ready: ready, Log: log,
			Unserved: "telemetry is not served; the agent works without and tries again",
		},
		Make: func() (*Agent, error) {
			return New(s, sup, func(name string, err error) { ready.Set(name, err) }, log)
		},
		Missing: condServes,
		Status:  func(agent *Agent) any { return agent.Status() },
		Work: func(ctx context.Context, agent *Agent) {
			agent.stats.register(registry)
			log.Info("agent started", "name", s.Name, "peer", s.Peer.Name, "arbiter", agent.store.Name(), "seen", describe(agent.arbiter.Seen()))
			_ = agent.Run(ctx)
		},
	}
}

func statusCommand() *cobra.Command {
	return daemon.Asker[Status]{
		Short: "Say in words how the pair stands, and what the agent here will do next",
		Env:   envPrefix, Flag: "agent", At: defaultTelemetry, Usage: "telemetry address of the agent",
		Fetch: fetchStatus, Print: Status.print, Verdict: Status.verdict,
	}.Command()
}

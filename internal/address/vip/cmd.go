package vip

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/address/vip/imports"
	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// envPrefix is before the name of every flag in the environment.
const envPrefix = "HOLDFAST_VIP"

// Command is `holdfast vip`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vip",
		Short: "Hold an address that outlives its machine",
		Long: "One agent on each machine that may hold the addresses. They agree by VRRP, or by a Lease\n" +
			"of Kubernetes or a key of etcd, on which of them answers, under a health gate.",
	}
	cmd.AddCommand(runCommand(), statusCommand(), releaseCommand(), manifestCommand(), imports.Command(loads))
	return cmd
}

// loads says why the agent would not take a file.
func loads(yaml []byte) error {
	s := defaultSettings()
	if err := config.Decode(bytes.NewReader(yaml), "vip.yaml", &s); err != nil {
		return err
	}
	return s.complete()
}

func bindFlags(cmd *cobra.Command, s *Settings, path *string) {
	f := cmd.Flags()
	f.StringVar(path, "config", "", "settings file (YAML); see docs/guide/vip.md")
	f.StringVar(&s.Table, "table", s.Table, "name of the nftables tables")
	f.StringVar(&s.Control, "control", s.Control, "unix socket where a release is asked for")
	f.StringVar(&s.Telemetry.Listen, "telemetry", s.Telemetry.Listen, "where /metrics, /healthz, /readyz and /status are served")
	f.BoolVar(&s.services.on, "services", false, "answer for Services of type LoadBalancer, from the pools of the settings or of --pool")
	f.StringSliceVar(&s.services.pool, "pool", nil, "addresses for Services: FIRST-LAST, NETWORK/BITS or one (may be repeated)")
	f.StringVar(&s.services.node, "node", "", "name of this machine in Kubernetes (default: the host's)")
	f.StringVar(&s.services.iface, "interface", "", "interface of the addresses of Services (default: that of the route to the first)")
	f.StringVar(&s.services.kubeconfig, "kubeconfig", "", "credentials for Services (default: the pod's service account)")
	s.Log.AddFlags(f)
}

func runCommand() *cobra.Command {
	return daemon.Runner[Settings]{
		Short: "Run the agent",
		Env:   envPrefix, Settings: defaultSettings(), Bind: bindFlags,
		Complete: (*Settings).complete, Run: run,
	}.Command()
}

func statusCommand() *cobra.Command {
	return daemon.Asker[Status]{
		Short: "Show who holds what, since when and why",
		Long: "Show what the agent of this machine knows. Exit code 1 says that a group cannot be held here,\n" +
			"or that no router can be told of it.",
		Env: envPrefix, Flag: "agent", At: defaultTelemetry, Usage: "telemetry address of the agent",
		Fetch: fetchStatus, Print: Status.print,
		Verdict: func(s Status) error { return exit.With(exit.Failed, s.verdict()) },
	}.Command()
}

func releaseCommand() *cobra.Command {
	socket, to := defaultControl, ""
	cmd := &cobra.Command{
		Use:   "release GROUP",
		Short: "Hand a group over to another machine, without a gap",
		Long: "Hand a group over to another machine. This one answers until the other does, and does not\n" +
			"take it back. When nobody takes it, it stays, and the exit code is 1.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := config.Bind(cmd, envPrefix); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), mostRelease)
			defer cancel()
			if err := askRelease(ctx, socket, args[0], to); err != nil {
				return exit.With(exit.Failed, err)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is held by another machine now\n", args[0])
			return err
		},
	}
	cmd.Flags().StringVar(&socket, "control", socket, "control socket of the agent")
	cmd.Flags().StringVar(&to, "to", to, "name of the peer to give it to (lease only; default: any)")
	return cmd
}

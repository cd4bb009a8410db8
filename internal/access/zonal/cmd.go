package zonal

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/daemon"
)

// envPrefix is before the name of every flag in the environment.
const envPrefix = "HOLDFAST_ZONAL"

// Command is `holdfast zonal`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "zonal",
		Short: "Give proxies one address per Service that leads to pods in their own zone",
		Long: "For each Service with the annotation " + annotation + `: "true" it keeps a second one,` + "\n" +
			"NAME-zonal, whose only endpoint is the ClusterIP of the first. It is meant for proxies that\n" +
			"read EndpointSlices and dial endpoints themselves, such as the Envoy of a Gateway.",
	}
	cmd.AddCommand(runCommand(), statusCommand(), manifestCommand())
	return cmd
}

func bindFlags(cmd *cobra.Command, s *Settings, path *string) {
	f := cmd.Flags()
	f.StringVar(path, "config", "", "settings file (YAML); `holdfast zonal manifest settings` prints one")
	f.StringVar(&s.API.Kubeconfig, "kubeconfig", s.API.Kubeconfig, "credentials (default: the pod's service account)")
	f.StringVar(&s.API.Context, "context", s.API.Context, "context in the kubeconfig (default: its current one)")
	f.StringSliceVar(&s.API.Servers, "server", s.API.Servers, "URL of an API server, the preferred one first (repeat)")
	f.StringSliceVar(&s.Namespaces, "namespace", s.Namespaces, "look at Services of this namespace only (repeat)")
	f.StringVar(&s.Datapath, "datapath", s.Datapath, "auto, kube-proxy, cilium or cilium-1.19; for warnings")
	f.BoolVar(&s.DryRun, "dry-run", s.DryRun, "decide and report, but write nothing")
	f.StringVar(&s.Lease.Namespace, "lease-namespace", s.Lease.Namespace, "namespace of the Lease by which replicas agree (default: the pod's)")
	f.StringVar(&s.Lease.Name, "lease-name", s.Lease.Name, "name of that Lease")
	f.DurationVar(&s.Lease.Duration, "lease-duration", s.Lease.Duration, "after this another replica takes over from a dead one")
	f.StringVar(&s.Telemetry.Listen, "telemetry", s.Telemetry.Listen, "where /metrics, /healthz, /readyz and /status are served")
	s.Log.AddFlags(f)
}

func runCommand() *cobra.Command {
	return daemon.Runner[Settings]{
		Short: "Keep the mirrors; run two replicas, of which one acts",
		Env:   envPrefix, Settings: defaultSettings(), Bind: bindFlags, Complete: (*Settings).complete, Run: run,
	}.Command()
}

func statusCommand() *cobra.Command {
	return daemon.Asker[Status]{
		Short: "Show each Service that asks for a mirror, whether it has one, and what to mend",
		Env:   envPrefix, Flag: "agent", At: defaultTelemetry, Usage: "telemetry address of the agent",
		Fetch: fetchStatus, Print: Status.print, Verdict: Status.verdict,
	}.Command()
}

var manifestKinds = []string{"deployment", "settings"}

func manifestCommand() *cobra.Command {
	m := defaultManifest()
	cmd := &cobra.Command{
		Use:   "manifest [deployment|settings]",
		Short: "Print what to install",
		Long: "Print a Deployment of two replicas with the rights that they need and no more, or a\n" +
			"settings file with every key and a comment on each.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(manifestKinds, args[0]) {
				return fmt.Errorf("manifest: %q; write one of %s", args, strings.Join(manifestKinds, ", "))
			}
			return nil
		},
		ValidArgs: manifestKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "settings" {
				_, err := io.WriteString(cmd.OutOrStdout(), Sample)
				return err
			}
			return m.write(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.Image, "image", m.Image, "image with the holdfast binary as entry point")
	f.StringVar(&m.Namespace, "install-namespace", m.Namespace, "namespace that it runs in")
	f.StringSliceVar(&m.Namespaces, "namespace", nil, "let it see and write Services of this namespace only (repeat)")
	f.StringVar(&m.Datapath, "datapath", m.Datapath, "auto, kube-proxy, cilium or cilium-1.19")
	return cmd
}

package slices

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// envPrefix is before the name of every flag in the environment.
const envPrefix = "HOLDFAST_SLICES"

// Command is `holdfast slices`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slices",
		Short: "Publish endpoints of the kubernetes Service that follow readiness and zone",
		Long: "One agent beside each kube-apiserver asks its own whether it is ready, and publishes it with\n" +
			"its zone. A zone that has lost its apiservers is adopted by one of another zone.",
	}
	cmd.AddCommand(runCommand(), statusCommand(), pathCommand(), manifestCommand(), handbackCommand(), forgetCommand())
	return cmd
}

// bindFlags binds the settings that people change by flag; the rest stands in
// the file.
func bindFlags(cmd *cobra.Command, s *Settings, path *string) {
	f := cmd.Flags()
	f.StringVar(path, "config", "", "settings file (YAML); see docs/guide/kubernetes.md")
	f.StringVar(&s.Node, "node", s.Node, "name of the Node (default: the host's name)")
	f.StringVar(&s.Zone, "zone", s.Zone, "zone of the node (default: the label topology.kubernetes.io/zone of its Node)")
	f.StringSliceVar(&s.Addresses, "address", s.Addresses, "where clients reach the own apiserver (default: the InternalIPs of the Node)")
	f.IntVar(&s.Port, "port", s.Port, "port of the own apiserver for clients")
	f.StringVar(&s.Apiserver.URL, "apiserver", s.Apiserver.URL, "the own apiserver, asked whether it is ready")
	f.StringVar(&s.Apiserver.ServerName, "server-name", s.Apiserver.ServerName, "name in the own apiserver's certificate")
	f.StringVar(&s.Apiserver.CA, "ca", s.Apiserver.CA, "CA of the own apiserver (default: the pod's service account, else the kubelet's)")
	f.StringVar(&s.Apiserver.Cert, "cert", s.Apiserver.Cert, "client certificate of the check")
	f.StringVar(&s.Apiserver.Key, "key", s.Apiserver.Key, "key of the client certificate")
	f.StringVar(&s.Apiserver.TokenFile, "token-file", s.Apiserver.TokenFile, "bearer token of the check")
	f.StringVar(&s.Apiserver.Identity, "identity", s.Apiserver.Identity, "host name of the own apiserver in its identity Lease (default: the host's, or the node's)")
	bindAPI(cmd, s)
	f.StringSliceVar(&s.Witnesses, "witness", s.Witnesses, "zones whose apiservers adopt first, best first")
	f.DurationVar(&s.GiveBack, "give-back", s.GiveBack, "how long a zone's own apiserver is ready before its adopter lets go")
	f.DurationVar(&s.Lapse, "lapse", s.Lapse, "how long a node may give no sign of life before it is marked unready")
	f.StringVar(&s.Datapath, "datapath", s.Datapath, "auto, kube-proxy, cilium or cilium-1.19")
	f.DurationVar(&s.Path.Period, "path-period", s.Path.Period, "how often a connection to the Service shows whether it stays in the zone; 0s: never")
	f.StringVar(&s.Telemetry.Listen, "telemetry", s.Telemetry.Listen, "where /metrics, /healthz, /readyz and /status are served")
	s.Log.AddFlags(f)
}

// bindAPI binds how the API is reached.
func bindAPI(cmd *cobra.Command, s *Settings) {
	f := cmd.Flags()
	f.StringSliceVar(&s.API.Servers, "server", s.API.Servers, "URLs of the API, asked in this order")
	f.StringVar(&s.API.Kubeconfig, "kubeconfig", s.API.Kubeconfig, "credentials for the API (default: the pod's service account)")
	f.StringVar(&s.API.Context, "context", s.API.Context, "context of the kubeconfig")
}

func runCommand() *cobra.Command {
	return daemon.Runner[Settings]{
		Short: "Run the agent",
		Env:   envPrefix, Settings: defaultSettings(), Bind: bindFlags,
		Complete: func(s *Settings) error { return s.complete("/") }, Run: run,
	}.Command()
}

func statusCommand() *cobra.Command {
	return daemon.Asker[Status]{
		Short: "Show endpoints, zones and who adopted them, and what to mend",
		Long:  "Show what the agent of this node knows. Exit code 1 says that there is something to mend.",
		Env:   envPrefix, Flag: "agent", At: defaultTelemetry, Usage: "telemetry address of the agent",
		Fetch: fetchStatus, Print: Status.print, Verdict: Status.verdict,
	}.Command()
}

// verdict is the exit code: 1 when there is something to mend.
func (s Status) verdict() error {
	switch n := len(s.Problems); n {
	case 0:
		return nil
	case 1:
		return exit.With(exit.Failed, fmt.Errorf("%s: %s", s.Problems[0].Code, s.Problems[0].Text))
	default:
		return exit.With(exit.Failed, fmt.Errorf("%d problems", n))
	}
}

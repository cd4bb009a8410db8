package check

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// clientsCommand is the check of the group clients over kubeconfigs, against the
// Nodes of a cluster: which addresses are those of single machines only they tell.
func clientsCommand() *cobra.Command {
	var o options
	var target string
	cmd := &cobra.Command{
		Use:   "clients FILE...",
		Short: "Say which clients go around the address of the API",
		Long: `Say which clients go around the address of the API.

Each FILE is the kubeconfig of a client: a person, a pipeline, an operator; or a
pipeline itself, by its name: .gitlab-ci.yml, Jenkinsfile, .github/workflows/*. Which
addresses are those of one machine is told by the Nodes of the cluster, which is
given by --kubeconfig (live) or --target (a bundle or directory). Credentials in the
files are not read.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if target == "" && !o.cluster.given() {
				return errors.New("check clients: no cluster; give --kubeconfig or --target, whose Nodes tell whose addresses they are")
			}
			o.clients, o.only = args, []string{string(rule.Clients)}
			var targets []string
			if target != "" {
				targets = []string{target}
			}
			return o.run(cmd, targets)
		},
	}
	o.cluster.bind(cmd.Flags())
	o.bindReport(cmd)
	cmd.Flags().StringVar(&target, "target", "", "bundle or directory of the cluster")
	return cmd
}

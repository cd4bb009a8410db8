// Command holdfastd is the orchestrator of Holdfast. So far it carries the
// store: real etcd, so that the lab needs nothing installed.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

func main() { os.Exit(exit.Run(context.Background(), command())) }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfastd",
		Short: "A small orchestrator with the kit built in",
	}
	root.AddCommand(&cobra.Command{
		Use:                "etcd [FLAGS]",
		Short:              "Run etcd, with the flags and environment of etcd itself",
		DisableFlagParsing: true,
		// etcdmain parses the arguments and ends the process itself.
		RunE: func(_ *cobra.Command, args []string) error {
			etcdmain.Main(append([]string{"etcd"}, args...))
			return nil
		},
	})
	return root
}

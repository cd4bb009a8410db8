// Command holdfast is the kit for any etcd or Kubernetes cluster: it moves
// the etcd leader away from a partial split, and proves it in a lab.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/access/balance"
	"github.com/holdfast-ha/holdfast/internal/access/slices"
	"github.com/holdfast-ha/holdfast/internal/access/zonal"
	"github.com/holdfast-ha/holdfast/internal/address/vip"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check"
	"github.com/holdfast-ha/holdfast/internal/prove/drill"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair"
)

func main() { os.Exit(exit.Run(context.Background(), command())) }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Keep a cluster answering while its network is half broken, and prove it",
	}
	root.AddCommand(leader.Command(), pair.Command(), balance.Command(), slices.Command(), zonal.Command(), vip.Command(), probe.Command(), lab.Command(), drill.Command(), check.Command())
	return root
}

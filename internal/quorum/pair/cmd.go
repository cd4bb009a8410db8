package pair

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// Command is `holdfast pair`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pair",
		Short: "Bring up the survivor of two etcd members without losing a write",
	}
	cmd.AddCommand(wal.Command(), arbiter.Command())
	return cmd
}

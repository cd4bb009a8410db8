package pair

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/supervise"
)

// supervisor is whoever runs etcd here.
func supervisor(ctx context.Context, s Settings, log *slog.Logger) (supervise.Supervisor, error) {
	dir := filepath.Join(s.StateDir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("stateDir: %w", err)
	}
	if s.Unit != "" {
		unit, err := supervise.NewUnit(ctx, supervise.UnitOptions{Unit: s.Unit, StateDir: dir, Root: "/", Log: log})
		if err != nil {
			return nil, err
		}
		return unit, nil
	}
	if s.StaticPod != "" {
		pod, err := supervise.NewStaticPod(ctx, supervise.StaticPodOptions{Manifest: s.StaticPod, StateDir: dir, Root: "/", Log: log})
		if err != nil {
			return nil, err
		}
		return pod, nil
	}
	child, err := supervise.NewChild(ctx, supervise.ChildOptions{
		Command: s.command, Env: os.Environ(), StateDir: dir, User: s.User, Stdout: os.Stdout, Stderr: os.Stderr, Root: "/", Log: log,
	})
	if err != nil {
		return nil, err
	}
	return child, nil
}

// handbackCommand is `holdfast pair handback`, when a pair is given up.
func handbackCommand() *cobra.Command {
	unit, pod := "", ""
	cmd := &cobra.Command{
		Use:   "handback --unit NAME | --static-pod FILE",
		Short: "Give etcd back to systemd or the kubelet, when the pair is given up",
		Long:  "Takes away what keeps systemd or the kubelet from starting etcd without the agent. Stop the agent first.\nA running etcd goes on as it is.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case (unit == "") == (pod == ""):
				return errors.New("write one of --unit NAME, --static-pod FILE")
			case unit != "":
				return supervise.ReleaseUnit(cmd.Context(), supervise.UnitOptions{Unit: unit, Root: "/", Log: slog.New(slog.DiscardHandler)})
			}
			return supervise.ReleaseStaticPod(pod)
		},
	}
	cmd.Flags().StringVar(&unit, "unit", "", "systemd unit that runs etcd")
	cmd.Flags().StringVar(&pod, "static-pod", "", "manifest of the static pod that runs etcd")
	return cmd
}

package pair

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

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
	child, err := supervise.NewChild(ctx, supervise.ChildOptions{
		Command: s.command, Env: os.Environ(), StateDir: dir, User: s.User, Stdout: os.Stdout, Stderr: os.Stderr, Root: "/", Log: log,
	})
	if err != nil {
		return nil, err
	}
	return child, nil
}

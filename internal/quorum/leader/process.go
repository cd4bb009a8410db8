package leader

import (
	"context"
	"io"
	"log/slog"

	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// run is `holdfast leader run`.
func run(ctx context.Context, stderr io.Writer, settings Settings) error {
	log, err := settings.Log.New(stderr)
	if err != nil {
		return err
	}
	newProcess(settings, log).Run(ctx)
	return nil
}

// newProcess is an agent as a program. Once its settings are sound it ends only
// with its context.
func newProcess(settings Settings, log *slog.Logger) *daemon.Late[Agent] {
	registry := telemetry.NewRegistry()
	ready, alive := telemetry.Require(condOwnMember, condSecond), telemetry.Require(condLoop)
	alive.Set(condLoop, nil)
	report := func(name string, err error) {
		if name == condOwnMember || name == condSecond {
			ready.Set(name, err)
		}
	}
	return &daemon.Late[Agent]{
		Outlet: telemetry.Outlet{
			Settings: settings.Telemetry, Registry: registry, Alive: alive, Ready: ready, Log: log,
			Unserved: "telemetry is not served; the agent works without and tries again",
		},
		Make:    func() (*Agent, error) { return New(settings, report, log) },
		Missing: condOwnMember,
		Status:  func(agent *Agent) any { return agent.Status() },
		Work: func(ctx context.Context, agent *Agent) {
			agent.stats.register(registry)
			go agent.watchLoop(ctx, func(err error) { alive.Set(condLoop, err) })
			log.Info("agent started", "endpoint", settings.Etcd.Endpoints[0], "zone", settings.Zone, "dry_run", settings.DryRun)
			_ = agent.Run(ctx)
		},
	}
}

package slices

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// run is `holdfast slices run`.
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
func newProcess(settings Settings, log *slog.Logger) *daemon.Late[agent] {
	registry := telemetry.NewRegistry()
	ready := telemetry.Require(condAPI, condApiserver, condPublished, condLease)
	alive := telemetry.Require(condLoop)
	alive.Set(condLoop, nil)
	return &daemon.Late[agent]{
		Outlet: telemetry.Outlet{
			Settings: settings.Telemetry, Registry: registry, Alive: alive, Ready: ready, Log: log,
			Unserved: "telemetry is not served; the agent works without and tries again",
		},
		Make:    func() (*agent, error) { return newAgent(settings, ready, log) },
		Missing: condApiserver,
		Status:  func(a *agent) any { return a.status() },
		Work: func(ctx context.Context, a *agent) {
			a.stats.status = a.status
			a.stats.register(registry)
			go a.feelPulse(ctx, alive)
			log.Info("agent started", keyNode, settings.Node, "api", settings.API.Servers)
			a.run(ctx)
		},
	}
}

// mostStuck is how long the loop may go without a pass: it wakes itself every
// quarter of a minute, and its slowest pass takes a few writes of 2.5 s.
const mostStuck = 2 * time.Minute

// feelPulse keeps /healthz.
func (a *agent) feelPulse(ctx context.Context, alive *telemetry.Conditions) {
	for pause(ctx, tick) {
		var err error
		if since := a.now() - time.Duration(a.passed.Load()); since > mostStuck {
			err = fmt.Errorf("the loop has not gone round for %s", since.Round(time.Second))
		}
		alive.Set(condLoop, err)
	}
}

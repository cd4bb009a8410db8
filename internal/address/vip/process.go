package vip

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/realtime"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// Conditions of /healthz and /readyz.
const (
	condLoop  = "loop"
	condAgent = "agent"
)

// run is `holdfast vip run`.
func run(ctx context.Context, stderr io.Writer, settings Settings) error {
	log, err := settings.Log.New(stderr)
	if err != nil {
		return err
	}
	newProcess(settings, log).Run(ctx)
	return nil
}

func newProcess(settings Settings, log *slog.Logger) *daemon.Late[agent] {
	registry := telemetry.NewRegistry()
	ready, alive := telemetry.Require(condAgent), telemetry.Require(condLoop)
	alive.Set(condLoop, nil)
	stats := newMetrics()
	return &daemon.Late[agent]{
		Outlet: telemetry.Outlet{
			Settings: settings.Telemetry, Registry: registry, Alive: alive, Ready: ready, Log: log,
			Unserved: "telemetry is not served; the agent works without and tries again",
		},
		Make:    func() (*agent, error) { return newAgent(settings, stats, log) },
		Missing: condAgent,
		Status:  func(a *agent) any { return a.status() },
		Work: func(ctx context.Context, a *agent) {
			stats.status = a.status
			stats.register(registry)
			go a.feelPulse(ctx, alive)
			ready.Set(condAgent, nil)
			log.Info("agent started")
			if settings.Realtime {
				defer hurry(log)()
			}
			a.run(ctx)
		},
	}
}

// hurry puts this process before ordinary ones, until leave.
func hurry(log *slog.Logger) (leave func()) {
	leave, err := realtime.Enter(log)
	if err != nil {
		log.Info("on a busy machine adverts may be late; CAP_SYS_NICE or RLIMIT_RTPRIO 1 would let them go before other work", keyError, err)
	}
	return leave
}

// feelPulse keeps /healthz.
func (a *agent) feelPulse(ctx context.Context, alive *telemetry.Conditions) {
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		alive.Set(condLoop, a.alive())
	}
}

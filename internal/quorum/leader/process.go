package leader

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// retryEvery is how often something that a person may be mending is tried
// again: a certificate that is not there yet, a port that is still taken.
const retryEvery = 5 * time.Second

// process is an agent as a program: with telemetry, and waiting for what is
// not there yet. Once its settings are sound it ends only with its context.
type process struct {
	settings     Settings
	log          *slog.Logger
	ready, alive *telemetry.Conditions
	registry     *prometheus.Registry
	agent        atomic.Pointer[Agent] // nil until its credentials could be read
}

// run is `holdfast leader run`.
func run(ctx context.Context, stderr io.Writer, settings Settings) error {
	log, err := settings.Log.New(stderr)
	if err != nil {
		return err
	}
	p := &process{
		settings: settings, log: log, registry: telemetry.NewRegistry(),
		ready: telemetry.Require(condOwnMember, condSecond), alive: telemetry.Require(condLoop),
	}
	p.alive.Set(condLoop, nil)
	var wg sync.WaitGroup
	wg.Go(func() { p.serve(ctx) })
	wg.Go(func() { p.work(ctx) })
	wg.Wait()
	return nil
}

// work starts the agent as soon as that is possible, and runs it.
func (p *process) work(ctx context.Context) {
	agent := p.start(ctx)
	if agent == nil {
		return
	}
	agent.stats.register(p.registry)
	p.agent.Store(agent)
	go agent.watchLoop(ctx, func(err error) { p.alive.Set(condLoop, err) })
	p.log.Info("agent started", "endpoint", p.settings.Etcd.Endpoints[0], "zone", p.settings.Zone, "dry_run", p.settings.DryRun)
	_ = agent.Run(ctx)
}

// start makes the agent; nil means that ctx ended first.
func (p *process) start(ctx context.Context) *Agent {
	said := ""
	for {
		agent, err := New(p.settings, p.report, p.log)
		if err == nil {
			return agent
		}
		if text := err.Error(); text != said {
			said = text
			p.log.Warn("the agent cannot start yet; it tries again", keyError, text)
		}
		p.ready.Set(condOwnMember, err)
		if !pause(ctx, retryEvery) {
			return nil
		}
	}
}

func (p *process) report(name string, err error) {
	if name == condOwnMember || name == condSecond {
		p.ready.Set(name, err)
	}
}

// serve offers telemetry, waiting for the port where it is taken.
func (p *process) serve(ctx context.Context) {
	said := false
	for {
		server, err := telemetry.Listen("telemetry.listen", p.settings.Telemetry.Listen, p.registry, p.alive, p.ready)
		if err == nil {
			server.Handle("GET /status", p.status())
			err = server.Serve(ctx)
		}
		if err != nil && !said {
			said = true
			p.log.Warn("telemetry is not served; the agent works without and tries again", keyError, err.Error())
		}
		if !pause(ctx, retryEvery) {
			return
		}
	}
}

// status answers from the agent, once there is one.
func (p *process) status() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent := p.agent.Load()
		if agent == nil {
			http.Error(w, fmt.Sprintf("the agent has not started: %v", p.ready.Err()), http.StatusServiceUnavailable)
			return
		}
		statusHandler(agent.Status).ServeHTTP(w, r)
	})
}

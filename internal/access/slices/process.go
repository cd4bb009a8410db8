package slices

import (
	"context"
	"encoding/json"
	"errors"
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

// process is an agent as a program: with telemetry, and waiting for what is not
// there yet. Once its settings are sound it ends only with its context.
type process struct {
	settings     Settings
	log          *slog.Logger
	ready, alive *telemetry.Conditions
	registry     *prometheus.Registry
	agent        atomic.Pointer[agent] // nil until its credentials could be read
}

// run is `holdfast slices run`.
func run(ctx context.Context, stderr io.Writer, settings Settings) error {
	log, err := settings.Log.New(stderr)
	if err != nil {
		return err
	}
	p := &process{
		settings: settings, log: log, registry: telemetry.NewRegistry(),
		ready: telemetry.Require(condAPI, condApiserver, condPublished, condLease), alive: telemetry.Require(condLoop),
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
	a := p.start(ctx)
	if a == nil {
		return
	}
	a.stats.status = a.status
	a.stats.register(p.registry)
	p.agent.Store(a)
	go p.feelPulse(ctx, a)
	p.log.Info("agent started", keyNode, p.settings.Node, "api", p.settings.API.Servers)
	a.run(ctx)
}

// start makes the agent; nil means that ctx ended first.
func (p *process) start(ctx context.Context) *agent {
	said := ""
	for {
		a, err := newAgent(p.settings, p.ready, p.log)
		if err == nil {
			return a
		}
		if text := err.Error(); text != said {
			said = text
			p.log.Warn("the agent cannot start yet; it tries again", keyError, text)
		}
		p.ready.Set(condApiserver, err)
		if !pause(ctx, retryEvery) {
			return nil
		}
	}
}

// mostStuck is how long the loop may go without a pass: it wakes itself every
// quarter of a minute, and its slowest pass takes a few writes of 2.5 s.
const mostStuck = 2 * time.Minute

// feelPulse keeps /healthz.
func (p *process) feelPulse(ctx context.Context, a *agent) {
	for pause(ctx, tick) {
		var err error
		if since := a.now() - time.Duration(a.passed.Load()); since > mostStuck {
			err = fmt.Errorf("the loop has not gone round for %s", since.Round(time.Second))
		}
		p.alive.Set(condLoop, err)
	}
}

// serve offers telemetry, waiting for the port where it is taken. "" is none.
func (p *process) serve(ctx context.Context) {
	said := false
	for p.settings.Telemetry.Listen != "" {
		server, err := telemetry.Listen("telemetry.listen", p.settings.Telemetry.Listen, p.registry, p.alive, p.ready)
		if err == nil {
			said = false
			server.Handle("GET /status", http.HandlerFunc(p.serveStatus))
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

// serveStatus answers from the agent, once there is one.
func (p *process) serveStatus(w http.ResponseWriter, _ *http.Request) {
	a := p.agent.Load()
	if a == nil {
		err := p.ready.Err()
		if err == nil {
			err = errors.New("not yet")
		}
		http.Error(w, fmt.Sprintf("the agent has not started: %v", err), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.status())
}

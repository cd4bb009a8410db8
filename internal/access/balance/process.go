package balance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-ha/holdfast/internal/access/balance/relay"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// Conditions of /readyz.
const (
	condFrontends = "frontends" // every frontend has a backend to offer
	condLoop      = "loop"
)

// process is `holdfast balance run`.
type process struct {
	load     func() (Settings, error) // reads the settings again
	file     string                   // the settings file; "" for none
	log      *slog.Logger
	clock    func() time.Duration
	engine   *relay.Engine
	registry *prometheus.Registry
	stats    *metrics
	ready    *telemetry.Conditions
	alive    *telemetry.Conditions
	checkers sync.Map // *relay.Target → *health.Checker: whom evidence goes to
	started  time.Time
	life     context.Context // of pools; ends after the drain
	// handed is closed when a newer process has taken over the listeners.
	handed     chan struct{}
	handedOnce sync.Once
	// quiet is closed when the telemetry port is free again.
	quiet chan struct{}

	mu        sync.Mutex
	settings  Settings
	frontends map[string]*frontend
	listeners map[string]*relay.Listener // by address
	reloaded  time.Time
	reloadErr error
}

// run serves until ctx ends, then drains.
func run(ctx context.Context, stderr io.Writer, q *quick, load func() (Settings, error)) error {
	settings, err := load()
	if err != nil {
		return err
	}
	log, err := settings.Log.New(stderr)
	if err != nil {
		return err
	}
	p, err := newProcess(q.path, load, log)
	if err != nil {
		return err
	}
	// Engine and checks outlive ctx: connections drain, and those to a backend
	// that fails meanwhile are still reset.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	p.life = life
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.engine.Run(life) })
	defer wg.Wait()
	defer end()

	taken, err := p.takeOver(ctx, settings.Control, q.upgrade)
	if err != nil {
		return err
	}
	defer taken.close()
	ctl, err := p.begin(ctx, settings, taken)
	if err != nil {
		return err
	}
	return p.serve(ctx, settings, ctl)
}

func newProcess(file string, load func() (Settings, error), log *slog.Logger) (*process, error) {
	start := time.Now()
	p := &process{
		load: load, file: file, log: log, started: start, clock: func() time.Duration { return time.Since(start) },
		registry: telemetry.NewRegistry(), handed: make(chan struct{}), quiet: make(chan struct{}),
		ready: telemetry.Require(condFrontends), alive: telemetry.Require(condLoop),
		frontends: map[string]*frontend{}, listeners: map[string]*relay.Listener{},
	}
	var err error
	if p.engine, err = relay.New(relay.Options{Log: log, Observe: p.observe}); err != nil {
		return nil, fmt.Errorf("start event loops: %w", err)
	}
	p.stats = newMetrics(p)
	p.registry.MustRegister(p.stats)
	p.alive.Set(condLoop, nil)
	return p, nil
}

// begin puts the settings in force, and takes the control socket.
func (p *process) begin(ctx context.Context, settings Settings, taken *handover) (*control, error) {
	if taken == nil {
		// Before anything listens: two processes with one control socket are
		// one too many.
		if err := controlFree(settings.Control); err != nil {
			return nil, err
		}
	}
	if err := p.apply(settings, taken.files()); err != nil {
		return nil, err
	}
	if taken != nil {
		p.awaitVerdicts(ctx)
		if err := taken.finish(); err != nil {
			return nil, err
		}
		p.log.Info("took over from the process before", "listeners", taken.count)
	}
	return openControl(settings.Control)
}

// serve runs everything beside the engine until ctx ends or a newer process
// has taken over; then connections drain.
func (p *process) serve(ctx context.Context, settings Settings, ctl *control) error {
	working, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { ctl.serve(working, p.handler()) })
	wg.Go(func() { p.serveTelemetry(working, settings.Telemetry.Listen) })
	wg.Go(func() { p.watch(working) })
	notify("READY=1")
	p.log.Info("balancer started", "frontends", len(settings.Frontends), "pid", os.Getpid())
	select {
	case <-ctx.Done():
		notify("STOPPING=1")
		p.drain()
		stop()
	case <-p.handed:
		stop()
		p.drain()
	}
	wg.Wait()
	p.halt()
	ctl.remove()
	return nil
}

// drain stops accepting and waits for the last connection, at most for the
// time that the settings give.
func (p *process) drain() {
	limit := p.closeListeners()
	n := p.engine.Active()
	p.log.Info("draining", "connections", n, "at_most", limit.String())
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	select {
	case <-p.engine.Drained():
		p.log.Info("drained")
	case <-deadline.C:
		p.log.Warn("connections are reset: they did not end in time", "count", p.engine.Active())
	}
}

func (p *process) closeListeners() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a, l := range p.listeners {
		_ = l.Close()
		delete(p.listeners, a)
	}
	return p.settings.Drain
}

func (p *process) halt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.frontends {
		f.halt()
	}
}

// watchEvery is how often the settings file is looked at.
const watchEvery = time.Second

// watch reloads on SIGHUP and when the file changes, and starts a newer
// process on SIGUSR2.
func (p *process) watch(ctx context.Context) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR2)
	defer signal.Stop(signals)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := stamp(p.file)
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			if s == syscall.SIGUSR2 {
				p.startSuccessor()
				continue
			}
			seen = stamp(p.file)
			p.reload()
		case <-tick.C:
			p.judgeReady()
			// A missing file is an editor at work, not a wish.
			if now := stamp(p.file); now != seen && now != "" {
				seen = now
				p.reload()
			}
		}
	}
}

// stamp identifies the content of a file as it is now; "" when it cannot be
// read.
func stamp(path string) string {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return ""
	}
	inode := uint64(0)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size(), inode)
}

// reload puts the settings as they are now in force, or keeps the old ones and
// says why.
func (p *process) reload() {
	settings, err := p.load()
	if err == nil {
		err = p.apply(settings, nil)
	}
	p.mu.Lock()
	p.reloadErr, p.reloaded = err, time.Now()
	p.mu.Unlock()
	p.stats.reloaded(err)
	if err != nil {
		p.log.Error("settings not taken; the old ones stay in force", keyError, err.Error())
		return
	}
	p.log.Info("settings taken", "frontends", len(settings.Frontends))
}

// judgeReady keeps /readyz: every frontend has somebody to offer.
func (p *process) judgeReady() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var without []error
	for _, f := range p.frontends {
		if f.pool.view.Load().table.Usable() == 0 {
			without = append(without, fmt.Errorf("frontend %s has no backend that is ready", f.name))
		}
	}
	p.ready.Set(condFrontends, first(errors.Join(without...)))
}

// retryEvery is how often a telemetry port that is taken is tried again.
const retryEvery = 2 * time.Second

// serveTelemetry waits for the port where it is taken: a process that hands
// over keeps it a little longer than its listeners.
func (p *process) serveTelemetry(ctx context.Context, listen string) {
	defer close(p.quiet)
	said := false
	for ctx.Err() == nil {
		server, err := telemetry.Listen("telemetry.listen", listen, p.registry, p.alive, p.ready)
		if err == nil {
			server.Handle("GET /status", p.handler())
			err = server.Serve(ctx)
		}
		if err != nil && !said {
			said = true
			p.log.Warn("telemetry is not served; clients are, and it is tried again", keyError, err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

// awaitVerdicts waits until every backend was judged once, at most as long as
// the slowest check may take.
func (p *process) awaitVerdicts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for !p.judgedAll() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *process) judgedAll() bool {
	for _, pool := range p.pools("") {
		if len(pool.view.Load().table.Backends()) == 0 {
			return false
		}
		for _, b := range pool.view.Load().table.Backends() {
			if b.Grade == health.Unknown {
				return false
			}
		}
	}
	return true
}

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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-ha/holdfast/internal/access/balance/relay"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
	"github.com/holdfast-ha/holdfast/internal/health"
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
	handed chan struct{}
	// hush frees the telemetry port for a newer process; quiet is closed when
	// it is free.
	hush  context.CancelFunc
	quiet chan struct{}
	// steered counts the rounds of steer.
	steered atomic.Uint64

	// applying lets one change of the settings happen at a time. It is held
	// while sources and files are waited for; mu never is, so that a file
	// system that hangs stops neither status nor a signal.
	applying sync.Mutex

	mu       sync.Mutex
	settings Settings
	// frontends are those in force; each is replaced whole.
	frontends map[string]*frontend
	// pools run, by name; retired ones wait for their last connection.
	pools     map[string]*pool
	retired   map[string]*pool
	listeners map[string]*relay.Listener // by address
	reloaded  time.Time
	reloadErr error
	closing   bool // nothing listens any more, and nothing may
	succession
}

// run serves until ctx ends or a newer process has taken over, then drains.
func run(ctx context.Context, stderr io.Writer, q *quick, load func() (Settings, error)) error {
	// First of all: until somebody listens to it, SIGHUP ends a process.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR2)
	defer signal.Stop(signals)
	// Before the file is read: what changes from here on is seen later.
	seen := stamp(q.path)
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

	ctl, err := p.begin(ctx, settings, q.upgrade)
	if errors.Is(err, errStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	p.serve(ctx, settings, ctl, signals, seen)
	return nil
}

func newProcess(file string, load func() (Settings, error), log *slog.Logger) (*process, error) {
	start := time.Now()
	p := &process{
		load: load, file: file, log: log, started: start, clock: func() time.Duration { return time.Since(start) },
		registry: telemetry.NewRegistry(), handed: make(chan struct{}), quiet: make(chan struct{}), hush: func() {},
		ready: telemetry.Require(condFrontends, condServing), alive: telemetry.Require(condLoop),
		frontends: map[string]*frontend{}, pools: map[string]*pool{}, retired: map[string]*pool{}, listeners: map[string]*relay.Listener{},
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

// errStopped says that the process was asked to stop before it served.
var errStopped = errors.New("stopped before it served")

// begin puts the settings in force and takes the control socket: as the only
// process, or in place of one that runs.
func (p *process) begin(ctx context.Context, settings Settings, upgrade bool) (*control, error) {
	p.applying.Lock()
	defer p.applying.Unlock()
	if upgrade {
		taken, err := p.takeOver(ctx, settings.Control)
		if err != nil {
			return nil, err
		}
		if taken != nil {
			defer taken.close()
			return p.succeed(ctx, settings, taken)
		}
	}
	return p.startAlone(settings)
}

// startAlone begins as the only process. Whatever can fail comes before the first
// client is accepted.
func (p *process) startAlone(settings Settings) (*control, error) {
	// Before anything listens: two processes with one control socket are one
	// too many.
	if err := controlFree(settings.Control); err != nil {
		return nil, err
	}
	c, err := p.prepare(settings, nil)
	if err != nil {
		return nil, err
	}
	ctl, err := openControl(settings.Control)
	if err != nil {
		p.abandon(c)
		return nil, err
	}
	if err := ctl.publish(); err != nil {
		ctl.discard()
		p.abandon(c)
		return nil, err
	}
	p.startPools(c)
	return ctl, p.commit(c)
}

// serve runs everything beside the engine until ctx ends or a newer process
// has taken over; then connections drain.
func (p *process) serve(ctx context.Context, settings Settings, ctl *control, signals <-chan os.Signal, seen string) {
	// While connections drain a person may still ask; the settings stay as
	// they are, lest a listener be opened again.
	asked, deaf := context.WithCancel(context.WithoutCancel(ctx))
	watching, blind := context.WithCancel(ctx)
	loud, hush := context.WithCancel(asked)
	p.hush = hush
	reread := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ctl.serve(asked, p.handler()) })
	wg.Go(func() { p.serveTelemetry(loud, settings.Telemetry.Listen) })
	wg.Go(func() { p.steer(watching, signals, reread) })
	wg.Go(func() { p.follow(watching, sight{taken: seen, last: seen}, reread) })
	wg.Go(func() { p.feelPulse(asked) })
	p.ready.Set(condServing, nil)
	notify(fmt.Sprintf("MAINPID=%d\nREADY=1", os.Getpid()))
	p.log.Info("balancer started", "frontends", len(settings.Frontends), "pid", os.Getpid())
	select {
	case <-ctx.Done():
		notify("STOPPING=1")
	case <-p.handed:
		deaf() // the control socket is the newer process's
	}
	blind()
	p.drain()
	p.awaitOffer()
	hush()
	deaf()
	within2s(wg.Wait)
	p.halt()
	if !p.isHanded() {
		ctl.remove()
	}
}

// drain stops accepting and waits for the last connection, at most for the
// time that the settings give.
func (p *process) drain() {
	limit := p.close()
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

// errClosing is why settings are not taken any more.
var errClosing = errors.New("this process drains and takes no settings any more")

// close ends all listeners for good, and returns how long connections may
// go on.
func (p *process) close() time.Duration {
	p.mu.Lock()
	p.closing = true
	all, limit := p.listeners, p.settings.Drain
	p.listeners = map[string]*relay.Listener{}
	p.mu.Unlock()
	p.ready.Set(condServing, errors.New("draining"))
	for _, l := range all {
		_ = l.Close()
	}
	return limit
}

// halt ends sources and checks. One that reads from a file system that hangs
// ends with the process.
func (p *process) halt() {
	p.mu.Lock()
	var wg sync.WaitGroup
	for _, pool := range p.pools {
		wg.Go(pool.halt)
	}
	p.mu.Unlock()
	within2s(wg.Wait)
}

// within2s waits for something, but not for ever: long enough for whatever
// ends with its context, short beside the time that a service manager gives.
func within2s(wait func()) bool {
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// awaitVerdicts waits until every backend of the pools was judged once, at
// most as long as the slowest check may take.
func awaitVerdicts(ctx context.Context, pools []*pool) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !judgedAll(pools) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func judgedAll(pools []*pool) bool {
	for _, pool := range pools {
		backends := pool.view.Load().table.Backends()
		if len(backends) == 0 {
			return false
		}
		for _, b := range backends {
			if b.Grade == health.Unknown {
				return false
			}
		}
	}
	return true
}

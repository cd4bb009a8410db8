package slices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
	"github.com/holdfast-ha/holdfast/internal/base/loop"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
	"github.com/holdfast-ha/holdfast/internal/health"
)

const (
	// lockDuration is that of the short Lease. One transaction is about ten
	// requests, three of them after one another, of up to 200 ms each where the
	// leader of etcd is far; whoever is killed in the middle holds up the others
	// for this long.
	lockDuration = 3 * time.Second
	// renewBelow is when a holder renews before it writes on.
	renewBelow = 1200 * time.Millisecond
	// aloneAfter is how long an owner whose apiserver is unready tries for the
	// Lease before it withdraws without.
	aloneAfter = time.Second
	// standBack is how long an agent leaves shared work to those it concerns, so
	// that not all reach for the Lease at once.
	standBack = 250 * time.Millisecond
	// retryMin and retryMax are between two tries for the Lease.
	retryMin, retryMax = 150 * time.Millisecond, 300 * time.Millisecond
	// mostRounds bounds what is planned anew under one Lease.
	mostRounds = 8
	// tick is how often the loop looks without being nudged; nothing depends on it.
	tick = 15 * time.Second
)

// agent publishes the endpoint of one node and takes its part in what is shared.
type agent struct {
	settings  Settings
	decisions plan.Settings
	log       *slog.Logger
	ready     *telemetry.Conditions
	problems  *problems
	events    *kubeapi.Events
	cluster   *kubeapi.Cluster
	dialer    *dialer
	world     *world
	actor     *actor
	checker   *health.Checker
	method    *health.Method
	lock      *lease.Lock
	loop      loop.Loop
	started   time.Time
	holder    string
	hosts     []string // by which the own apiserver's identity Lease is known
	near      *nearness
	stats     *metrics
	alarm     *time.Timer // nudges when time alone changes something
	// passed is when the loop last went round, for /healthz.
	passed atomic.Int64

	mu       sync.Mutex
	observer *plan.Observer
	health   plan.Health
	own      []plan.Address
	traffic  datapath.Datapath
	facts    plan.Facts
	failing  map[collection]failure
	identity string    // the own apiserver's Lease, once it was found
	renewed  time.Time // the own Lease, last
	pending  time.Time // since when there is shared work that was not done
}

// newAgent reads the credentials; its error says what is missing.
func newAgent(s Settings, ready *telemetry.Conditions, log *slog.Logger) (*agent, error) {
	address, err := s.Apiserver.address()
	if err != nil {
		return nil, err
	}
	method, err := s.Apiserver.check().Open()
	if err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	prober, err := method.Prober("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	a := &agent{
		settings: s, decisions: s.decisions(), log: log, ready: ready, method: method, started: time.Now(),
		world: newWorld(), dialer: newDialer(address), near: newNearness(), stats: newMetrics(),
		failing: map[collection]failure{}, holder: holderOf(s.Node), hosts: hostsOf(s),
	}
	a.cluster = &kubeapi.Cluster{
		Kubeconfig: s.API.Kubeconfig, Context: s.API.Context, Servers: s.API.Servers, Dial: a.dialer.dial,
	}
	a.actor = &actor{client: a.cluster.Client, world: a.world}
	a.lock = &lease.Lock{
		Client: a.cluster.Client, Namespace: leaseNamespace, Name: lockName,
		Identity: lease.NewIdentity(s.Node), Duration: lockDuration,
	}
	a.events = &kubeapi.Events{Client: a.cluster.Client, Component: "holdfast-slices", Instance: s.Node}
	a.problems = newProblems(log, a.record)
	a.observer = plan.NewObserver(a.decisions)
	a.loop = loop.Loop{Name: "slices", Log: log, Period: tick, Jitter: 0.1, Backoff: loop.Backoff{Min: 200 * time.Millisecond, Max: 2 * time.Second}}
	a.alarm = time.AfterFunc(time.Hour, a.loop.Nudge)
	a.checker = health.NewChecker(prober, s.Apiserver.timers(), a.judge)
	return a, nil
}

// hostsOf are the names that the own apiserver may have labelled its identity
// Lease with: what is set, or the host's name, or the node's.
func hostsOf(s Settings) []string {
	if s.Apiserver.Identity != "" {
		return []string{s.Apiserver.Identity}
	}
	host, err := os.Hostname()
	if err != nil {
		return []string{s.Node}
	}
	return []string{host, s.Node}
}

// record makes an Event at the Service, where kubectl describe shows it.
func (a *agent) record(kind, reason, message string) {
	about := kubeapi.Reference{APIVersion: "v1", Kind: "Service", Namespace: plan.Namespace, Name: plan.ServiceName}
	a.events.Record(about, kind, reason, a.settings.Node+": "+message)
}

func (a *agent) now() time.Duration { return time.Since(a.started) }

// run works until ctx ends.
func (a *agent) run(ctx context.Context) {
	var wg sync.WaitGroup
	w := &watcher{world: a.world, connect: a.cluster.Connect, changed: a.changed, report: a.reported}
	wg.Go(func() { a.checker.Run(ctx) })
	wg.Go(func() { w.run(ctx) })
	wg.Go(func() { a.events.Run(ctx) })
	wg.Go(func() { a.sign(ctx) })
	wg.Go(func() { a.learn(ctx) })
	wg.Go(func() { a.detect(ctx) })
	wg.Go(func() { a.measure(ctx) })
	_ = a.loop.Run(ctx, a.pass)
	wg.Wait()
	a.alarm.Stop()
	a.leave()
}

// judge takes the verdict on the own apiserver, from the checker's goroutine.
func (a *agent) judge(v health.Verdict) {
	a.mu.Lock()
	before := a.health
	switch {
	case v.Grade == health.Ready:
		a.health = plan.Ready
	case v.Grade == health.Unknown || v.Grade == health.Alive:
		// It does not say whether it is ready. What was known stays.
	default:
		a.health = plan.Unready
	}
	now := a.health
	a.mu.Unlock()
	a.dialer.set(now == plan.Unready)
	if now == plan.Ready && before == plan.Unknown {
		a.log.Info("own apiserver is ready")
	}
	a.loop.Nudge()
}

// changed shows the observer what a watch has brought, as it arrives.
func (a *agent) changed(c collection) {
	if a.world.complete() {
		a.look()
	}
	if c != ofLeases || a.busy() {
		a.loop.Nudge()
	}
}

// busy says that a renewed Lease may change what is decided: somebody is late,
// or something waits.
func (a *agent) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.facts.Quiet) > 0 || len(a.facts.Lapsed) > 0 || a.facts.Rival != "" || !a.pending.IsZero()
}

// look is what is known now, and what follows from how long it has been so.
func (a *agent) look() (sight, plan.Self, plan.Facts) {
	s, self := a.world.look(), a.me()
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	a.observer.See(now, &self, &s.view)
	a.facts = a.observer.Facts(now)
	if a.facts.Due > 0 {
		a.alarm.Reset(a.facts.Due)
	}
	return s, self, a.facts
}

// me is this agent as plan knows it.
func (a *agent) me() plan.Self {
	zone := a.settings.Zone
	if zone == "" {
		zone, _, _ = a.world.zoneOf(a.settings.Node)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return plan.Self{
		Node: a.settings.Node, Zone: zone, Holder: a.holder, Addresses: a.own,
		Port: int32(a.settings.Port), Health: a.health,
	}
}

// pass looks once, and does what is to be done.
func (a *agent) pass(ctx context.Context) error {
	a.passed.Store(int64(a.now()))
	a.complain()
	if missing := a.world.missing(); missing != "" {
		return nil // the watches say why
	}
	s, self, facts := a.look()
	cfg := a.config()
	err := a.perform(ctx, &s, plan.Own(&cfg, &self, &s.view, &facts))
	if err != nil {
		err = a.excuse(err)
	} else {
		s, self, facts = a.look()
	}
	a.judgeReady(&s, &self, &facts)
	if s.view.ZonesKnown || a.now() > tick {
		a.problems.replace(planned, a.planProblems(&cfg, &s, &self, &facts))
	}
	if len(plan.Shared(&cfg, &self, &s.view, &facts)) == 0 {
		a.setPending(false)
		return err
	}
	return errors.Join(err, a.share(ctx, &self))
}

// config is what a person chose, and what the datapath honours.
func (a *agent) config() plan.Settings {
	a.mu.Lock()
	defer a.mu.Unlock()
	cfg := a.decisions
	if a.traffic != (datapath.Datapath{}) {
		cfg.Traffic = a.traffic.Prefer()
	}
	return cfg
}

// setPending notes whether shared work waits, and since when.
func (a *agent) setPending(is bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !is:
		a.pending = time.Time{}
		return 0
	case a.pending.IsZero():
		a.pending = time.Now()
	}
	return time.Since(a.pending)
}

// share does what needs the Lease, or comes back later.
func (a *agent) share(ctx context.Context, self *plan.Self) error {
	waited := a.setPending(true)
	if self.Health != plan.Unready && waited < standBack/2 {
		a.again(standBack/2 + rand.N(standBack/2))
		return nil
	}
	held, err := a.lock.Acquire(ctx)
	switch {
	case held:
		err = a.transact(ctx)
	case self.Health == plan.Unready && waited > aloneAfter:
		err = a.withdraw(ctx)
	}
	if !refused(err) { // else the next tick tries again, and takes the Lease no sooner
		a.again(retryMin + rand.N(retryMax-retryMin))
	}
	if err != nil {
		return a.excuse(err)
	}
	return nil
}

// again has the loop look once more after d.
func (a *agent) again(d time.Duration) { time.AfterFunc(d, a.loop.Nudge) }

// transact works under the Lease until nothing is left to do.
func (a *agent) transact(ctx context.Context) error {
	defer a.release(ctx)
	for range mostRounds {
		done, err := a.round(ctx)
		if done || err != nil && !conflict(err) {
			return err
		}
	}
	return nil
}

// round reads everything anew, plans and writes.
func (a *agent) round(ctx context.Context) (done bool, err error) {
	within, cancel := a.lock.Context(ctx)
	defer cancel()
	s, err := a.readAnew(within)
	if err != nil {
		return false, err
	}
	_, self, facts := a.look()
	cfg := a.config()
	writes := plan.Shared(&cfg, &self, &s.view, &facts)
	if len(writes) == 0 {
		return true, nil
	}
	return false, a.perform(ctx, &s, writes, a.mayWrite)
}

func (a *agent) readAnew(ctx context.Context) (sight, error) {
	client, err := a.cluster.Client()
	if err != nil {
		return sight{}, err
	}
	r := reader{world: a.world, client: client}
	return r.read(ctx)
}

// mayWrite sees to it that the Lease is held for as long as a write may take.
func (a *agent) mayWrite(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if until := a.lock.Until(); until.IsZero() || time.Until(until) < renewBelow {
		if err := a.lock.Renew(ctx); err != nil {
			return nil, nil, err
		}
	}
	within, cancel := a.lock.Context(ctx)
	return within, cancel, nil
}

// release gives the Lease back; what it cannot, lapses.
func (a *agent) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = a.lock.Release(ctx)
}

// withdraw takes the own endpoint out without the Lease, whose holder may be dead.
func (a *agent) withdraw(ctx context.Context) error {
	s, err := a.readAnew(ctx)
	if err != nil {
		return err
	}
	_, self, facts := a.look()
	cfg := a.config()
	return a.perform(ctx, &s, plan.Withdraw(&cfg, &self, &s.view, &facts))
}

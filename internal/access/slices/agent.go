package slices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
	"github.com/holdfast-ha/holdfast/internal/base/loop"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// tick is how often the loop looks without being nudged; nothing depends on it.
const tick = 15 * time.Second

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
	contact   *contact
	course    *course
	stats     *metrics
	alarm     *time.Timer // nudges when time alone changes something
	retry     *time.Timer // nudges when what waits may be tried again
	retryAt   time.Time
	clock     func() time.Time
	restraint restraint
	// passed is when the loop last went round, for /healthz.
	passed atomic.Int64

	// seeing keeps the observer from being shown an older world after a newer one.
	seeing   sync.Mutex
	observer *plan.Observer

	mu       sync.Mutex
	health   plan.Health
	own      []plan.Address
	traffic  datapath.Datapath
	facts    plan.Facts
	failing  map[collection]failure
	identity string    // the own apiserver's Lease, once it was found
	renewed  time.Time // the own Lease, last
	signedAs string    // its version then
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
		settings: s, decisions: s.decisions(), log: log, ready: ready, method: method, started: time.Now(), clock: time.Now,
		world: newWorld(), dialer: newDialer(address), near: newNearness(), contact: newContact(log), course: newCourse(),
		stats: newMetrics(), failing: map[collection]failure{}, holder: holderOf(s.Node, sourceAddresses()), hosts: hostsOf(s),
	}
	a.cluster = &kubeapi.Cluster{
		Kubeconfig: s.API.Kubeconfig, Context: s.API.Context, Servers: s.API.Servers, Dial: a.dialer.dial,
	}
	a.actor = &actor{client: a.cluster.Client, world: a.world}
	a.lock = &lease.Lock{
		Client: a.cluster.Client, Namespace: leaseNamespace, Name: lockName,
		Identity: lease.NewIdentity(s.Node), Duration: plan.TurnLasts,
	}
	a.events = &kubeapi.Events{Client: a.cluster.Client, Component: "holdfast-slices", Instance: s.Node}
	a.events.Report = a.eventWritten
	a.problems = newProblems(log, a.record)
	a.observer = plan.NewObserver(a.decisions)
	a.loop = loop.Loop{Name: "slices", Log: log, Period: tick, Jitter: 0.1, Backoff: loop.Backoff{Min: 200 * time.Millisecond, Max: 2 * time.Second}}
	a.alarm, a.retry = time.AfterFunc(time.Hour, a.loop.Nudge), time.AfterFunc(time.Hour, a.loop.Nudge)
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

// record makes an Event at the Service, where kubectl describe shows it; or at
// the Node, of what is wrong with that alone.
func (a *agent) record(kind, reason, message string) {
	about := kubeapi.Reference{APIVersion: "v1", Kind: "Service", Namespace: plan.Namespace, Name: plan.ServiceName}
	if reason == camel(codeIgnored) {
		// The name in the place of the UID is how kubectl describe node finds it.
		about = kubeapi.Reference{APIVersion: "v1", Kind: "Node", Name: a.settings.Node, UID: a.settings.Node}
	}
	a.events.Record(about, kind, reason, a.settings.Node+": "+message)
}

// eventWritten tells that Events may not be written. Others that fail are written
// later, or not.
func (a *agent) eventWritten(err error) {
	if right, text := denied(err); text != "" {
		a.problems.set(codeDenied, right, text)
	}
}

// recordEvery is how often problems that stand are recorded again: one whose Event
// was written is not written again for 5 minutes.
const recordEvery = time.Minute

// remind records again what stands.
func (a *agent) remind(ctx context.Context) {
	for pause(ctx, recordEvery) {
		a.problems.recordAgain()
	}
}

func (a *agent) now() time.Duration { return time.Since(a.started) }

// run works until ctx ends.
func (a *agent) run(ctx context.Context) {
	var wg sync.WaitGroup
	w := &watcher{world: a.world, connect: a.cluster.Connect, changed: a.changed, report: a.reported}
	wg.Go(func() { a.checker.Run(ctx) })
	wg.Go(func() { w.run(ctx) })
	wg.Go(func() { a.events.Run(ctx) })
	wg.Go(func() { a.remind(ctx) })
	wg.Go(func() { a.sign(ctx) })
	wg.Go(func() { a.learn(ctx) })
	wg.Go(func() { a.detect(ctx) })
	wg.Go(func() { a.measure(ctx) })
	wg.Go(func() { a.contact.run(ctx, a.others, a.loop.Nudge) })
	wg.Go(func() { a.seekWays(ctx) })
	wg.Go(func() { a.follow(ctx) })
	_ = a.loop.Run(ctx, a.pass)
	wg.Wait()
	a.alarm.Stop()
	a.retry.Stop()
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
	if c == ofSlices || c == ofCombined || c == ofNodes {
		a.observePath()
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
	a.seeing.Lock()
	defer a.seeing.Unlock()
	s, self := a.world.look(), a.me()
	now := a.now()
	a.observer.See(now, &self, &s.view)
	facts := a.observer.Facts(now)
	facts.Unreached = a.contact.unreached()
	if facts.Due > 0 {
		a.alarm.Reset(facts.Due)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.facts = facts
	return s, self, facts
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
	a.askStrays(ctx)
	s, self, facts := a.look()
	a.contact.seek(dependent(&self, &s.view))
	cfg := a.config()
	err := a.performOwn(ctx, &s, plan.Own(&cfg, &self, &s.view, &facts))
	if err != nil {
		err = a.excuse(err)
	}
	s, self, facts = a.consider()
	a.judgeReady(&s, &self, &facts)
	if s.view.ZonesKnown || a.now() > tick {
		a.problems.replace(planned, a.planProblems(&cfg, &s, &self, &facts))
	}
	writes := plan.Shared(&cfg, &self, &s.view, &facts)
	if len(writes) == 0 {
		a.setPending(false)
		return err
	}
	return errors.Join(err, a.share(ctx, &self, writes))
}

// askStrays reads slices again that no watch shows.
func (a *agent) askStrays(ctx context.Context) {
	for _, name := range a.world.strays(lateAfter) {
		client, err := a.cluster.Client()
		if err != nil {
			return
		}
		object, err := get[discovery.EndpointSlice](ctx, client, pathOf(name))
		switch {
		case err != nil: // what was known stays
		case object == nil:
			a.world.lose(name)
		default:
			a.world.learn(object)
		}
	}
}

// performOwn makes the writes that need no Lease, but for those that have to wait.
func (a *agent) performOwn(ctx context.Context, s *sight, writes []plan.Write) error {
	var due []plan.Write
	for i := range writes {
		left := a.restraint.left(a.clock(), keyOf(&writes[i]))
		if left == 0 {
			due = append(due, writes[i])
			continue
		}
		a.tellUndone(writes[i : i+1])
		a.wake(left)
	}
	return a.perform(ctx, s, due)
}

// config is what a person chose, and what the datapath honours.
func (a *agent) config() plan.Settings {
	a.mu.Lock()
	defer a.mu.Unlock()
	cfg := a.decisions
	if a.traffic != (datapath.Datapath{}) {
		cfg.Traffic, cfg.Honoured = a.traffic.Prefer(), a.traffic.Honours()
	}
	return cfg
}

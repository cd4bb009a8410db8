package zonal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
	"github.com/holdfast-ha/holdfast/internal/base/loop"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

const (
	// period is how often a pass is made when nothing happens: it looks again
	// at names that were taken.
	period = 30 * time.Second
	// backoffMin and backoffMax are between passes that fail.
	backoffMin, backoffMax = 500 * time.Millisecond, 30 * time.Second
	// detectEvery is how often the datapath is looked at.
	detectEvery = 5 * time.Minute
	// retryEvery is how often a taken telemetry port is tried.
	retryEvery = 5 * time.Second
	// lookEvery is how often at most names that were taken are looked at again.
	lookEvery = 5 * time.Second
)

// Keys of log lines.
const (
	keyError   = "error"
	keyService = "service"
	keyMirror  = "mirror"
	keyReason  = "reason"
)

// process is `holdfast zonal run`.
type process struct {
	settings Settings
	log      *slog.Logger
	cluster  *kubeapi.Cluster
	view     *view
	observer *observer
	lock     *lease.Lock
	events   *kubeapi.Events
	loop     *loop.Loop
	cond     *conditions
	registry *prometheus.Registry
	stats    *metrics
	alarm    *time.Timer // a pass when a write that was put off is due

	// Of the loop alone.
	restraint restraint
	looked    time.Time

	mu       sync.Mutex
	plan     Plan
	datapath datapath.Datapath
	detected bool
	// told is what was last said about each Service.
	told map[Key]string
	// failed is why writes were refused or did not last, by the Service on whose
	// behalf.
	failed map[Key]Refusal
}

func newProcess(settings Settings, log *slog.Logger) *process {
	instance, _ := os.Hostname()
	p := &process{
		settings: settings, log: log, told: map[Key]string{}, restraint: restraint{},
		cluster:  &kubeapi.Cluster{Kubeconfig: settings.API.Kubeconfig, Context: settings.API.Context, Servers: settings.API.Servers},
		registry: telemetry.NewRegistry(), cond: newConditions(log, settings.scope()),
		datapath: datapath.Datapath{Kind: datapath.Unknown},
	}
	p.loop = &loop.Loop{Name: "zonal", Log: log, Period: period, Jitter: 0.1, Backoff: loop.Backoff{Min: backoffMin, Max: backoffMax}}
	p.alarm = time.AfterFunc(time.Hour, p.loop.Nudge)
	p.view = newView(p.loop.Nudge)
	p.observer = &observer{connect: p.cluster.Connect, view: p.view, namespaces: settings.scope(), report: p.cond.set}
	p.lock = &lease.Lock{
		Client: p.cluster.Client, Namespace: settings.Lease.Namespace, Name: settings.Lease.Name,
		Duration: settings.Lease.Duration, Identity: lease.NewIdentity(instance),
	}
	p.events = &kubeapi.Events{
		Client: p.cluster.Client, Component: owner, Instance: instance,
		Report: func(err error) { p.cond.set(condEvents, explain("create", "events", err)) },
	}
	p.stats = newMetrics(p)
	p.registry.MustRegister(p.stats)
	return p
}

// run is `holdfast zonal run`: it ends with ctx.
func run(ctx context.Context, stderr io.Writer, settings Settings) error {
	log, err := settings.Log.New(stderr)
	if err != nil {
		return err
	}
	newProcess(settings, log).run(ctx)
	return nil
}

func (p *process) run(ctx context.Context) {
	settings := p.settings
	p.log.Info("started", "identity", p.lock.Identity, "namespaces", len(settings.Namespaces), "dry_run", settings.DryRun)
	defer p.alarm.Stop()
	var wg sync.WaitGroup
	wg.Go(func() { p.serve(ctx) })
	wg.Go(func() { p.observer.run(ctx) })
	wg.Go(func() { p.detect(ctx) })
	wg.Go(func() { p.events.Run(ctx) })
	wg.Go(func() { p.keepLease(ctx) })
	_ = p.loop.Run(ctx, p.pass)
	wg.Wait()
}

func (p *process) keepLease(ctx context.Context) {
	if p.settings.DryRun {
		p.cond.set(condLease, nil)
		return
	}
	p.lock.Keep(ctx, func(held bool) {
		if held {
			p.log.Info("acting: this replica has the Lease", "identity", p.lock.Identity)
		} else {
			p.log.Info("standing by: another replica may have the Lease", "identity", p.lock.Identity)
		}
		p.loop.Nudge()
	}, func(err error) { p.cond.set(condLease, explain("get, create and patch", "leases", err)) })
}

// detect keeps what is known of the datapath.
func (p *process) detect(ctx context.Context) {
	for ctx.Err() == nil {
		wait := detectEvery
		if err := p.detectOnce(ctx); err != nil {
			wait = retryEvery
			if kubeapi.Code(err) == http.StatusForbidden {
				wait = detectEvery
			}
			p.cond.set(condDatapath, explain("get", "daemonsets", err))
		} else {
			p.cond.set(condDatapath, nil)
		}
		pause(ctx, wait)
	}
}

func (p *process) detectOnce(ctx context.Context) error {
	client, err := p.cluster.Client()
	if err != nil {
		return err
	}
	d, err := datapath.Detect(ctx, client, p.settings.Datapath)
	if err != nil && kubeapi.Code(err) != http.StatusForbidden {
		return err // and what was known before stays
	}
	p.mu.Lock()
	changed := p.datapath != d || !p.detected
	p.datapath, p.detected = d, true
	p.mu.Unlock()
	if changed {
		p.log.Info("datapath", "kind", d.String(), "api_server", d.Server.Git)
		p.loop.Nudge()
	}
	return err
}

// pass decides upon what is seen now and, if this replica acts, acts.
func (p *process) pass(ctx context.Context) error {
	if !p.view.complete(p.settings.scope()) {
		return nil // nothing is decided upon half a world
	}
	plan := Decide(p.view.snapshot())
	p.mu.Lock()
	p.plan = plan
	p.mu.Unlock()
	if p.settings.DryRun || !p.lock.Held() {
		p.standBy()
		return nil
	}
	ctx, cancel := p.lock.Context(ctx)
	defer cancel()
	client, err := p.cluster.Client()
	if err != nil {
		return err
	}
	p.lookAgain(ctx, client)
	err = p.act(ctx, client, plan)
	p.speak(plan)
	return err
}

// standBy forgets what is known of writes: another replica makes them.
func (p *process) standBy() {
	clear(p.restraint)
	p.fail(nil)
	p.cond.set(condRights, nil)
	p.cond.set(condWrites, nil)
}

func (p *process) fail(failed map[Key]Refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = failed
}

// lookAgain asks whether names of slices are still taken.
func (p *process) lookAgain(ctx context.Context, client api) {
	if time.Since(p.looked) < lookEvery {
		return
	}
	p.looked = time.Now()
	for _, name := range p.view.takenNames() {
		_ = free(ctx, client, p.view, name)
	}
}

// act performs what is planned and may be done now. What the API refuses for one
// Service does not hold up the others, and is tried again later; an API that
// cannot be reached ends this pass.
func (p *process) act(ctx context.Context, client api, plan Plan) error {
	for _, a := range p.restraint.admit(plan.Actions, time.Now()) {
		if ctx.Err() != nil {
			return nil
		}
		err := perform(ctx, client, p.view, a)
		p.stats.wrote(a, err)
		switch {
		case err == nil:
			p.log.Info("wrote", "verb", string(a.Verb), "kind", string(a.Kind), "name", a.Name.String(), keyReason, a.Why)
			p.announce(a)
		case errors.Is(err, errLate), refused(err):
			err = explain(string(a.Verb), fmt.Sprintf("%s in namespace %s", a.Kind, a.Name.Namespace), err)
		default:
			p.cond.set(condWrites, err)
			return err
		}
		p.restraint.note(a, p.view.version(a.Kind, a.Name), err, time.Now())
	}
	failed, denied := p.restraint.troubles()
	p.fail(failed)
	p.cond.set(condRights, denied)
	p.cond.set(condWrites, nil)
	if at := p.restraint.wake(time.Now()); !at.IsZero() {
		p.alarm.Reset(time.Until(at))
	}
	return nil
}

// refused says that the API answered about this one object that it will not, or
// that a webhook failed (500), rather than that it cannot now.
func refused(err error) bool {
	code := kubeapi.Code(err)
	return code >= 400 && code <= 500 && code != http.StatusTooManyRequests && code != http.StatusUnauthorized
}

// announce tells of a mirror that was made or removed, on its Service.
func (p *process) announce(a Action) {
	if a.Kind != Services {
		return
	}
	reason, text := "", ""
	switch a.Verb {
	case Create:
		reason, text = "ZonalMirrorCreated", "made "+a.Name.Name
	case Delete:
		reason, text = "ZonalMirrorDeleted", "removed "+a.Name.Name
	default:
		return
	}
	if s, ok := p.view.snapshot().Services[a.Real]; ok {
		p.events.Record(s.reference(), kubeapi.Normal, reason, text)
	}
}

// speak tells, once for each change, why a Service has no mirror, or why it
// would not keep traffic in its zone.
func (p *process) speak(plan Plan) {
	services := p.view.snapshot().Services
	seen := map[Key]bool{}
	for _, m := range p.describe(plan) {
		seen[m.real()] = true
		text := m.Message
		for _, w := range m.Warnings {
			text += "\n" + w
		}
		if p.told[m.real()] == text {
			continue
		}
		p.told[m.real()] = text
		s := services[m.real()]
		if m.State != Kept && m.Message != "" {
			p.log.Warn("no mirror", keyService, m.real().String(), keyReason, m.Reason, keyError, m.Message)
			p.events.Record(s.reference(), kubeapi.Warning, "Zonal"+m.Reason, m.Message)
		}
		for _, w := range m.Warnings {
			p.log.Warn("the mirror may not keep traffic in its zone", keyService, m.real().String(), keyReason, w)
			p.events.Record(s.reference(), kubeapi.Warning, "ZonalWarning", w)
		}
		if text == "" {
			p.log.Info("mirror is well", keyService, m.real().String(), keyMirror, m.Mirror)
		}
	}
	for k := range p.told {
		if !seen[k] {
			delete(p.told, k)
		}
	}
}

// serve offers telemetry, waiting for the port where it is taken.
func (p *process) serve(ctx context.Context) {
	o := telemetry.Outlet{
		Settings: p.settings.Telemetry, Registry: p.registry, Ready: p.cond.ready, Again: retryEvery, Log: p.log,
		Status:   telemetry.Document(func() (any, error) { return p.status(), nil }),
		Unserved: "telemetry is not served; it is tried again",
	}
	o.Serve(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// describe joins a plan with what is known beside it.
func (p *process) describe(plan Plan) (all []MirrorStatus) {
	services := p.view.snapshot().Services
	p.mu.Lock()
	d, detected, failed := p.datapath, p.detected, p.failed
	p.mu.Unlock()
	for _, m := range plan.Mirrors {
		st := statusOf(m)
		if r, ok := failed[m.Real]; ok && m.State != Refused {
			st.State, st.Reason, st.Message = Refused, r.Reason, r.Message
		}
		if s, ok := services[m.Real]; ok && m.State != Refused && detected {
			st.Warnings = warnings(&s, d, p.observer.zonesOf(m.Real))
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b MirrorStatus) int { return byKey(a.real(), b.real()) })
	return all
}

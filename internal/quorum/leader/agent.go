package leader

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/topology"
	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

const (
	// decideEvery is the pace of the loop when nothing nudges it.
	decideEvery = 250 * time.Millisecond
	// meshEvery and meshEager are how often other agents are asked for their
	// rows: at rest, and while some link is not up.
	meshEvery = 2 * time.Second
	meshEager = 300 * time.Millisecond
	// loadEvery is how often the own member's /metrics is read; a page costs
	// etcd some 5 ms.
	loadEvery = 10 * time.Second
	// secondEvery is how often the way through a second member is tried.
	secondEvery = 10 * time.Second
)

// Agent places leadership for one member: it observes, publishes what it
// sees, and moves leadership when its own member leads and another is better
// placed. Make one with New, run it with Run.
type Agent struct {
	settings Settings
	cfg      Config
	log      *slog.Logger
	clock    func() time.Duration
	own      *etcd.Member
	load     *etcd.Metrics
	store    *store
	obs      *observer
	registry *registry
	record   *decisionRecord
	publish  *publisher
	cond     *conditions
	stats    *metrics
	nudges   []chan struct{} // decide, publish, mesh

	mu    sync.Mutex
	state State
	plan  Plan
	snap  Snapshot
	quiet time.Duration // since when few proposals were pending; 0: they were not
}

// New prepares an agent. settings must be complete. ready, if not nil, hears
// of every condition by name: nil when it holds.
func New(settings Settings, ready func(name string, err error), log *slog.Logger) (*Agent, error) {
	access, err := settings.access()
	if err != nil {
		return nil, err
	}
	own, err := etcd.Dial(settings.Etcd.Endpoints[0], access)
	if err != nil {
		return nil, err
	}
	load, err := etcd.NewMetrics(settings.metricsURL(), access.TLS)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	a := &Agent{
		settings: settings, cfg: settings.config(), log: log, own: own, load: load,
		clock:    func() time.Duration { return time.Since(start) },
		store:    newStore(settings.Prefix, access, log),
		registry: newRegistry(), record: &decisionRecord{}, stats: newMetrics(),
		nudges: []chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)},
	}
	a.cond = newConditions(log, ready)
	a.obs = a.observer(settings)
	a.publish = &publisher{
		store: a.store, clock: a.clock, nudged: a.nudges[1], cond: a.cond, stats: a.stats,
		source: func() (Row, []etcd.Peer) {
			peers, _ := a.obs.membership()
			return a.ownRow(), peers
		},
	}
	return a, nil
}

func (a *Agent) observer(settings Settings) *observer {
	o := &observer{
		own: a.own, timing: settings.timing(), files: settings.peerTLS(), zone: settings.Zone, boot: newBoot(),
		clock: a.clock, nudge: a.nudge, cond: a.cond, log: a.log, watches: map[MemberID]*running{},
	}
	if settings.Mesh.Listen != "" {
		o.mesh = settings.Mesh.Port
	}
	return o
}

// config is the decision's configuration as the settings want it.
func (s *Settings) config() Config {
	cfg := Default()
	if s.Profile == "seed" {
		cfg = Seed()
	}
	if s.Settle > 0 {
		cfg.Settle = s.Settle
	}
	cfg.Zones = topology.Zones(s.Zones)
	cfg.Preferred = s.PreferredZone
	if s.ReturnAfter > 0 {
		cfg.ReturnAfter = s.ReturnAfter
	}
	return cfg
}

func (s *Settings) timing() probeTiming {
	if s.Profile == "seed" {
		return seedTiming()
	}
	return defaultTiming()
}

// nudge wakes the loops; nudges that come while one is waiting are one.
func (a *Agent) nudge() {
	for _, c := range a.nudges {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Run works until ctx ends. It returns an error only for what a person has to
// mend before it can work at all.
func (a *Agent) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, loop := range []func(context.Context){
		a.obs.run, a.publish.run, a.followRows, a.serveMesh, a.pollMesh, a.decideLoop, a.watchLoad, a.watchSecond,
	} {
		wg.Go(func() { loop(ctx) })
	}
	wg.Wait()
	a.store.close()
	a.load.Close()
	if err := a.own.Close(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}

// ownRow is the row this agent publishes.
func (a *Agent) ownRow() Row {
	row := a.obs.current()
	a.mu.Lock()
	defer a.mu.Unlock()
	row.Penalty = a.state.Record()
	return row
}

// rows is what the mesh hands out: the own row and all others as known here.
func (a *Agent) rows() []Row {
	all := []Row{}
	if own := a.ownRow(); own.Member != 0 {
		all = append(all, own)
	}
	for _, r := range a.registry.at(a.clock()) {
		all = append(all, r)
	}
	return all
}

// hear takes a row that arrived by any route.
func (a *Agent) hear(row Row) {
	self := a.obs.current()
	if row.Member == self.Member || (self.Cluster != 0 && row.Cluster != self.Cluster) {
		return
	}
	if a.registry.hear(row, a.clock()) {
		select {
		case a.nudges[0] <- struct{}{}:
		default:
		}
	}
}

// followRows reads rows from the own member's etcd for as long as it lasts.
func (a *Agent) followRows(ctx context.Context) {
	for pause(ctx, 500*time.Millisecond) {
		err := a.store.follow(ctx, a.settings.Etcd.Endpoints[0], a.hear, a.registry.heardPenalty,
			func() { a.cond.set(condRows, nil, "") })
		if ctx.Err() != nil {
			return
		}
		a.cond.set(condRows, err, "rows cannot be read from etcd; the agents are asked directly")
	}
}

// serveMesh offers rows to the other agents. A port that is taken is a
// condition that can pass.
func (a *Agent) serveMesh(ctx context.Context) {
	if a.settings.Mesh.Listen == "" {
		return
	}
	h := meshHandler(a.rows, func(p Penalty) { a.registry.heardPenalty(p); a.nudge() })
	for {
		err := serveMesh(ctx, a.settings.Mesh.Listen, a.settings.peerTLS(), h)
		if ctx.Err() != nil {
			return
		}
		a.cond.set(condMesh, err, "other agents cannot ask this one")
		if !pause(ctx, publishEvery) {
			return
		}
	}
}

// pollMesh asks the other agents for what they know.
func (a *Agent) pollMesh(ctx context.Context) {
	for {
		wait := meshEvery
		for _, l := range a.obs.current().Links {
			if l.State != Up {
				wait = meshEager
			}
		}
		one, cancel := context.WithTimeout(ctx, wait)
		select {
		case <-one.Done():
		case <-a.nudges[2]:
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
		a.askAgents(ctx)
	}
}

// askAgents asks all of them at once: one that is cut off must not delay the rest.
func (a *Agent) askAgents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, meshEager*2)
	defer cancel()
	var wg sync.WaitGroup
	for _, agent := range a.obs.agents() {
		wg.Go(func() {
			rows, err := agent.rows(ctx)
			if err != nil {
				return // its link says why; the row ages
			}
			for _, r := range rows {
				a.hear(r)
			}
		})
	}
	wg.Wait()
}

// watchLoad reads the own member's metrics: the disk's latency for the row,
// and whether proposals are few, where a quiet window is wanted.
func (a *Agent) watchLoad(ctx context.Context) {
	var last etcd.Load
	every := loadEvery
	if a.cfg.Preferred != "" {
		every = 2 * time.Second
	}
	for {
		one, cancel := context.WithTimeout(ctx, time.Second)
		load, err := a.load.Read(one)
		cancel()
		if err == nil {
			a.noteLoad(last, load)
			last = load
		}
		if !pause(ctx, every) {
			return
		}
	}
}

// fewPending is the number of proposals up to which a moment counts as quiet.
const fewPending = 2

func (a *Agent) noteLoad(last, load etcd.Load) {
	fsync := etcd.Fsync(last, load)
	if fsync > 0 {
		a.obs.setFsync(fsync)
	}
	a.cond.set(condDisk, a.diskTrouble(fsync, last, load), "the disk of the own member holds the cluster up")
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case load.Pending > fewPending:
		a.quiet = 0
	case a.quiet == 0:
		a.quiet = a.clock()
	}
}

// diskTrouble says what is wrong with the own member's disk. A leader whose
// WAL is stalled answers its status and every probe, but commits nothing, and
// its raft cannot even send a transfer (etcd#13527).
func (a *Agent) diskTrouble(fsync time.Duration, last, load etcd.Load) error {
	own := a.obs.current()
	switch {
	case own.Leader == own.Member && load.Pending > 0 && last.Pending > 0 && load.Committed == last.Committed:
		return fmt.Errorf("%.0f proposals wait and none was committed for %s; if the disk hangs, restart this etcd so that the others elect, then give it a disk of its own", load.Pending, loadEvery)
	case a.cfg.MaxFsync > 0 && fsync > a.cfg.MaxFsync:
		return fmt.Errorf("WAL fsync p99 is %s; give etcd a disk of its own, or replace it", fsync)
	}
	return nil
}

// watchSecond makes sure that the agent could publish through a member other
// than its own: in a split that is the only way its row gets out.
func (a *Agent) watchSecond(ctx context.Context) {
	wait := time.Second
	for pause(ctx, wait) {
		wait = secondEvery
		self := a.obs.current().Member
		peers, _ := a.obs.membership()
		if self == 0 || len(peers) < 2 {
			wait = time.Second
			continue
		}
		a.cond.set(condSecond, a.trySecond(ctx, self, peers),
			"the row could get out through no second member; open the client port or the mesh port between sites")
	}
}

func (a *Agent) trySecond(ctx context.Context, self MemberID, peers []etcd.Peer) error {
	agents := a.obs.agents()
	var last error
	for _, p := range peers {
		if MemberID(p.ID) == self {
			continue
		}
		for _, url := range p.ClientURLs {
			m, err := a.store.member(url)
			if err == nil {
				_, err = m.Status(ctx)
			}
			if err == nil {
				return nil
			}
			last = err
		}
		if agent, ok := agents[MemberID(p.ID)]; ok {
			if _, err := agent.rows(ctx); err == nil {
				return nil
			}
		}
	}
	return fmt.Errorf("no other member or agent answers; last: %w", last)
}

// Observe works like Run but writes nothing and offers nothing: it is for a
// person who wants to know what an agent here would do.
func (a *Agent) Observe(ctx context.Context) {
	var wg sync.WaitGroup
	for _, loop := range []func(context.Context){a.obs.run, a.followRows, a.pollMesh, a.decideLoop} {
		wg.Go(func() { loop(ctx) })
	}
	wg.Wait()
}

package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/loop"
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
	// filesEvery is how often certificates are looked at for what a person
	// should mend; use looks at them by itself, and keeps to the last good ones.
	filesEvery = 30 * time.Second
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
	load     *loadSource
	store    *store
	obs      *observer
	registry *registry
	record   *decisionRecord
	publish  *publisher
	cond     *conditions
	stats    *metrics
	loops    loops
	followed atomic.Pointer[context.CancelCauseFunc]

	// Each of these belongs to one loop.
	asked       time.Duration // when agents were asked
	triedSecond time.Duration
	lastLoad    etcd.Load
	steps       *stepWatch

	mu    sync.Mutex
	state State
	plan  Plan
	snap  Snapshot
	// rounded is when the last round decided.
	rounded time.Duration
	quiet   time.Duration // since when few proposals were pending; 0: they were not
	// unmeasured says that nobody can tell how many are.
	unmeasured bool
	// slow is how long readings have said that the own disk is slow.
	slow streak
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
	load, err := newLoadSource(settings.metricsURLs(), access.TLS)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	a := &Agent{
		settings: settings, cfg: settings.config(), log: log, own: own, load: load,
		clock:    func() time.Duration { return time.Since(start) },
		store:    newStore(settings.Prefix, access, log),
		registry: newRegistry(), record: &decisionRecord{}, stats: newMetrics(),
		steps: newStepWatch(),
		loops: newLoops(settings.Pace, log),
	}
	a.cond = newConditions(log, ready)
	a.obs = a.observer(settings)
	a.obs.reborn = a.refollow
	a.publish = &publisher{
		store: a.store, clock: a.clock, every: settings.paced(publishEvery), cond: a.cond, stats: a.stats,
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
		clock: a.clock, nudge: a.loops.nudge, membersEvery: settings.paced(membersEvery), cond: a.cond, log: a.log, watches: map[MemberID]*running{},
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
	t := defaultTiming()
	if s.Profile == "seed" {
		t = seedTiming()
	}
	t.Steady, t.Fresh, t.Identity = s.paced(t.Steady), s.paced(t.Fresh), s.paced(t.Identity)
	return t
}

// paced is an interval at the pace asked for.
func (s *Settings) paced(d time.Duration) time.Duration { return d / time.Duration(max(s.Pace, 1)) }

// Run works until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	l := a.loops
	var wg sync.WaitGroup
	start := func(loop *loop.Loop, body func(context.Context)) {
		wg.Go(func() {
			_ = loop.Run(ctx, func(ctx context.Context) error { body(ctx); return nil })
		})
	}
	start(l.observe, a.obs.round)
	start(l.rows, a.followRows)
	start(l.askAgents, a.askAgents)
	start(l.decide, a.round)
	start(l.files, func(context.Context) { a.checkFiles() })
	if !a.settings.observeOnly {
		start(l.publish, a.publish.round)
		start(l.load, a.readLoad)
		start(l.second, a.checkSecond)
		if a.settings.Mesh.Listen != "" {
			start(l.serve, a.serveAgents)
		}
	}
	wg.Wait()
	a.store.close()
	a.load.Close()
	_ = a.own.Close() // nothing is lost with it
	return nil
}

// loops are the level-triggered loops of an agent, by what they do.
type loops struct {
	observe, publish, rows, askAgents, serve, decide, load, second, files *loop.Loop
}

func newLoops(pace int, log *slog.Logger) loops {
	every := func(name string, period time.Duration) *loop.Loop {
		return &loop.Loop{Name: name, Log: log, Period: max(period/time.Duration(max(pace, 1)), time.Millisecond), Jitter: 0.05}
	}
	return loops{
		observe: every("observe", statusEvery), publish: every("publish", statusEvery),
		rows: every("rows", 500*time.Millisecond), askAgents: every("ask-agents", meshEager),
		serve: every("serve-agents", publishEvery), decide: every("decide", decideEvery),
		load: every("load", loadEvery), second: every("second-member", time.Second),
		files: every("credentials", filesEvery),
	}
}

// nudge wakes the loops that something has changed for.
func (l loops) nudge() {
	l.decide.Nudge()
	l.publish.Nudge()
	l.askAgents.Nudge()
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

// hear takes a row that arrived by any route. Only members of the cluster have
// one: nobody can fill the memory with rows of members that do not exist.
func (a *Agent) hear(row Row) {
	self, known := a.obs.knows(row.Member)
	if row.Member == self.Member || (self.Cluster != 0 && row.Cluster != self.Cluster) {
		return
	}
	if !known {
		// Its record counts, for a member just added may be its only bearer;
		// the row itself comes again within publishEvery.
		a.registry.heardPenalty(row.Penalty)
		return
	}
	if a.registry.hear(row, a.clock()) {
		a.loops.decide.Nudge()
	}
}

// followRows reads rows from the own member's etcd until the watch breaks.
func (a *Agent) followRows(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.followed.Store(&cancel)
	err := a.store.follow(ctx, a.settings.Etcd.Endpoints[0], a.hear, a.registry.heardPenalty,
		func() { a.cond.set(condRows, nil, "") })
	if context.Cause(ctx) == errReborn {
		return // to list and watch anew
	}
	if ctx.Err() == nil {
		a.cond.set(condRows, err, "rows cannot be read from etcd; the agents are asked directly")
	}
}

var errReborn = errors.New("the own member is of another cluster now")

// refollow ends the watch of a cluster that is no more, and forgets its record.
func (a *Agent) refollow() {
	a.record.forget()
	if cancel := a.followed.Load(); cancel != nil {
		(*cancel)(errReborn)
	}
}

// serveAgents offers rows to the other agents. A port that is taken is a
// condition that can pass.
func (a *Agent) serveAgents(ctx context.Context) {
	h := meshHandler(a.rows, a.keepRecord)
	err := serveMesh(ctx, a.settings.Mesh.Listen, a.settings.peerTLS(), h, func() { a.cond.set(condMesh, nil, "") })
	if ctx.Err() == nil {
		a.cond.set(condMesh, err, "other agents cannot ask this one")
	}
}

// keepRecord takes the record of a move to the own member, where etcd takes
// none. Another's is refused: the agent that listens here may be that of
// another cluster on the same machine.
func (a *Agent) keepRecord(p Penalty) bool {
	if self := a.obs.current().Member; self == 0 || p.To != self {
		return false
	}
	a.registry.heardPenalty(p)
	a.loops.decide.Nudge()
	return true
}

// askAgents asks the other agents for what they know: all at once, for one
// that is cut off must not delay the rest. At rest it leaves out most turns.
func (a *Agent) askAgents(ctx context.Context) {
	now := a.clock()
	if a.calm() && now-a.asked < a.settings.paced(meshEvery) {
		return
	}
	a.asked = now
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

// calm reports whether the own member is well and every link up.
func (a *Agent) calm() bool {
	own := a.obs.current()
	for _, l := range own.Links {
		if l.State != Up {
			return false
		}
	}
	return own.Reachable && own.Leader != 0
}

// readLoad reads the own member's metrics: the disk's latency for the row,
// and whether proposals are few, for the quiet window.
func (a *Agent) readLoad(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	load, err := a.load.Read(ctx)
	if ctx.Err() == nil || err == nil {
		a.cond.set(condMetrics, err, "etcd's metrics cannot be read: the disk is not watched, and no moment of few proposals is waited for; set etcd.metrics to the client URL or to one of --listen-metrics-urls")
	}
	if err != nil {
		a.cond.set(condDisk, nil, "") // nothing is known about it any more
		a.obs.slowDisk(0)
		a.mu.Lock()
		a.quiet, a.unmeasured, a.slow = 0, true, streak{}
		a.mu.Unlock()
		a.lastLoad = etcd.Load{}
		return
	}
	a.noteLoad(a.lastLoad, load)
	a.lastLoad = load
}

// fewPending is the number of proposals up to which a moment counts as quiet.
const fewPending = 2

func (a *Agent) noteLoad(last, load etcd.Load) {
	fsync := etcd.Fsync(last, load)
	if fsync > 0 {
		a.obs.setFsync(fsync)
	}
	slow := time.Duration(0) // also without a single fsync since the last reading
	if a.cfg.MaxFsync > 0 && fsync > a.cfg.MaxFsync {
		slow = fsync
	}
	a.obs.slowDisk(slow)
	a.cond.set(condDisk, a.diskTrouble(fsync, last, load), "the disk of the own member holds the cluster up")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unmeasured = false
	a.slow = a.slow.see(a.clock(), slow > 0)
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
		return fmt.Errorf("%.0f proposals wait and none was committed for %s; if the disk hangs, restart this etcd so that the others elect, then give it a disk of its own", load.Pending, a.settings.paced(loadEvery))
	case a.cfg.MaxFsync > 0 && fsync > a.cfg.MaxFsync:
		return fmt.Errorf("WAL fsync p99 is %s; give etcd a disk of its own, or replace it", fsync)
	}
	return nil
}

// checkFiles reports certificates that have expired, or were replaced by
// something that cannot be used. Else a peer's refusal would be all that shows.
func (a *Agent) checkFiles() {
	e := a.settings.Etcd
	a.cond.set(condClientTLS, checkFiles(creds.Files{CA: e.CA, Cert: e.Cert, Key: e.Key}), "the client certificate needs a hand")
	a.cond.set(condPeerTLS, checkFiles(a.settings.peerTLS()), "the peer certificate needs a hand")
}

func checkFiles(f creds.Files) error {
	if f == (creds.Files{}) {
		return nil
	}
	s, err := creds.Open(f)
	if err != nil {
		return err
	}
	return s.Check()
}

// checkSecond makes sure that the agent could publish through a member other
// than its own: in a split that is the only way its row gets out.
func (a *Agent) checkSecond(ctx context.Context) {
	self := a.obs.current().Member
	peers, _ := a.obs.membership()
	now := a.clock()
	if len(peers) == 1 && self != 0 {
		a.cond.set(condSecond, nil, "") // alone, there is no split to be silenced in
		return
	}
	if self == 0 || len(peers) < 2 || (a.triedSecond > 0 && now-a.triedSecond < a.settings.paced(secondEvery)) {
		return
	}
	a.triedSecond = now
	a.cond.set(condSecond, a.trySecond(ctx, self, peers),
		"the row could get out through no second member; open the client port or the mesh port between sites")
}

func (a *Agent) trySecond(ctx context.Context, self MemberID, peers []etcd.Peer) error {
	agents := a.obs.agents()
	last := errors.New("no other member has a client URL, and no other agent is known")
	for _, p := range peers {
		if MemberID(p.ID) == self {
			continue
		}
		for _, url := range p.ClientURLs {
			m, err := a.store.member(url)
			if err != nil {
				last = err
				continue
			}
			s, err := m.Status(ctx)
			if err == nil && s.Member == p.ID {
				return nil
			}
			last = cmp.Or(err, fmt.Errorf("%s is that of member %x, not %x", url, s.Member, p.ID))
		}
		if agent, ok := agents[MemberID(p.ID)]; ok {
			rows, err := agent.rows(ctx)
			if err == nil && slices.ContainsFunc(rows, func(r Row) bool { return uint64(r.Member) == p.ID }) {
				return nil
			}
			last = cmp.Or(err, fmt.Errorf("agent %s: it knows nothing of the member beside it; is it that of another cluster?", agent.url))
		}
	}
	return fmt.Errorf("no other member or agent answers; last: %w", last)
}

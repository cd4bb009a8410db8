package pair

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/holdfast-ha/holdfast/internal/base/loop"
	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/supervise"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// decideEvery is the pace of the loop when nothing nudges it.
const decideEvery = 250 * time.Millisecond

// Agent runs one member of a pair. Make one with New, run it with Run.
type Agent struct {
	settings Settings
	cfg      Config
	log      *slog.Logger
	clock    func() time.Duration
	sup      supervise.Supervisor
	dir      wal.Dir
	memory   *memory
	store    arbiter.Store
	arbiter  *arbiter.Client
	peer     *etcd.Member
	obs      *observer
	stats    *metrics
	ready    func(name string, err error)
	loops    loops
	history  history
	starts   starts // of the decide loop alone
	disk     disk

	mu      sync.Mutex
	state   State
	plan    Plan
	view    View
	said    string // what was last logged
	alarms  []string
	pause   time.Duration
	decided time.Duration
	failing string // why the last action failed
	// failures are how many did so in a row.
	failures int
	pruned   uint64 // the paired generation that old data was last removed for
}

type loops struct {
	decide, process, log, quorum, status, peer, arbiter, trial, survivor, clients *loop.Loop
}

func newLoops(log *slog.Logger) loops {
	every := func(name string, period time.Duration) *loop.Loop {
		return &loop.Loop{Name: name, Log: log, Period: period, Backoff: loop.Backoff{Min: min(period, 100*time.Millisecond), Max: time.Second}}
	}
	return loops{
		decide: every("decide", decideEvery), process: every("process", processEvery), log: every("log", processEvery),
		quorum: every("quorum", quorumEvery), status: every("status", statusEvery), peer: every("peer", probeEvery),
		arbiter: every("arbiter", processEvery), trial: every("trial", time.Second), survivor: every("survivor", survivorEvery), clients: every("clients", clientsEvery),
	}
}

// New prepares an agent. settings must be complete, and sup be the supervisor of
// the own etcd. ready, if not nil, hears whether the member serves.
func New(settings Settings, sup supervise.Supervisor, ready func(string, error), log *slog.Logger) (_ *Agent, err error) {
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) + time.Nanosecond }
	own := sup.Describe()
	a := &Agent{
		settings: settings, cfg: settings.config(), log: log, clock: clock, sup: sup,
		dir: own.Dir(), stats: newMetrics(), ready: ready, loops: newLoops(log),
	}
	if a.memory, err = openMemory(settings.StateDir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.memory.close()
		}
	}()
	seen, err := readSeen(settings.StateDir)
	if err != nil {
		return nil, err
	}
	if a.store, err = arbiter.Open(settings.Arbiter); err != nil {
		return nil, err
	}
	a.arbiter = arbiter.NewClient(a.store, settings.Name, seen, a.memory.keep)
	if a.peer, err = etcd.Dial(settings.Peer.Client, settings.access()); err != nil {
		return nil, err
	}
	prober, err := etcd.NewProber(settings.Peer.URL, own.PeerTLS)
	if err != nil {
		return nil, err
	}
	listener, err := etcd.NewProber(own.AdvertisePeer[0], own.PeerTLS)
	if err != nil {
		return nil, err
	}
	a.obs = &observer{
		clock: clock, nudge: a.loops.decide.Nudge, settings: settings, sup: sup, dir: a.dir, arbiter: a.arbiter,
		peer: a.peer, store: a.store, prober: prober, listener: listener, readWithin: hurryEvery,
	}
	a.obs.view.Arbiter.Untried = notTried
	if a.obs.own, err = etcd.Dial(settings.Etcd.Endpoint, settings.access()); err != nil {
		return nil, err
	}
	return a, nil
}

// Run works until ctx ends; etcd lives on then, and the next agent finds it.
func (a *Agent) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	start := func(l *loop.Loop, body func(context.Context) error) {
		wg.Go(func() { _ = l.Run(ctx, body) })
	}
	start(a.loops.process, a.obs.lookProcess)
	start(a.loops.log, a.obs.lookLog)
	start(a.loops.quorum, a.obs.lookQuorum)
	start(a.loops.status, a.obs.lookStatus)
	start(a.loops.peer, a.obs.lookPeer)
	start(a.loops.arbiter, a.obs.lookArbiter)
	start(a.loops.trial, a.obs.tryArbiter)
	start(a.loops.survivor, a.obs.lookSurvivor)
	start(a.loops.clients, a.obs.lookClients)
	start(a.loops.decide, a.round)
	wg.Wait()
	a.sup.Detach()
	a.obs.prober.Close()
	a.obs.listener.Close()
	_ = a.peer.Close()         // nothing is lost with
	_ = a.obs.member().Close() // these
	_ = a.store.Close()
	a.memory.close()
	return nil
}

// round decides once, and acts on it.
func (a *Agent) round(ctx context.Context) error {
	view, held := a.obs.look()
	a.mu.Lock()
	if view.Now < a.pause {
		a.mu.Unlock()
		return nil
	}
	a.state, a.plan = Decide(a.cfg, a.state, view)
	plan := a.plan
	a.view, a.decided = view, view.Now
	a.mu.Unlock()
	a.obs.mu.Lock()
	a.obs.readWithin = plan.Read
	a.obs.mu.Unlock()
	raised := a.obs.raised()
	alarms := sentences(raised, a.nameOf(view))
	a.stats.alarms(raised, a.nameOf(view))
	a.stats.observe(view, plan)
	a.reportAlarms(view, alarms)
	a.report(view, plan, alarms)
	if plan.Do == Nothing {
		a.failed(nil)
		a.prune(view)
		return nil
	}
	if pause := a.starts.wait(view.Now); (plan.Do == Start || plan.Do == Join) && pause > 0 {
		return nil // etcd ended a moment ago; the next look is soon enough
	}
	err := a.act(ctx, plan, view, held)
	a.stats.acted(plan.Do, err)
	a.failed(err)
	a.loops.decide.Nudge()
	if err != nil {
		return fmt.Errorf("%s: %w", plan.Do, err)
	}
	return nil
}

func (a *Agent) failed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing = ""
	if err == nil {
		a.failures, a.stats.failing = 0, false
		return
	}
	a.failing = err.Error()
	a.failures++
	a.stats.failing = a.failures >= manyFailures
}

// manyFailures of an action in a row are something that a person should look at.
const manyFailures = 5

// hold keeps the next decision back.
func (a *Agent) hold(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pause = a.clock() + d
}

// report logs a decision that differs from the last in more than its figures.
func (a *Agent) report(v View, p Plan, alarms []string) {
	a.ready(condServes, serves(v, p, alarms))
	text := string(p.Do) + strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) || r == '.' {
			return -1
		}
		return r
	}, p.Why)
	a.mu.Lock()
	same := text == a.said
	a.said = text
	a.mu.Unlock()
	if same {
		return
	}
	level := slog.LevelInfo
	if p.Alarm {
		level = slog.LevelWarn
	}
	a.history.add(Event{Time: time.Now(), Do: p.Do, Why: p.Why, Record: describe(v.Arbiter.Record), Alarm: p.Alarm})
	a.log.Log(context.Background(), level, p.Why, "do", string(p.Do), "record", describe(v.Arbiter.Record))
}

// condServes is the condition of /readyz: clients can write here.
const condServes = "serves"

// describe is a record in a few words.
func describe(r arbiter.Record) string {
	switch {
	case r.Generation == 0:
		return "none"
	case r.State == arbiter.Paired:
		return fmt.Sprintf("paired, generation %d", r.Generation)
	}
	return fmt.Sprintf("%s alone, generation %d", r.Survivor, r.Generation)
}

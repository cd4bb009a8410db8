package balance

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/balance/choose"
	"github.com/holdfast-ha/holdfast/internal/access/balance/relay"
	"github.com/holdfast-ha/holdfast/internal/access/balance/source"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// pool is the shell around a roster: it runs its sources and checks, does what
// the roster says, and picks for the relay.
type pool struct {
	name   string // of the frontend, or frontend/route
	engine *relay.Engine
	log    *slog.Logger
	clock  func() time.Duration
	stats  *metrics
	// checkers says to whom evidence about a target goes.
	checkers *sync.Map

	// view is what connections are placed by; replaced whole.
	view atomic.Pointer[view]
	turn atomic.Uint64

	mu      sync.Mutex
	cfg     Pool
	profile string
	method  *health.Method
	roster  *roster
	members map[string]*member
	// leaving are targets that left the list and still have connections.
	leaving map[string]*member
	set     *source.Set
	life    context.Context    // of checks
	stop    context.CancelFunc // of the sources
	sources *sync.WaitGroup    // of one start
	checks  sync.WaitGroup
}

// member is what runs for one backend.
type member struct {
	target  *relay.Target
	checker *health.Checker
	stop    context.CancelFunc // of the checker
	// draining calls off the reset at the end of a drain; nil when none is
	// under way.
	draining *time.Timer
	// history holds the last changes of the grade, oldest first; transitions
	// counts all.
	history     []Transition
	transitions uint64
}

// view is a table with the targets of its backends, index by index.
type view struct {
	table   *choose.Table
	targets []*relay.Target
}

func (p *process) newPool(name string) *pool {
	pool := &pool{
		name: name, engine: p.engine, log: p.log.With("frontend", name), clock: p.clock, stats: p.stats, checkers: &p.checkers,
		members: map[string]*member{}, leaving: map[string]*member{},
	}
	pool.view.Store(&view{table: choose.New(choose.Config{}, nil)})
	return pool
}

// Pick implements relay.Picker. It is called for every attempt of every
// connection and takes no lock.
func (p *pool) Pick(client netip.AddrPort, tried, pending []*relay.Target) (*relay.Target, relay.Answer) {
	v := p.view.Load()
	var some, more [8]int
	q := choose.Query{
		Client: client.Addr(), Tried: v.indices(tried, some[:0]), Pending: v.indices(pending, more[:0]),
		Active: v.active, Now: p.clock(), Random: rand.Float64,
	}
	if len(tried) == 0 {
		q.Turn = p.turn.Add(1)
	} else {
		q.Turn = p.turn.Load() // a retry takes nobody's turn
	}
	i, answer := v.table.Pick(q)
	switch answer {
	case choose.Use:
		return v.targets[i], relay.Use
	case choose.Wait:
		return nil, relay.Wait
	default:
		return nil, relay.None
	}
}

// indices appends the places of the targets in this view; those that have left
// it are no longer a choice anyway.
func (v *view) indices(targets []*relay.Target, into []int) []int {
	for _, t := range targets {
		for i, have := range v.targets {
			if have == t {
				into = append(into, i)
			}
		}
	}
	return into
}

func (v *view) active(i int) int { return v.targets[i].Active() + v.targets[i].Connecting() }

// publish makes the roster's table the one that connections are placed by.
// The caller holds the lock.
func (p *pool) publish() {
	v := &view{table: p.roster.table()}
	for _, b := range v.table.Backends() {
		v.targets = append(v.targets, p.members[b.ID].target)
	}
	p.view.Store(v)
	p.engine.Wake()
}

// start makes cfg the settings of the pool, and what the sources know already
// its list. Backends that stay keep their connections, grades, holds and
// counters, and if the check is the same their checks as well. life is the
// process's.
func (p *pool) start(life context.Context, cfg Pool, profile string, method *health.Method, set *source.Set) {
	p.haltSources()
	ctx, cancel := context.WithCancel(life)
	p.mu.Lock()
	defer p.mu.Unlock()
	same := p.roster != nil && p.profile == profile && p.cfg.Check == cfg.Check && p.cfg.Backends.SendProxy == cfg.Backends.SendProxy
	p.cfg, p.profile, p.set, p.life, p.stop, p.sources = cfg, profile, set, life, cancel, &sync.WaitGroup{}
	if p.roster == nil {
		p.roster = newRoster(cfg)
	}
	p.roster.cfg = cfg
	if !same {
		p.method = method
		for id := range p.members {
			p.remake(id)
		}
	}
	p.do(p.roster.list(p.clock(), set.Current()))
	p.sources.Go(func() { _ = set.Run(ctx, func(b []source.Backend) { p.listed(ctx, b) }) })
	p.sources.Go(func() { p.every(ctx) })
}

// remake starts the checks of a member anew, and gives it a new target where
// connections to it have to begin differently.
func (p *pool) remake(id string) {
	m := p.members[id]
	p.uncheck(m)
	if m.target.SendProxy != p.cfg.Backends.SendProxy {
		p.leaving[id] = m
		delete(p.members, id)
		p.add(id)
		return
	}
	p.check(m)
}

// haltSources ends the sources; checks and connections go on. One that reads
// from a file system that hangs is not waited for: it has nothing to say any
// more.
func (p *pool) haltSources() {
	p.mu.Lock()
	stop, sources := p.stop, p.sources
	p.mu.Unlock()
	if stop != nil {
		stop()
		if !within2s(sources.Wait) {
			p.log.Warn("a source of backends does not end; is it a file on a file system that hangs?")
		}
	}
}

// halt ends sources and checks; connections go on.
func (p *pool) halt() {
	p.haltSources()
	p.mu.Lock()
	for _, m := range p.members {
		p.uncheck(m)
	}
	p.mu.Unlock()
	p.checks.Wait()
}

// listed takes a list from the sources.
func (p *pool) listed(ctx context.Context, backends []source.Backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p.do(p.roster.list(p.clock(), backends))
}

// judged takes a verdict of the checker of one member.
func (p *pool) judged(ctx context.Context, id string, v health.Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p.do(p.roster.judged(p.clock(), id, v))
}

// hold takes a backend out of service, or back; false: there is none.
func (p *pool) hold(id string, held bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.roster == nil {
		return false
	}
	actions, ok := p.roster.hold(p.clock(), id, held)
	if ok {
		p.log.Info("backend "+map[bool]string{true: "held", false: "released"}[held]+" by a person", keyBackend, id)
		p.do(actions)
	}
	return ok
}

// tickEvery is how often doubt, rebalancing and leaving members are looked at.
const tickEvery = time.Second

func (p *pool) every(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		if ctx.Err() == nil {
			if actions := p.roster.tick(p.clock()); len(actions) > 0 {
				p.do(actions)
			}
			p.refresh()
			p.ease()
			p.rebalance()
			p.forget()
		}
		p.mu.Unlock()
	}
}

// refresh takes over figures that change without a change of grade: the round
// trip that the choice goes by, and what status shows. The caller holds the
// lock.
func (p *pool) refresh() {
	for id, m := range p.members {
		if m.checker != nil {
			p.roster.refresh(id, m.checker.Verdict())
		}
	}
	v := &view{table: p.roster.table(), targets: p.view.Load().targets}
	p.view.Store(v)
}

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
	ctx     context.Context // of sources and checks; ended by stop
	stop    context.CancelFunc
	wg      *sync.WaitGroup
}

// member is what runs for one backend.
type member struct {
	target  *relay.Target
	checker *health.Checker
	stop    context.CancelFunc // of the checker
	// draining calls off the reset at the end of a drain; nil when none is
	// under way.
	draining   *time.Timer
	changed    time.Time
	reason     string
	wasGrade   health.Grade
	transition uint64
}

// view is a table with the targets of its backends, index by index.
type view struct {
	table   *choose.Table
	targets []*relay.Target
}

func (p *process) newPool(name string) *pool {
	pool := &pool{
		name: name, engine: p.engine, log: p.log.With("frontend", name), clock: p.clock, stats: p.stats, checkers: &p.checkers,
		members: map[string]*member{}, leaving: map[string]*member{}, wg: &sync.WaitGroup{},
	}
	pool.view.Store(&view{table: choose.New(choose.Config{}, nil)})
	return pool
}

// Pick implements relay.Picker. It is called for every attempt of every
// connection and takes no lock.
func (p *pool) Pick(client netip.AddrPort, tried []*relay.Target) (*relay.Target, relay.Answer) {
	v := p.view.Load()
	var some [8]int
	q := choose.Query{
		Client: client.Addr(), Tried: v.indices(tried, some[:0]), Active: v.active, Now: p.clock(), Random: rand.Float64,
	}
	if len(tried) == 0 {
		q.Turn = p.turn.Add(1)
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

// start makes cfg the settings of the pool. Backends that stay keep their
// connections, grades and counters.
func (p *pool) start(ctx context.Context, cfg Pool, profile string, method *health.Method, set *source.Set) {
	p.halt()
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg, p.profile, p.method, p.set, p.ctx, p.stop, p.wg = cfg, profile, method, set, ctx, cancel, &sync.WaitGroup{}
	if p.roster == nil {
		p.roster = newRoster(cfg)
	}
	p.roster.cfg = cfg
	for _, m := range p.members {
		p.check(ctx, m)
	}
	wg := p.wg
	wg.Go(func() { _ = set.Run(ctx, func(b []source.Backend) { p.listed(ctx, b) }) })
	wg.Go(func() { p.every(ctx) })
}

// halt ends sources and checks; connections go on.
func (p *pool) halt() {
	p.mu.Lock()
	stop, wg := p.stop, p.wg
	p.mu.Unlock()
	if stop != nil {
		stop()
		wg.Wait()
	}
}

// listed takes a list from the sources.
func (p *pool) listed(ctx context.Context, backends []source.Backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p.do(ctx, p.roster.list(p.clock(), backends))
}

// judged takes a verdict of the checker of one member.
func (p *pool) judged(ctx context.Context, id string, v health.Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p.do(ctx, p.roster.judged(p.clock(), id, v))
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
		p.do(p.ctx, actions)
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
				p.do(ctx, actions)
			}
			p.rebalance()
			p.forget()
		}
		p.mu.Unlock()
	}
}

// retire ends a pool that the settings no longer have: its connections drain.
func (p *pool) retire() {
	p.halt()
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.members {
		p.end(action{id: id, cause: "frontend removed", how: Drain})
	}
}

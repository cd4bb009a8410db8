package balance

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/holdfast-ha/holdfast/internal/access/balance/relay"
	"github.com/holdfast-ha/holdfast/internal/access/balance/source"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// frontend is what runs for one Frontend of the settings. It is never changed:
// new settings make a new one around the same pools.
type frontend struct {
	name   string
	pool   *pool
	routes []*pool // in the order of the settings
}

// change is a set of settings about to be put in force, with all that could
// fail done already.
type change struct {
	settings Settings
	pools    []poolChange
	// fresh are listening sockets that nobody accepts from yet, by address.
	fresh map[string]*os.File
	// yielded are own listeners that were closed because one of fresh takes
	// their port.
	yielded []string
}

type poolChange struct {
	name     string
	settings Pool
	method   *health.Method
	set      *source.Set
}

// apply puts settings in force: first all that can fail, then the change. On
// an error nothing has changed.
func (p *process) apply(s Settings) error {
	// A newer process reads the settings itself, and would find an address
	// taken that this one opened after the offer.
	p.awaitOffer()
	p.applying.Lock()
	defer p.applying.Unlock()
	if p.isClosing() {
		return errClosing
	}
	c, err := p.prepare(s, nil)
	if err != nil {
		return err
	}
	p.tellFixed(s)
	p.startPools(c)
	return p.commit(c)
}

// tellFixed names changes that only another process takes.
func (p *process) tellFixed(s Settings) {
	for field, changed := range map[string]bool{
		"control": s.Control != p.settings.Control, "telemetry.listen": s.Telemetry.Listen != p.settings.Telemetry.Listen, "log": s.Log != p.settings.Log,
	} {
		if changed {
			p.log.Warn("this setting is taken at a restart or an upgrade only", "setting", field)
		}
	}
}

// prepare opens and checks what the settings need. Listening sockets that
// another process handed over are used where the settings name their address,
// and taken out of handed. The caller holds applying.
func (p *process) prepare(s Settings, handed map[string]*os.File) (*change, error) {
	c := &change{settings: s, fresh: map[string]*os.File{}}
	if err := p.preparePools(c); err != nil {
		return nil, err
	}
	if err := p.openListeners(c, handed); err != nil {
		p.abandon(c)
		return nil, err
	}
	return c, nil
}

func (p *process) preparePools(c *change) error {
	var own []string
	for _, f := range c.settings.Frontends {
		own = append(own, f.Listen...)
	}
	named := map[string]bool{}
	for _, f := range c.settings.Frontends {
		for name, settings := range f.pools() {
			if named[name] {
				return fmt.Errorf("frontends: two sets of backends are called %s; give the frontend of one another name", name)
			}
			named[name] = true
			method, err := p.openCheck(settings)
			if err != nil {
				return fmt.Errorf("frontend %s: %w", f.Name, err)
			}
			set := settings.Backends.set(name, f, own, p.known(name), p.log)
			c.pools = append(c.pools, poolChange{name: name, settings: *settings, method: method, set: set})
		}
	}
	return nil
}

// pools yields the pool of the frontend and those of its routes with their
// names.
func (f *Frontend) pools() func(yield func(string, *Pool) bool) {
	return func(yield func(string, *Pool) bool) {
		if !yield(f.Name, &f.Pool) {
			return
		}
		for i := range f.Routes {
			if r := &f.Routes[i]; !yield(r.poolName(f.Name), &r.Pool) {
				return
			}
		}
	}
}

// poolName names the pool of a route by its first name in alphabetical order:
// which routes stand before it, and in which order its names do, is no matter.
// A name belongs to one route of a frontend only.
func (r *Route) poolName(frontend string) string { return frontend + "/" + slices.Min(r.Names) }

// known is what discovery found for a pool that runs.
func (p *process) known(name string) []source.Listed {
	p.mu.Lock()
	running := p.pools[name]
	p.mu.Unlock()
	if running == nil {
		return nil
	}
	running.mu.Lock()
	set := running.set
	running.mu.Unlock()
	return set.Known()
}

// openCheck opens the check of a pool. Credentials that have expired are a
// mistake in new settings; at the start they are a warning, for clients are
// better served by a balancer whose checks are refused than by none.
func (p *process) openCheck(pool *Pool) (*health.Method, error) {
	method, err := pool.Check.open(pool.Backends.SendProxy)
	if err != nil {
		return nil, err
	}
	if err := method.Err(); err != nil {
		if len(p.frontends) > 0 {
			return nil, fmt.Errorf("check: %w", err)
		}
		p.log.Warn("checks will not be believed as they should", keyError, err.Error())
	}
	return method, nil
}

// startPools starts the pools of a change: with the first list that there is,
// before anybody is accepted for it.
func (p *process) startPools(c *change) []*pool {
	var all []*pool
	for _, pc := range c.pools {
		p.mu.Lock()
		running := p.pools[pc.name]
		if running == nil {
			running = p.retired[pc.name]
		}
		p.mu.Unlock()
		if running == nil {
			running = p.newPool(pc.name)
		}
		running.start(p.life, pc.settings, c.settings.Profile, pc.method, pc.set)
		p.mu.Lock()
		p.pools[pc.name] = running
		delete(p.retired, pc.name)
		p.mu.Unlock()
		all = append(all, running)
	}
	return all
}

// commit makes a change real for clients: listeners open, move and close.
func (p *process) commit(c *change) error {
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		p.abandon(c)
		return errClosing
	}
	frontends, wanted := map[string]*frontend{}, map[string]bool{}
	for _, s := range c.settings.Frontends {
		f := p.assemble(s)
		frontends[f.name] = f
		served := f.relay(s)
		for _, a := range s.Listen {
			wanted[a] = true
			p.listen(served, a, c.fresh[a])
		}
	}
	unwanted := p.takeListeners(func(a string) bool { return !wanted[a] })
	gone := p.takePools(c)
	p.settings, p.frontends = c.settings, frontends
	p.mu.Unlock()
	for _, l := range unwanted {
		_ = l.Close()
	}
	p.retire(gone)
	return nil
}

// assemble makes a frontend around its pools. The caller holds the lock.
func (p *process) assemble(s Frontend) *frontend {
	f := &frontend{name: s.Name, pool: p.pools[s.Name]}
	for _, r := range s.Routes {
		f.routes = append(f.routes, p.pools[r.poolName(s.Name)])
	}
	return f
}

// listen serves an address: from a fresh socket, else by the listener that is
// there. The caller holds the lock.
func (p *process) listen(f relay.Frontend, address string, fresh *os.File) {
	if fresh == nil {
		if l := p.listeners[address]; l != nil {
			l.Update(f)
		}
		return
	}
	l, err := p.engine.Serve(f, fresh)
	_ = fresh.Close()
	if err != nil {
		p.log.Error("cannot serve", "frontend", f.Name, "listen", address, keyError, err.Error())
		return
	}
	p.listeners[address] = l
	p.log.Info("listening", "frontend", f.Name, "listen", address)
}

// takeListeners takes those of some addresses out of the map, to be closed
// without the lock that the caller holds.
func (p *process) takeListeners(which func(string) bool) []*relay.Listener {
	var all []*relay.Listener
	for a, l := range p.listeners {
		if which(a) {
			all = append(all, l)
			delete(p.listeners, a)
		}
	}
	return all
}

// relay is the frontend as the relay takes it.
func (f *frontend) relay(s Frontend) relay.Frontend {
	r := relay.Frontend{
		Name: s.Name, Picker: f.pool, Stagger: s.Connect.Stagger, Budget: s.Connect.Budget, FirstByte: s.Connect.FirstByte,
		HelloTimeout: s.HelloTimeout, IdleTimeout: s.IdleTimeout, QueueTimeout: s.Queue.Timeout, UserTimeout: s.UserTimeout,
		AcceptProxy: s.AcceptProxy, ProxyFrom: s.ProxyFrom, MaxConns: s.MaxConns, MaxPerClient: s.MaxPerClient, QueueLength: s.Queue.Length,
		MaxAge: s.MaxAge, SourceAddress: s.SourceAddress,
	}
	r.KeepAlive.Idle, r.KeepAlive.Interval, r.KeepAlive.Count = s.KeepAlive.Idle, s.KeepAlive.Interval, s.KeepAlive.Count
	if len(s.Routes) > 0 {
		r.Routes = map[string]relay.Picker{}
	}
	for i, route := range s.Routes {
		for _, name := range route.Names {
			r.Routes[name] = f.routes[i]
		}
	}
	return r
}

// poolsOf lists the pools in force of one frontend or, for "", of all.
func (p *process) poolsOf(name string) []*pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*pool
	for f := range maps.Values(p.frontends) {
		if name == "" || name == f.name {
			all = append(append(all, f.pool), f.routes...)
		}
	}
	return all
}

func (p *process) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

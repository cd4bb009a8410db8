package balance

import (
	"fmt"
	"os"

	"github.com/holdfast-ha/holdfast/internal/access/balance/relay"
	"github.com/holdfast-ha/holdfast/internal/access/balance/source"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// frontend is what runs for one Frontend of the settings.
type frontend struct {
	name   string
	pool   *pool
	routes []*pool // in the order of the settings
}

// plan is a frontend about to run: everything that could fail has been tried.
type plan struct {
	settings Frontend
	// methods and sets are those of the pool, then of the routes.
	methods []*health.Method
	sets    []*source.Set
	fresh   map[string]*os.File
}

// apply puts settings in force: first all that can fail, then the change. On
// an error nothing has changed. Listening sockets that another process handed
// over are used where the settings name their address.
func (p *process) apply(s Settings, handed map[string]*os.File) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	plans, err := p.prepare(s, handed)
	if err != nil {
		for _, pl := range plans {
			closeAll(pl.fresh)
		}
		return err
	}
	keep := map[string]bool{}
	for _, pl := range plans {
		p.commit(s, pl)
		for _, a := range pl.settings.Listen {
			keep[a] = true
		}
	}
	for a, l := range p.listeners {
		if !keep[a] {
			_ = l.Close()
			delete(p.listeners, a)
		}
	}
	p.dropFrontends(s)
	p.settings = s
	return nil
}

// prepare opens and checks what the settings need.
func (p *process) prepare(s Settings, handed map[string]*os.File) ([]plan, error) {
	var plans []plan
	var own []string
	for _, f := range s.Frontends {
		own = append(own, f.Listen...)
	}
	for _, f := range s.Frontends {
		pl := plan{settings: f, fresh: map[string]*os.File{}}
		plans = append(plans, pl)
		for _, a := range f.Listen {
			if p.listeners[a] != nil {
				continue
			}
			if file := handed[a]; file != nil {
				pl.fresh[a] = file
				delete(handed, a)
				continue
			}
			file, err := relay.Listen(a, f.FreeBind)
			if err != nil {
				return plans, fmt.Errorf("frontend %s: listen: %w", f.Name, err)
			}
			pl.fresh[a] = file
		}
		running := p.running(f.Name)
		for i, pool := range f.pools() {
			method, err := p.open(pool)
			if err != nil {
				return plans, fmt.Errorf("frontend %s: %w", f.Name, err)
			}
			pl.methods = append(pl.methods, method)
			var known []source.Listed
			if i < len(running) {
				known = running[i].set.Known()
			}
			pl.sets = append(pl.sets, pool.Backends.set(poolName(f.Name, i), f, own, known, p.log))
		}
		plans[len(plans)-1] = pl
	}
	return plans, nil
}

// pools lists the pool of the frontend and those of its routes.
func (f *Frontend) pools() []*Pool {
	all := []*Pool{&f.Pool}
	for i := range f.Routes {
		all = append(all, &f.Routes[i].Pool)
	}
	return all
}

// open opens the check of a pool. Credentials that have expired are a mistake
// in new settings; at the start they are a warning, for clients are better
// served by a balancer whose checks are refused than by none.
func (p *process) open(pool *Pool) (*health.Method, error) {
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

// running lists the pools of a frontend that runs: its own, then its routes'.
func (p *process) running(name string) []*pool {
	f := p.frontends[name]
	if f == nil {
		return nil
	}
	return append([]*pool{f.pool}, f.routes...)
}

// poolName is the frontend's for its own pool, the first, and numbered for
// those of its routes.
func poolName(frontend string, i int) string {
	if i == 0 {
		return frontend
	}
	return fmt.Sprintf("%s/%d", frontend, i)
}

// commit makes one plan real.
func (p *process) commit(s Settings, pl plan) {
	f := p.frontends[pl.settings.Name]
	if f == nil {
		f = &frontend{name: pl.settings.Name, pool: p.newPool(pl.settings.Name)}
		p.frontends[f.name] = f
	}
	f.pool.start(p.life, pl.settings.Pool, s.Profile, pl.methods[0], pl.sets[0])
	for len(f.routes) < len(pl.settings.Routes) {
		f.routes = append(f.routes, p.newPool(poolName(f.name, len(f.routes)+1)))
	}
	for _, gone := range f.routes[len(pl.settings.Routes):] {
		gone.retire()
	}
	f.routes = f.routes[:len(pl.settings.Routes)]
	for i, r := range pl.settings.Routes {
		f.routes[i].start(p.life, r.Pool, s.Profile, pl.methods[i+1], pl.sets[i+1])
	}
	served := f.relay(pl.settings)
	for _, a := range pl.settings.Listen {
		if file := pl.fresh[a]; file != nil {
			l, err := p.engine.Serve(served, file)
			_ = file.Close()
			if err != nil {
				p.log.Error("cannot serve", "frontend", f.name, "listen", a, keyError, err.Error())
				continue
			}
			p.listeners[a] = l
			p.log.Info("listening", "frontend", f.name, "listen", a)
			continue
		}
		p.listeners[a].Update(served)
	}
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

// dropFrontends retires frontends that the settings no longer have.
func (p *process) dropFrontends(s Settings) {
	named := map[string]bool{}
	for _, f := range s.Frontends {
		named[f.Name] = true
	}
	for name, f := range p.frontends {
		if named[name] {
			continue
		}
		delete(p.frontends, name)
		for _, gone := range append(f.routes, f.pool) {
			gone.retire()
		}
		p.log.Info("frontend removed", "frontend", name)
	}
}

func (f *frontend) halt() {
	for _, p := range append(f.routes, f.pool) {
		p.halt()
	}
}

func closeAll(files map[string]*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

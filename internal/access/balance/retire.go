package balance

import "sync"

// takePools takes the pools out of those that run which a change no longer
// names. The caller holds the lock.
func (p *process) takePools(c *change) []*pool {
	named := map[string]bool{}
	for _, pc := range c.pools {
		named[pc.name] = true
	}
	var gone []*pool
	for name, pool := range p.pools {
		if !named[name] {
			gone = append(gone, pool)
			delete(p.pools, name)
			p.retired[name] = pool
		}
	}
	return gone
}

// retire ends pools that the settings no longer have: their connections drain,
// and are listed as long as there are any.
func (p *process) retire(gone []*pool) {
	var wg sync.WaitGroup
	for _, pool := range gone {
		wg.Go(func() {
			pool.leave()
			pool.log.Info("frontend removed")
		})
	}
	wg.Wait()
}

// leave ends the checks of a pool and drains its backends.
func (p *pool) leave() {
	within2s(p.halt)
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.members {
		p.remove(id)
		p.end(action{id: id, cause: "frontend removed", how: Drain})
	}
	p.roster.entries = nil
}

// forgetRetired drops retired pools whose last connection has ended.
func (p *process) forgetRetired() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, pool := range p.retired {
		if pool.hasLeft() {
			delete(p.retired, name)
		}
	}
}

func (p *pool) hasLeft() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ease()
	p.forget()
	return len(p.members) == 0 && len(p.leaving) == 0
}

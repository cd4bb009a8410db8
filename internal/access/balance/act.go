package balance

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/balance/relay"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// Keys of the log.
const (
	keyBackend = "backend"
	keyError   = "error"
	keyReason  = "reason"
)

// do performs what the roster asks for. New connections move first, then
// established ones end. The caller holds the lock.
func (p *pool) do(actions []action) {
	for _, a := range actions {
		switch a.kind {
		case added:
			p.add(a.id)
		case removed:
			p.remove(a.id)
		}
	}
	p.publish()
	for _, a := range actions {
		switch a.kind {
		case graded:
			p.graded(a)
		case ended:
			p.end(a)
		case resumed:
			p.resume(a.id)
		case doubted:
			p.log.Warn("every backend failed at once: doubting this node; all are tried, fastest first, and no connection is reset")
		case trusted:
			p.log.Info("verdicts count again")
		case nudged:
			if m := p.members[a.id]; m != nil && m.checker != nil {
				m.checker.Nudge()
			}
		}
	}
}

// add makes a member, or takes back one that is leaving.
func (p *pool) add(id string) {
	i, _ := p.roster.find(id)
	b := p.roster.entries[i].backend
	m := p.leaving[id]
	if m == nil || m.target.SendProxy != p.cfg.Backends.SendProxy {
		target, err := relay.NewTarget(id, b.Network, b.Address, p.cfg.Backends.SendProxy)
		if err != nil {
			p.log.Warn("backend left out", keyBackend, id, keyError, err.Error())
			p.roster.drop(id)
			return
		}
		m = &member{target: target}
	}
	if p.leaving[id] == m {
		delete(p.leaving, id)
	}
	p.members[id] = m
	p.log.Info("backend added", keyBackend, id, "source", b.Source, "zone", b.Zone)
	p.check(m)
}

// check starts the checks of a member with the settings in force.
func (p *pool) check(m *member) {
	id := m.target.ID
	prober, err := p.method.Prober(m.target.Network, m.target.Address)
	if err != nil {
		// Settings are refused for what would fail here; what is left comes
		// from a source.
		p.log.Warn("backend cannot be checked", keyBackend, id, keyError, err.Error())
		return
	}
	ctx, stop := context.WithCancel(p.life)
	checker := health.NewChecker(prober, p.cfg.Check.timers(p.profile), func(v health.Verdict) { p.judged(ctx, id, v) })
	m.checker, m.stop = checker, stop
	p.checkers.Store(m.target, checker)
	p.checks.Go(func() {
		// Where a judge begins with an opinion (a score), nothing would tell it.
		p.judged(ctx, id, checker.Verdict())
		checker.Run(ctx)
	})
}

// uncheck ends the checks of a member.
func (p *pool) uncheck(m *member) {
	if m.stop != nil {
		m.stop()
	}
	p.checkers.Delete(m.target)
	m.checker, m.stop = nil, nil
}

// remove stops the checks of a member; its target stays as long as it has
// connections.
func (p *pool) remove(id string) {
	m := p.members[id]
	if m == nil {
		return
	}
	p.uncheck(m)
	delete(p.members, id)
	p.leaving[id] = m
	p.log.Info("backend removed", keyBackend, id)
}

// forget drops what left the list once its last connection has ended.
func (p *pool) forget() {
	for id, m := range p.leaving {
		if m.target.Active() == 0 && m.target.Connecting() == 0 {
			p.resume(id)
			delete(p.leaving, id)
		}
	}
}

func (p *pool) graded(a action) {
	m := p.members[a.id]
	if m == nil {
		return
	}
	if len(m.history) == maxHistory {
		m.history = slices.Delete(m.history, 0, 1)
	}
	m.history = append(m.history, Transition{At: time.Now(), From: a.from, To: a.to, Reason: a.cause})
	m.transitions++
	p.log.Info("backend changed", keyBackend, a.id, "from", a.from.String(), "to", a.to.String(), keyReason, a.cause)
}

// member finds a member, also one that is leaving.
func (p *pool) member(id string) *member {
	if m := p.members[id]; m != nil {
		return m
	}
	return p.leaving[id]
}

// end ends the established connections of a backend.
func (p *pool) end(a action) {
	m := p.member(a.id)
	if m == nil {
		return
	}
	switch a.how {
	case Reset:
		p.resume(a.id)
		if n := m.target.Active(); n > 0 {
			p.log.Info("connections reset", keyBackend, a.id, "count", n, "cause", a.cause)
		}
		p.engine.Reset(m.target, a.cause, p.cfg.Spread)
	case Drain:
		if m.draining != nil {
			return
		}
		limit := p.cfg.DrainTimeout
		p.log.Info("connections drain", keyBackend, a.id, "count", m.target.Active(), "cause", a.cause, "reset_after", limit.String())
		var timer *time.Timer
		timer = time.AfterFunc(limit, func() { p.drainEnded(m, &timer, a.cause) })
		m.draining = timer
	}
}

// ease ends half of the quiet connections of each backend that drains, once a
// second. Watches never end by themselves, and an apiserver that shuts down
// waits for them until it is killed; a request under way is not disturbed.
func (p *pool) ease() {
	for _, all := range []map[string]*member{p.members, p.leaving} {
		for _, m := range all {
			if n := m.target.Active(); m.draining != nil && n > 0 {
				p.engine.Rebalance(m.target, (n+1)/2)
			}
		}
	}
}

// drainEnded resets what a drain has left, unless it was called off.
func (p *pool) drainEnded(m *member, timer **time.Timer, cause string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.draining != *timer {
		return
	}
	m.draining = nil
	p.engine.Reset(m.target, cause+", not ended in time", p.cfg.Spread)
}

// resume calls off a drain.
func (p *pool) resume(id string) {
	if m := p.member(id); m != nil && m.draining != nil {
		m.draining.Stop()
		m.draining = nil
	}
}

// rebalance moves some quiet connections from where there are too many.
func (p *pool) rebalance() {
	left := p.cfg.Rebalance.PerSecond
	if left == 0 || p.roster.doubt {
		return
	}
	v := p.view.Load()
	for i, n := range v.table.Surplus(p.clock(), v.active) {
		if n = min(n, left); n > 0 {
			p.engine.Rebalance(v.targets[i], n)
			left -= n
		}
	}
}

// observe takes what the relay notices about a backend while it carries
// clients: evidence for its checker. It is called on event loops and does not
// block.
func (p *process) observe(e relay.Event) {
	kind, ok := evidenceOf[e.Kind]
	if e.Kind == relay.DialFailed {
		kind, ok = health.DialTimeout, true
		if errors.Is(e.Err, syscall.ECONNREFUSED) {
			kind = health.DialRefused
		}
	}
	p.stats.saw(e)
	if !ok || e.Target == nil {
		return
	}
	if c, ok := p.checkers.Load(e.Target); ok {
		c.(*health.Checker).Evidence(kind)
	}
}

// evidenceOf is what the checks make of what the relay saw.
var evidenceOf = map[relay.EventKind]health.Evidence{
	relay.Overtaken: health.DialTimeout, relay.ResetEarly: health.ResetEarly, relay.Silent: health.Silent, relay.Unacked: health.Unacked,
}

package vip

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
	"github.com/holdfast-ha/holdfast/internal/address/vip/wire"
	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// changed is told what the kernel says, from another goroutine. An address that
// somebody took away is back before anything else is thought about.
func (o *owner) changed(e link.Event) {
	if e.Kind == link.AddressThere {
		return
	}
	for _, m := range o.members {
		if e.Kind == link.AddressGone && slices.Contains(m.router.Addresses, e.Address) {
			if err := m.holder.Mend(); err != nil {
				o.agent.log.Warn("address taken away, and not added again", keyGroup, m.group.settings.Name, keyAddress, e.Address, keyError, err)
			}
		}
	}
	o.inbox.put(func(time.Duration) { o.look() })
}

// look has the kernel asked about the interfaces, apart from the loop: the answer
// may wait for a lock of the whole machine, and adverts must not wait with it.
func (o *owner) look() {
	o.looked = o.now()
	if o.looking {
		o.again = true
		return
	}
	o.looking = true
	facts := map[string]hold.Facts{}
	for _, m := range o.members {
		facts[m.group.settings.Interface] = hold.Facts{}
	}
	go func() {
		for name := range facts {
			facts[name] = hold.Look(name, o.agent.held)
		}
		o.inbox.put(func(time.Duration) { o.see(facts) })
	}()
}

// see takes up the facts of the interfaces.
func (o *owner) see(facts map[string]hold.Facts) {
	o.looking = false
	if o.again { // something has happened since they were asked for
		o.again = false
		o.look()
	}
	for _, m := range o.members {
		name := m.group.settings.Interface
		m.facts = facts[name]
		if m.opened != 0 && m.facts.Index != m.opened {
			m.shut()
		}
		reason := ""
		switch {
		case m.facts.Index == 0:
			reason = fmt.Sprintf("there is none of the name %s; it is waited for", name)
		case !m.facts.Up:
			reason = fmt.Sprintf("%s is down or has no carrier; it is waited for", name)
		case !m.own().IsValid():
			reason = fmt.Sprintf("%s has no IPv%d address of its own to send from; give it one", name, m.router.Family)
		}
		if reason == "" {
			o.setSource(m, m.own())
			o.open(m)
		}
		o.fault(m, faultInterface, reason)
		o.explain(m)
	}
}

// mostExplained bounds the lines about refused adverts: their sources may be
// made up.
const mostExplained = 16

// explain says once for each source and reason why its adverts are refused.
func (o *owner) explain(m *member) {
	if m.socket == nil {
		return
	}
	for _, odd := range m.socket.Odd() {
		key := string(odd.Reason) + "/" + odd.Source.String()
		if m.explained[key] || len(m.explained) >= mostExplained {
			continue
		}
		m.explained[key] = true
		o.agent.log.Warn("adverts of another router are refused", keyGroup, m.group.settings.Name, keyFrom, odd.Source, keyError, odd.Err)
	}
}

// retryOpen is how long after a failure a socket is opened again.
const retryOpen = time.Second

// open opens the sockets of a member whose interface is there.
func (o *owner) open(m *member) {
	if m.socket != nil {
		return
	}
	s, err := wire.Open(wire.Config{
		Interface: m.group.settings.Interface, Family: m.router.Family, VRID: m.router.VRID,
		Peers: m.group.settings.VRRP.of(m.router.Family), Through: m.virtual.Name,
	})
	if err == nil {
		if err = m.holder.Guard(); err != nil {
			_ = s.Close()
		}
	}
	if err != nil {
		o.fault(m, faultSocket, err.Error())
		time.AfterFunc(retryOpen, func() { o.inbox.put(func(time.Duration) { o.look() }) })
		return
	}
	o.agent.tune(m.group.settings.Interface)
	ctx, end := context.WithCancel(context.Background())
	m.socket, m.opened, m.end = s, m.facts.Index, end
	o.fault(m, faultSocket, "")
	go func() {
		if err := s.Run(o.inbox.nudge); err != nil {
			o.agent.log.Warn("adverts not heard", keyGroup, m.group.settings.Name, keyError, err)
		}
	}()
	go o.hearRivals(ctx, m)
	if m.faults[faultProbe] != "" {
		go o.probe(ctx, m)
	}
}

// hearRivals keeps a speaker on the interface.
func (o *owner) hearRivals(ctx context.Context, m *member) {
	said := ""
	for ctx.Err() == nil {
		if err := m.holder.Hear(ctx); err != nil && err.Error() != said {
			said = err.Error()
			o.agent.log.Warn("addresses cannot be announced", keyGroup, m.group.settings.Name, keyError, said)
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// probing asks thrice within the time in which a holder's adverts are waited for
// anyhow, but gives a busy machine 300 ms.
var probing = announce.Probing{Count: 3, Interval: 100 * time.Millisecond}

// retryProbe is how often an address that a stranger has is asked for again.
const retryProbe = 2 * time.Second

// probe finds out whether a stranger has an address, before it is taken for the
// first time. Who answers is no stranger if adverts are heard: then it is the
// holder.
func (o *owner) probe(ctx context.Context, m *member) {
	for ctx.Err() == nil {
		begun := o.now()
		err := m.holder.Probe(ctx, probing)
		var used *announce.InUse
		if errors.As(err, &used) {
			pause(ctx, m.down())
		} else if err != nil {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		stranger := make(chan bool, 1)
		o.inbox.put(func(time.Duration) { stranger <- o.probed(m, begun, used) })
		select {
		case <-ctx.Done():
		case again := <-stranger:
			if !again {
				return
			}
			pause(ctx, retryProbe)
		}
	}
}

// probed takes up what a probe found, and says whether to ask again.
func (o *owner) probed(m *member, begun time.Duration, used *announce.InUse) (again bool) {
	if used != nil && m.heard <= begun {
		o.fault(m, faultInUse, used.Error())
		o.fault(m, faultProbe, "")
		return true
	}
	o.fault(m, faultInUse, "")
	o.fault(m, faultProbe, "")
	return false
}

// begin starts the routers once every member has been probed or cannot be.
func (o *owner) begin(force bool) {
	if o.started || o.stopping {
		return
	}
	for _, m := range o.members {
		if m.faults[faultProbe] != "" && !force {
			return
		}
	}
	o.started = true
	now := o.now()
	o.perform(now, o.router.Start(now))
}

// alive says whether the loop turns.
func (o *owner) alive() error {
	if since := o.now() - time.Duration(o.beat.Load()); since > 3*maxNap {
		return fmt.Errorf("group %s: the loop has not turned for %s", o.name, since.Round(time.Millisecond))
	}
	return nil
}

// health takes up what the checks of a group say.
func (o *owner) health(g *group) {
	reason, _ := g.gate.verdict()
	for _, m := range o.members {
		if m.group == g {
			o.fault(m, faultHealth, reason)
		}
	}
	priority := o.groups[0].settings.VRRP.Priority
	for _, g := range o.groups {
		_, weight := g.gate.verdict()
		priority += weight
	}
	o.priority = min(254, max(1, priority))
	now := o.now()
	o.perform(now, o.router.SetPriority(now, uint8(o.priority)))
}

// release hands the groups over, and waits until somebody has taken them.
func (o *owner) release(ctx context.Context, _ string) error {
	answer := make(chan error, 1)
	o.inbox.put(func(now time.Duration) {
		if o.router.State() != vrrp.Active {
			answer <- fmt.Errorf("group %s: not held here, but %s", o.name, o.router.State())
			return
		}
		o.waiting = append(o.waiting, answer)
		o.perform(now, o.router.Release(now))
	})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rejected adds up what the sockets of a member did not take.
func (m *member) refused() map[string]uint64 {
	all := map[string]uint64{}
	for r, n := range m.rejected {
		all[string(r)] += n
	}
	if m.socket == nil {
		return all
	}
	for r, n := range maps.All(m.socket.Rejected()) {
		all[string(r)] += n
	}
	return all
}

package vip

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/address/services"
)

// beacon has routers send packets for one address of Services to this machine, as
// long as it may answer: every machine that may does, and routers spread them. The
// address is on no interface, for kube-proxy takes the packets before they would
// get there. Nothing has to fall silent here with a dead agent: its sessions end.
type beacon struct {
	publisher  *publisher
	group      *group
	announcers []Announcer

	mu       sync.Mutex // of the group's state, and of what follows
	election services.Election
	bars     map[string]string
	up       bool
	ended    bool
}

func newBeacon(p *publisher, e *services.Election) *beacon {
	a := p.agent
	s := &GroupSettings{Name: e.Address.String(), Addresses: []string{e.Address.String()}, Announce: p.means(e)}
	s.addresses = []netip.Addr{e.Address}
	b := &beacon{publisher: p, announcers: a.routing.of(s), group: &group{
		settings: s, gate: newHealthGate(s, a.log), hooks: newHooks(nil, a.log), state: stateInitialize, since: time.Now(),
	}}
	b.group.enter(a, stateBackup, "start", time.Now())
	return b
}

func (b *beacon) address() netip.Addr { return b.group.settings.addresses[0] }

// update implements post.
func (b *beacon) update(e *services.Election, _ []lease.Peer, common map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.election, b.bars = *e, b.publisher.bars(e, common)
	up := len(b.bars) == 0
	if up == b.up || b.ended {
		return
	}
	b.up = up
	state, cause := stateBackup, "fault"
	for _, n := range b.announcers {
		if up {
			n.Up(b.address())
		} else {
			n.Down(b.address())
		}
	}
	if up {
		state, cause = stateActive, "healthy"
	}
	b.group.enter(b.publisher.agent, state, cause, time.Now())
}

// run implements post. Packets that are under way are carried on as before, by
// kube-proxy, which is not this process.
func (b *beacon) run(ctx context.Context) {
	<-ctx.Done()
	b.mu.Lock()
	b.ended = true
	var grace time.Duration
	if b.up {
		for _, n := range b.announcers {
			grace = max(grace, n.Retreat(b.address()))
		}
	}
	b.mu.Unlock()
	pause(context.WithoutCancel(ctx), grace)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.announcers {
		n.Down(b.address())
	}
	b.up = false
	b.group.enter(b.publisher.agent, stateInitialize, "stop", time.Now())
}

// of implements post.
func (b *beacon) of() *group { return b.group }

// guard implements post.
func (b *beacon) guard() error { return nil }

// release implements post.
func (b *beacon) release(context.Context, string) error {
	return fmt.Errorf("%s is announced by every machine that may answer; stop the agent to take this one out", b.group.settings.Name)
}

// alive implements post: the loop is the publisher's.
func (b *beacon) alive() error { return nil }

// status implements post.
func (b *beacon) status(context.Context) (ServiceStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.group.service(&b.election, b.bars), nil
}

package vip

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
)

// Announcer tells routers where an address is: by BGP, or by a route in a table.
// Both calls return soon; what they take up is done again until it is true.
type Announcer interface {
	Up(addr netip.Addr)
	Down(addr netip.Addr)
}

// everywhere holds a group on every healthy machine.
type everywhere struct {
	agent      *agent
	group      *group
	holder     *hold.Holder
	announcers []Announcer
	wake       chan struct{}

	mu     sync.Mutex
	faults map[string]string
	beat   time.Time
	held   bool
}

func newEverywhere(a *agent, g *group) (*everywhere, error) {
	e := &everywhere{agent: a, group: g, wake: make(chan struct{}, 1), faults: map[string]string{}, beat: time.Now()}
	var err error
	e.holder, err = hold.New(hold.Config{Interface: g.settings.Interface, Addresses: g.settings.addresses, Quiet: true, Log: a.log}, a.door, a.links)
	return e, err
}

// anycastTerm is how long the address outlives an agent that is dead or stopped,
// and anycastEvery how often that is put off.
const (
	anycastTerm  = 2 * time.Second
	anycastEvery = 500 * time.Millisecond
)

// run implements contender.
func (e *everywhere) run(ctx context.Context) {
	for ctx.Err() == nil {
		e.turn()
		t := time.NewTimer(anycastEvery)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-e.wake:
		}
		t.Stop()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop("stop", stateInitialize)
}

func (e *everywhere) turn() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beat = time.Now()
	reason, _ := e.group.gate.verdict()
	name := e.group.settings.Interface
	if f := hold.Look(name, e.agent.held); f.Index == 0 || !f.Up && name != "lo" {
		reason = fmt.Sprintf("interface %s is missing or down; it is waited for", name)
	}
	e.faults = map[string]string{}
	if reason != "" {
		e.faults[faultHealth] = reason
		e.drop("fault", stateBackup)
		return
	}
	if e.held && e.holder.Renew(anycastTerm) == nil {
		return
	}
	if err := e.holder.Take(time.Now(), anycastTerm); err != nil {
		e.faults[faultHold] = err.Error()
		e.drop("fault", stateBackup)
		return
	}
	e.held = true
	for _, a := range e.announcers {
		for _, addr := range e.group.settings.addresses {
			a.Up(addr)
		}
	}
	e.group.enter(e.agent, stateActive, "healthy", time.Now())
}

// drop withdraws first: what is still under way is answered meanwhile.
func (e *everywhere) drop(cause, state string) {
	if e.held {
		for _, a := range e.announcers {
			for _, addr := range e.group.settings.addresses {
				a.Down(addr)
			}
		}
		if err := e.holder.Drop(); err != nil {
			e.agent.log.Warn("address not removed; the gate keeps it mute", keyGroup, e.group.settings.Name, keyError, err)
		}
		e.held = false
	}
	e.group.enter(e.agent, state, cause, time.Now())
}

// changed implements contender.
func (e *everywhere) changed(ev link.Event) {
	if ev.Kind != link.AddressThere {
		e.nudge()
	}
}

func (e *everywhere) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// ailing implements contender.
func (e *everywhere) ailing(*group) { e.nudge() }

// release implements contender.
func (e *everywhere) release(context.Context, string) error {
	return fmt.Errorf("group %s: anycast is held everywhere; stop the agent to take this machine out", e.group.settings.Name)
}

// alive implements contender.
func (e *everywhere) alive() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if since := time.Since(e.beat); since > 3*maxNap {
		return fmt.Errorf("group %s: the loop has not turned for %s", e.group.settings.Name, since.Round(time.Millisecond))
	}
	return nil
}

// of implements contender.
func (e *everywhere) of() []*group { return []*group{e.group} }

// status implements contender.
func (e *everywhere) status(context.Context) ([]GroupStatus, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.group.status("anycast")
	s.Fault = reasons(e.faults)
	s.tally(e.holder)
	return []GroupStatus{s}, nil
}

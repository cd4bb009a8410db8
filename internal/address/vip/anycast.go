package vip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
)

// everywhere holds a group on every healthy machine.
type everywhere struct {
	agent  *agent
	group  *group
	holder *presence
	wake   chan struct{}

	mu     sync.Mutex
	faults map[string]string
	beat   time.Time
	held   bool
	// leaving is until when packets are answered that were under way when routers
	// were told to send no more; zero: they are to send them.
	leaving time.Time
}

func newEverywhere(a *agent, g *group) (*everywhere, error) {
	e := &everywhere{agent: a, group: g, wake: make(chan struct{}, 1), faults: map[string]string{}, beat: time.Now()}
	holder, err := hold.New(hold.Config{Interface: g.settings.Interface, Addresses: g.settings.addresses, Quiet: true, Log: a.log}, a.door, a.links)
	if err != nil {
		return nil, err
	}
	e.holder = a.present(g.settings, holder, g.settings.addresses)
	return e, nil
}

// anycastTerm is how long the address outlives an agent that is dead or stopped,
// and anycastEvery how often that is put off.
const (
	anycastTerm  = 2 * time.Second
	anycastEvery = 500 * time.Millisecond
)

// run implements contender.
func (e *everywhere) run(ctx context.Context) {
	e.prepare()
	for ctx.Err() == nil {
		e.sleep(ctx, e.turn(time.Now()))
	}
	e.retreat(context.WithoutCancel(ctx))
}

func (e *everywhere) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-e.wake:
	}
}

// loopback is where addresses usually are that every machine has.
const loopback = "lo"

// prepare has the kernel ask for its neighbours by addresses of the machine's own.
// What leaves for an address of lo may leave anywhere.
func (e *everywhere) prepare() {
	name := e.group.settings.Interface
	if name == loopback {
		name = "all"
	}
	e.agent.tune(name)
	for _, a := range e.group.settings.addresses {
		if on := onLink(a); on != "" {
			e.agent.log.Warn("the address is in the network of an interface, where stations find all machines that have it; choose one of no such network",
				keyGroup, e.group.settings.Name, keyAddress, a, keyInterface, on)
		}
	}
}

// onLink is an interface whose network has the address, or "".
func onLink(a netip.Addr) string {
	all, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, i := range all {
		prefixes, err := i.Addrs()
		if err != nil || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		for _, p := range prefixes {
			n, ok := p.(*net.IPNet)
			if !ok {
				continue
			}
			if ones, bits := n.Mask.Size(); ones < bits && n.Contains(a.AsSlice()) {
				return i.Name
			}
		}
	}
	return ""
}

// turn does what is due and returns when to come again.
func (e *everywhere) turn(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beat = now
	e.faults = map[string]string{}
	name := e.group.settings.Interface
	if f := hold.Look(name, e.agent.held); f.Index == 0 || !f.Up && name != loopback {
		e.faults[faultInterface] = fmt.Sprintf("%s is missing or down; it is waited for", name)
		e.drop(stateBackup, "fault")
		return anycastEvery
	}
	if reason, _ := e.group.gate.verdict(); reason != "" {
		e.faults[faultHealth] = reason
		return e.depart(now)
	}
	e.serve(now)
	return anycastEvery
}

// serve answers, and has routers send packets here.
func (e *everywhere) serve(now time.Time) {
	if e.held && e.leaving.IsZero() && e.holder.Renew(anycastTerm) == nil {
		return
	}
	if err := e.holder.Take(now, anycastTerm); err != nil {
		e.faults[faultHold] = err.Error()
		e.drop(stateBackup, "fault")
		return
	}
	e.held, e.leaving = true, time.Time{}
	e.group.enter(e.agent, stateActive, "healthy", now)
}

// depart has routers send packets elsewhere, and answers those under way.
func (e *everywhere) depart(now time.Time) time.Duration {
	if e.held && e.leaving.IsZero() {
		e.leaving = now.Add(e.holder.withdraw())
	}
	return e.linger(now, stateBackup, "fault")
}

// linger answers until it is time to stop.
func (e *everywhere) linger(now time.Time, state, cause string) time.Duration {
	left := e.leaving.Sub(now)
	if !e.held || left <= 0 {
		e.drop(state, cause)
		return anycastEvery
	}
	if err := e.holder.Renew(anycastTerm); err != nil {
		e.drop(state, cause)
		return anycastEvery
	}
	e.group.enter(e.agent, stateYielding, cause, now)
	return min(left, anycastEvery)
}

// drop takes the address away.
func (e *everywhere) drop(state, cause string) {
	if e.held {
		if err := e.holder.Drop(); err != nil {
			e.agent.log.Warn("address not removed; the gate keeps it mute", keyGroup, e.group.settings.Name, keyError, err)
		}
	}
	e.held, e.leaving = false, time.Time{}
	e.group.enter(e.agent, state, cause, time.Now())
}

// retreat is the end: it answers until routers have found others.
func (e *everywhere) retreat(ctx context.Context) {
	e.mu.Lock()
	if e.held && e.leaving.IsZero() {
		e.leaving = time.Now().Add(e.holder.retreat())
	}
	e.mu.Unlock()
	for {
		e.mu.Lock()
		e.beat = time.Now()
		nap := e.linger(e.beat, stateInitialize, "stop")
		held := e.held
		e.mu.Unlock()
		if !held {
			return
		}
		e.sleep(ctx, nap)
	}
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
	s.tally(e.holder.Holder)
	return []GroupStatus{s}, nil
}

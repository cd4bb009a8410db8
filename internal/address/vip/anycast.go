package vip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
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
	share  share
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
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var around sync.WaitGroup
	defer around.Wait()
	defer stop()
	around.Go(func() { e.holder.Run(background) })
	e.prepare()
	for ctx.Err() == nil {
		e.sleep(ctx, e.turn(time.Now(), false))
	}
	for endless := context.WithoutCancel(ctx); e.holds(); {
		e.sleep(endless, e.turn(time.Now(), true))
	}
	e.turn(time.Now(), true)
}

func (e *everywhere) holds() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.share.held
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
func (e *everywhere) turn(now time.Time, ending bool) (nap time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beat = now
	want := e.look()
	state, cause := stateBackup, "fault"
	if ending {
		want, state, cause = min(want, unwanted), stateInitialize, "stop"
	}
	do := e.share.next(now, want)
	if do == withdraw {
		grace := e.holder.withdraw
		if ending {
			grace = e.holder.retreat
		}
		e.share.leaving = now.Add(grace())
		do = e.share.next(now, want)
	}
	switch do {
	case serve:
		e.serve(now)
	case linger:
		if e.holder.Renew(anycastTerm) == nil {
			e.group.enter(e.agent, stateYielding, cause, now)
			return min(e.share.leaving.Sub(now), anycastEvery)
		}
		e.drop(state, cause)
	default:
		e.drop(state, cause)
	}
	return anycastEvery
}

// look says whether the address is to be here, and notes why not.
func (e *everywhere) look() wish {
	e.faults = map[string]string{}
	name := e.group.settings.Interface
	if f := hold.Look(name, e.agent.held); f.Index == 0 || !f.Up && name != loopback {
		e.faults[faultInterface] = fmt.Sprintf("%s is missing or down; it is waited for", name)
		return impossible
	}
	if reason, _ := e.group.gate.verdict(); reason != "" {
		e.faults[faultHealth] = reason
		return unwanted
	}
	return wanted
}

// serve answers, and has routers send packets here.
func (e *everywhere) serve(now time.Time) {
	if e.share.held && e.share.leaving.IsZero() && e.holder.Renew(anycastTerm) == nil {
		return
	}
	if err := e.holder.Take(now, anycastTerm); err != nil {
		e.faults[faultHold] = err.Error()
		e.drop(stateBackup, "fault")
		return
	}
	e.share = share{held: true}
	e.group.enter(e.agent, stateActive, "healthy", now)
}

// drop takes the address away.
func (e *everywhere) drop(state, cause string) {
	if e.share.held {
		if err := e.holder.Drop(); err != nil {
			e.agent.log.Warn("address not removed; the gate keeps it mute", keyGroup, e.group.settings.Name, keyError, err)
		}
	}
	e.share = share{}
	e.group.enter(e.agent, state, cause, time.Now())
}

// changed implements contender.
func (e *everywhere) changed(ev link.Event) {
	if ev.Kind == link.AddressThere {
		return
	}
	if ev.Kind == link.AddressGone && slices.Contains(e.group.settings.addresses, ev.Address) {
		if err := e.holder.Mend(); err != nil {
			e.agent.log.Warn("address taken away, and not added again", keyGroup, e.group.settings.Name, keyAddress, ev.Address, keyError, err)
		}
	}
	e.nudge()
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

package vip

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// owner runs the virtual routers that move together: those of one group, or of
// all groups with one sync name. Its loop is one goroutine; everything else posts.
type owner struct {
	agent   *agent
	name    string
	groups  []*group
	members []*member
	router  *vrrp.Group
	origin  time.Time

	inbox    inbox
	beat     atomic.Int64 // when the loop last turned, since origin
	looked   time.Duration
	looking  bool // the kernel is being asked about the interfaces
	again    bool // and has to be once more
	started  bool
	stopping bool
	waiting  []chan error // for the end of a release
	priority int
	fading   atomic.Int32    // members that will stop answering in a moment
	noted    map[string]bool // what has been said
}

func (o *owner) now() time.Duration { return time.Since(o.origin) }

// run holds the groups whenever they are to be held here, until ctx ends; then
// it hands them over and returns.
func (o *owner) run(ctx context.Context) {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var around sync.WaitGroup
	defer around.Wait()
	defer stop()
	for _, m := range o.members {
		around.Go(func() { m.holder.Run(background) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for !o.ended() {
		select {
		case <-done:
			done, o.stopping = nil, true
			o.hear()
			o.perform(o.now(), o.router.Stop(o.now()))
		case <-o.inbox.wake:
		case <-timer.C:
		}
		o.turn()
		timer.Reset(o.nap())
	}
	for _, m := range o.members {
		m.shut()
		if err := m.holder.Close(); err != nil {
			o.agent.log.Warn("not everything was given back", keyGroup, m.group.settings.Name, keyError, err)
		}
	}
}

func (o *owner) ended() bool {
	if !o.stopping || o.fading.Load() > 0 {
		return false
	}
	for i := range o.members {
		if o.router.Member(i).State() != vrrp.Initialize {
			return false
		}
	}
	return true
}

// maxNap bounds a wait, so that the loop shows that it lives.
const maxNap = time.Second

func (o *owner) nap() time.Duration {
	at, ok := o.router.Next()
	if !ok {
		return maxNap
	}
	return min(max(0, at-o.now()), maxNap)
}

// lookEvery is how often the interfaces are looked at besides what the kernel
// tells: it tells of links, and not of our own addresses.
const lookEvery = time.Second

// longestProbe is how long the start waits for the probes of interfaces that may
// not be there.
const longestProbe = 5 * time.Second

// turn does all that has come up. What waits in the sockets was said in time, so
// it is heard before a timer is judged.
func (o *owner) turn() {
	for _, f := range o.inbox.take() {
		f(o.now())
	}
	if o.now()-o.looked > lookEvery || o.looked == 0 {
		o.look()
	}
	o.begin(o.now() > longestProbe)
	o.hear()
	now := o.now()
	o.beat.Store(int64(now))
	o.perform(now, o.router.Tick(now))
	o.settle()
}

// hear hands over the adverts that have arrived.
func (o *owner) hear() {
	for _, m := range o.members {
		if m.socket == nil {
			continue
		}
		_ = m.socket.Drain() // an error comes back from its Run
		for _, h := range m.socket.Take() {
			m.got++
			now := o.now()
			if h.Advert.VRID == m.router.VRID {
				m.heard = now
			}
			o.perform(now, o.router.Receive(now, m.place, h.Advert, h.Source))
		}
	}
}

// fault sets or takes back ("") a reason why a member cannot serve.
func (o *owner) fault(m *member, kind, reason string) {
	was := m.reason()
	if reason == "" {
		delete(m.faults, kind)
	} else {
		m.faults[kind] = reason
	}
	is := m.reason()
	if was == is {
		return
	}
	switch {
	case is == "":
		o.agent.log.Info("can serve", keyGroup, m.group.settings.Name, keyInterface, m.group.settings.Interface)
	case kind != faultProbe && reason != "":
		o.agent.log.Warn("cannot serve", keyGroup, m.group.settings.Name, keyInterface, m.group.settings.Interface, keyReason, is)
	}
	now := o.now()
	o.perform(now, o.router.Fault(now, m.place, is != ""))
}

// settle notes changes of state, and answers those who wait for a release.
func (o *owner) settle() {
	for _, g := range o.groups {
		state := vrrp.Active
		for _, m := range o.members {
			if m.group == g {
				state = least(state, o.router.Member(m.place).State())
			}
		}
		g.enter(o.agent, nameOf(state), g.next, time.Now())
	}
	if len(o.waiting) == 0 {
		return
	}
	var answer error
	switch s := o.router.State(); {
	case s == vrrp.Yielding:
		return
	case s == vrrp.Active:
		answer = fmt.Errorf("group %s: nobody took it over, so it stays here", o.name)
	}
	for _, w := range o.waiting {
		w <- answer
	}
	o.waiting = nil
}

// least is the lesser of two states.
func least(a, b vrrp.State) vrrp.State {
	rank := [...]int{vrrp.Initialize: 0, vrrp.Backup: 1, vrrp.Yielding: 2, vrrp.Active: 3}
	if rank[a] < rank[b] {
		return a
	}
	return b
}

package vip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/address/services"
	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
)

// publication is one address of Services, for which machines stand for election.
// lease.Agent decides, in its own loop; a publication is its lease.Actor.
type publication struct {
	publisher *publisher
	group     *group
	holder    *presence
	lease     *lease.Agent
	running   atomic.Bool
	waits     *time.Timer // for its turn
	place     int         // in the order of machines

	mu       sync.Mutex // of the group's state, and of what follows
	election services.Election
	peers    []lease.Peer
	faults   map[string]string
	ready    bool // as the lease was told
	early    bool
	unprobed string // why it is not known, or is, that a stranger has the address
	reopened uint64
	said     string // why the gate was not opened again
}

// Why a machine does not stand for election.
const (
	faultEndpoint = "endpoint"
	faultTurn     = "turn"
	faultNode     = "node"
)

// turnEvery is by how much each machine waits longer than the one before it in an
// address's order, when the address comes: a write and its news take less.
const turnEvery = 200 * time.Millisecond

// lastTurn bounds the wait where there are many machines.
const lastTurn = 5

func newPublication(p *publisher, e *services.Election, peers []lease.Peer) (*publication, error) {
	a := p.agent
	s := &GroupSettings{Name: e.Address.String(), Addresses: []string{e.Address.String()}, Interface: p.settings.Interface, Announce: p.means(e)}
	s.addresses = []netip.Addr{e.Address}
	x := &publication{publisher: p, peers: peers, faults: map[string]string{}, early: true, unprobed: "not known yet whether a stranger has it", group: &group{
		settings: s, gate: newHealthGate(s, a.log), hooks: newHooks(nil, a.log), state: stateInitialize, since: time.Now(),
	}}
	policy, err := lease.ParsePolicy(cmp.Or(p.settings.Lease.Policy, lease.Keep.String()))
	if err != nil {
		return nil, err
	}
	holder, err := hold.New(hold.Config{Interface: s.Interface, Addresses: s.addresses, Log: a.log}, a.door, a.links)
	if err != nil {
		return nil, err
	}
	x.holder = a.present(s, holder, s.addresses)
	config := lease.Config{Self: p.self.Name, Peers: peers, Duration: p.duration(), Policy: policy}
	name := p.settings.Kubernetes.Namespace + "/" + e.Name
	if x.lease, err = lease.NewAgent(config, name, p.services.Store(e.Name), p.socket, x, a.log.With(keyGroup, s.Name)); err != nil {
		return nil, err
	}
	x.lease.SetReady(false) // until it has been updated
	x.awaitTurn(e, peers)
	return x, nil
}

// awaitTurn has machines come one after the other.
func (x *publication) awaitTurn(e *services.Election, peers []lease.Peer) {
	var nodes []string
	for _, p := range peers {
		if !e.Local || slices.ContainsFunc(e.Nodes, func(n string) bool { return services.PeerName(n) == p.Name }) {
			nodes = append(nodes, p.Name)
		}
	}
	x.place = rank(x.publisher.self.Name, e.Address, nodes)
	wait := turnEvery * time.Duration(min(lastTurn, x.place))
	x.waits = time.AfterFunc(wait, func() {
		x.mu.Lock()
		x.early = false
		x.mu.Unlock()
		x.publisher.nudge()
	})
}

// update takes up what has changed: who has the address, who may answer for it,
// and what stands in this machine's way.
func (x *publication) update(e *services.Election, peers []lease.Peer, common map[string]string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.election = *e
	if !slices.Equal(x.peers, peers) {
		if err := x.lease.SetPeers(peers); err != nil {
			x.publisher.agent.log.Warn("machines not taken up", keyGroup, x.group.settings.Name, keyError, err)
		}
		x.peers = peers
	}
	faults := x.publisher.bars(e, common)
	if x.faults[faultHold] != "" {
		faults[faultHold] = x.faults[faultHold]
	}
	if x.unprobed != "" {
		faults[faultProbe] = x.unprobed
	}
	if x.early {
		faults[faultTurn] = "others come first"
	}
	x.set(faults)
}

func names(all []services.Key) string {
	var words []string
	for _, k := range all {
		words = append(words, k.String())
	}
	return strings.Join(words, ", ")
}

// set changes what stands in this machine's way. The lock is held.
func (x *publication) set(faults map[string]string) {
	x.faults = faults
	if ready := len(faults) == 0; ready != x.ready {
		x.ready = ready
		x.lease.SetReady(ready)
	}
}

// Hold implements lease.Actor.
func (x *publication) Hold(h lease.Holding) {
	left := h.Until - lease.Now()
	deadline := time.Now().Add(left)
	log := x.publisher.agent.log
	if !h.Began && !h.Lingering {
		x.publisher.renewer.renew(x.holder.Holder, renewal{deadline, x.reopen})
		return
	}
	x.publisher.renewer.revoke(x.holder.Holder)
	if !h.Began {
		x.holder.Yield()
		x.enter(stateYielding, "handed over")
		if err := x.holder.RenewUntil(deadline); err != nil {
			log.Warn("gate not renewed", keyGroup, x.group.settings.Name, keyError, err)
		}
		return
	}
	begun := time.Now()
	if err := x.holder.TakeUntil(deadline); err != nil {
		log.Warn("address not taken", keyGroup, x.group.settings.Name, keyError, err)
		x.failed(err)
		return
	}
	x.publisher.agent.stats.took(x.group.settings.Name, time.Since(begun))
	x.lease.Announced()
	x.enter(stateActive, string(h.Cause))
}

// reopen opens a gate that fell shut although the lease still says that the address
// is held here until then: somebody removed the rules, or this process was slow.
func (x *publication) reopen(until time.Time, cause error) {
	err := x.holder.TakeUntil(until)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil {
		x.reopened++
	} else if err.Error() != x.said {
		x.publisher.agent.log.Warn("gate not opened again; it is tried with each renewal", keyGroup, x.group.settings.Name, keyCause, cause, keyError, err)
	}
	x.said = ""
	if err != nil {
		x.said = err.Error()
	}
}

// failed has another machine take the address, for a while.
func (x *publication) failed(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	faults := map[string]string{faultHold: err.Error()}
	for k, v := range x.faults {
		faults[k] = v
	}
	x.set(faults)
	time.AfterFunc(retryHold, func() {
		x.mu.Lock()
		delete(x.faults, faultHold)
		x.mu.Unlock()
		x.publisher.nudge()
	})
}

// Release implements lease.Actor.
func (x *publication) Release(c lease.Cause) {
	x.publisher.renewer.revoke(x.holder.Holder)
	if err := x.holder.Drop(); err != nil {
		x.publisher.agent.log.Warn("address not removed; the gate keeps it mute", keyGroup, x.group.settings.Name, keyError, err)
	}
	x.enter(stateBackup, string(c))
}

func (x *publication) enter(state, cause string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.group.enter(x.publisher.agent, state, cause, time.Now())
}

// run stands for election until ctx ends, and then hands over.
func (x *publication) run(ctx context.Context) {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var around sync.WaitGroup
	x.enter(stateBackup, "start")
	around.Go(func() { x.holder.Run(background) })
	around.Go(func() { x.hearRivals(background) })
	around.Go(func() { x.probe(background) })
	x.running.Store(true)
	x.lease.Run(ctx)
	x.running.Store(false)
	x.waits.Stop()
	stop()
	around.Wait()
	log := x.publisher.agent.log
	if err := x.holder.Drop(); err != nil {
		log.Warn("address not removed; the gate keeps it mute", keyGroup, x.group.settings.Name, keyError, err)
	} else {
		gate, _ := x.publisher.agent.door.Gate()
		if err := gate.Forget(x.group.settings.addresses...); err != nil {
			log.Warn("address is still gated", keyGroup, x.group.settings.Name, keyError, err)
		}
	}
	x.enter(stateInitialize, "stop")
}

// probe finds out whether a stranger has the address, before it is taken for the
// first time. Who answers while the record has a holder is that holder.
func (x *publication) probe(ctx context.Context) {
	for ctx.Err() == nil {
		err := x.holder.Probe(ctx, probing)
		var used *announce.InUse
		if err != nil && !errors.As(err, &used) {
			pause(ctx, 20*time.Millisecond) // the interface is not open yet
			continue
		}
		if used == nil || x.hasHolder(ctx) {
			x.found("")
			return
		}
		x.found(used.Error())
		pause(ctx, retryProbe)
	}
}

// hasHolder says whether one of the machines has the address, by the record. One
// that answers has written so before, and news take a moment.
func (x *publication) hasHolder(ctx context.Context) bool {
	for range newsTakes / newsEvery {
		if s, err := x.lease.Status(ctx); err != nil || s.Holder != "" {
			return true
		}
		pause(ctx, newsEvery)
	}
	return false
}

// newsTakes is how late a watch may be: the API tells of a change within
// milliseconds, and a machine that is short of processors later.
const newsTakes, newsEvery = time.Second, 50 * time.Millisecond

// found takes up what a probe found. The first machine in the address's order tells
// the Services.
func (x *publication) found(stranger string) {
	x.mu.Lock()
	said := x.unprobed == stranger
	x.unprobed = stranger
	e := x.election
	x.mu.Unlock()
	x.publisher.nudge()
	if stranger == "" || said {
		return
	}
	x.publisher.agent.log.Warn("address not taken", keyGroup, x.group.settings.Name, keyError, stranger)
	if x.place == 0 {
		x.publisher.services.Warn(e.Services, services.ReasonInUse, stranger+"; take it away from that station, or ask for another address")
	}
}

// of implements post.
func (x *publication) of() *group { return x.group }

// guard implements post.
func (x *publication) guard() error { return x.holder.Guard() }

// release implements post.
func (x *publication) release(ctx context.Context, to string) error { return x.lease.Release(ctx, to) }

// alive implements post.
func (x *publication) alive() error {
	if x.running.Load() && !x.lease.Alive() {
		return fmt.Errorf("services: the loop of %s does not turn", x.group.settings.Name)
	}
	return nil
}

func (x *publication) hearRivals(ctx context.Context) {
	said := ""
	for ctx.Err() == nil {
		if err := x.holder.Hear(ctx); err != nil && err.Error() != said {
			said = err.Error()
			x.publisher.agent.log.Warn("addresses cannot be announced", keyGroup, x.group.settings.Name, keyError, said)
		}
		pause(ctx, 200*time.Millisecond)
	}
}

package vip

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/kube"
	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/address/services"
	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// publisher answers for Services of type LoadBalancer: it has a publication for
// each address that there is, and these come and go.
type publisher struct {
	agent    *agent
	settings *ServicesSettings
	services *services.Agent
	gate     *healthGate
	socket   *ask.Socket
	self     lease.Peer
	renewer  *renewer
	proxy    *proxied
	wake     chan struct{}

	mu     sync.Mutex
	beat   time.Time
	facts  hold.Facts
	faults map[string]string // of all addresses
	all    map[netip.Addr]*running
	// said are errors of addresses that cannot be answered for.
	said map[netip.Addr]string
}

// post is what sees to one address.
type post interface {
	// run sees to it until ctx ends, and then hands over.
	run(ctx context.Context)
	// update takes up who has the address, who may answer, and what stands in this
	// machine's way. It must not block.
	update(e *services.Election, peers []lease.Peer, common map[string]string)
	of() *group
	// guard gates an interface that was made anew.
	guard() error
	release(ctx context.Context, to string) error
	alive() error
	status(ctx context.Context) (ServiceStatus, error)
}

// running is a post, and what ends it.
type running struct {
	post
	end context.CancelFunc
}

func newPublisher(a *agent) (*publisher, error) {
	v := a.settings.Services
	if v.Interface == "" {
		name, err := routeTo(v.first())
		if err != nil {
			return nil, fmt.Errorf("services.interface: %w; write its name", err)
		}
		v.Interface = name
	}
	own, err := ownPrefixes(v.Interface)
	if err != nil {
		return nil, fmt.Errorf("services.interface: %w", err)
	}
	at, err := v.listenAt(own)
	if err != nil {
		return nil, fmt.Errorf("services.%w", err)
	}
	p := &publisher{
		agent: a, settings: v, self: lease.Peer{Name: services.PeerName(v.Node), Address: at}, wake: make(chan struct{}, 1),
		gate: newHealthGate(&GroupSettings{Name: "services", Health: v.Health}, a.log),
		beat: time.Now(), faults: map[string]string{}, all: map[netip.Addr]*running{}, said: map[netip.Addr]string{},
	}
	p.gate.paths = a.routing.paths
	p.proxy = newProxied(at.Addr(), p.nudge)
	p.renewer = newRenewer(p.duration())
	if p.socket, err = a.listen(at); err != nil {
		return nil, err
	}
	config := v.config()
	p.reserve(&config, own)
	p.services = services.NewAgent(services.Options{
		Config: config, Cluster: p.cluster(0), Leases: p.cluster(kube.Attempt(p.duration())),
		Namespace: v.Kubernetes.Namespace, Node: v.Node, Self: p.self, Duration: p.duration(), Changed: p.nudge, Log: a.log,
	})
	return p, nil
}

func (p *publisher) duration() time.Duration {
	if p.settings.Lease.Duration > 0 {
		return p.settings.Lease.Duration
	}
	return lease.DefaultDuration
}

// cluster is the API with so long for an attempt; 0 is the default.
func (p *publisher) cluster(attempt time.Duration) *kubeapi.Cluster {
	k := p.settings.Kubernetes
	return &kubeapi.Cluster{Kubeconfig: k.Kubeconfig, Context: k.Context, Servers: k.Servers, Attempt: attempt}
}

// reserve notes what no Service can have: addresses of groups and of this machine,
// and those of its networks that are for no machine.
func (p *publisher) reserve(c *services.Config, own []netip.Prefix) {
	for _, x := range own {
		if c.Find(x.Addr()) == nil {
			c.Taken[x.Addr()] = "machine " + p.settings.Node
		}
		network := x.Masked().Addr()
		switch {
		case x.Addr().Is4() && x.Bits() < 31:
			c.Taken[network], c.Taken[broadcast(x)] = "the network itself", "broadcasts"
		case x.Addr().Is6() && x.Bits() < 127:
			c.Taken[network] = "all routers of the network (RFC 4291, section 2.6.1)"
		}
	}
	for i := range p.agent.settings.Groups {
		g := &p.agent.settings.Groups[i]
		for _, a := range g.addresses {
			c.Taken[a] = "group " + g.Name
		}
	}
}

func (p *publisher) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run implements contender.
func (p *publisher) run(ctx context.Context) {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var around, inner sync.WaitGroup
	around.Go(func() { p.services.Run(background) })
	around.Go(func() { p.gate.run(background, p.nudge) })
	around.Go(func() { p.renewer.run(background) })
	p.agent.tune(p.settings.Interface)
	for ctx.Err() == nil {
		p.turn(ctx, &inner)
		t := time.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-p.wake:
		}
		t.Stop()
	}
	inner.Wait()
	p.proxy.close()
	stop()
	around.Wait()
}

// turn makes publications of addresses that have come, ends those of addresses
// that are gone, and tells the others what has changed.
func (p *publisher) turn(ctx context.Context, running *sync.WaitGroup) {
	p.look()
	elections, ok := p.services.Elections()
	peers, known := p.services.Peers()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat = time.Now()
	if !ok || !known {
		return // nothing is known yet
	}
	wanted := map[netip.Addr]bool{}
	var ports []int32
	for i := range elections {
		e := &elections[i]
		wanted[e.Address] = true
		ports = append(ports, e.HealthPorts...)
		x := p.all[e.Address]
		if x == nil {
			x = p.open(ctx, e, peers, running)
		}
		if x != nil {
			x.update(e, peers, p.faults)
		}
	}
	p.proxy.keep(ports)
	for a, x := range p.all {
		if !wanted[a] {
			x.end()
		}
	}
}

// open makes the publication of an address. The lock is held.
func (p *publisher) open(ctx context.Context, e *services.Election, peers []lease.Peer, all *sync.WaitGroup) *running {
	x := &running{}
	if slices.Contains(p.means(e), announceARP) {
		one, err := newPublication(p, e, peers)
		if err != nil {
			if p.said[e.Address] != err.Error() {
				p.said[e.Address] = err.Error()
				p.agent.log.Warn("address cannot be answered for; it is tried again", keyAddress, e.Address, keyError, err)
			}
			return nil
		}
		delete(p.said, e.Address)
		x.post = one
	} else {
		x.post = newBeacon(p, e)
	}
	p.all[e.Address] = x
	ctx, x.end = context.WithCancel(ctx)
	all.Go(func() {
		x.run(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.all, e.Address)
		p.nudge() // the address may have come back meanwhile
	})
	return x
}

// means is how an address is announced.
func (p *publisher) means(e *services.Election) []string {
	i := slices.IndexFunc(p.settings.Pools, func(s PoolSettings) bool { return s.Name == e.Pool })
	if i < 0 {
		return nil
	}
	return p.settings.Pools[i].Announce
}

// bars are what stands in this machine's way to answer for an address.
func (p *publisher) bars(e *services.Election, common map[string]string) map[string]string {
	bars := maps.Clone(common)
	if p.services.Excluded() {
		bars[faultNode] = "this machine's Node has the label " + services.LabelExclude
	}
	if !e.Serves(p.settings.Node) {
		bars[faultEndpoint] = "no ready endpoint of " + names(e.Services) + " on this machine"
		p.proxy.forget(e.HealthPorts)
	} else if bar := p.proxy.bar(e.HealthPorts); bar != "" {
		bars[faultProxy] = bar
	}
	return bars
}

// look takes up the facts of the interface, and what the checks say.
func (p *publisher) look() {
	name := p.settings.Interface
	f := hold.Look(name, p.agent.held)
	reason, _ := p.gate.verdict()
	p.mu.Lock()
	defer p.mu.Unlock()
	anew := f.Index != 0 && p.facts.Index != 0 && f.Index != p.facts.Index
	p.facts, p.faults = f, map[string]string{}
	switch {
	case f.Index == 0:
		p.faults[faultInterface] = fmt.Sprintf("there is none of the name %s; it is waited for", name)
	case !f.Up:
		p.faults[faultInterface] = fmt.Sprintf("%s is down or has no carrier; it is waited for", name)
	}
	if reason != "" {
		p.faults[faultHealth] = reason
	}
	if !anew {
		return
	}
	for _, x := range p.all {
		if err := x.guard(); err != nil {
			p.agent.log.Warn("interface not gated", keyInterface, name, keyError, err)
		}
	}
}

// changed implements contender.
func (p *publisher) changed(e link.Event) {
	if e.Kind != link.AddressThere {
		p.nudge()
	}
}

// ailing implements contender.
func (p *publisher) ailing(*group) { p.nudge() }

// of implements contender. A group of each address is what `release` may name.
func (p *publisher) of() []*group {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*group
	for _, x := range p.all {
		all = append(all, x.of())
	}
	return all
}

// release implements contender.
func (p *publisher) release(context.Context, string) error {
	return errors.New("name one address")
}

// releaseOne hands an address over.
func (p *publisher) releaseOne(ctx context.Context, g *group, to string) error {
	p.mu.Lock()
	x := p.all[g.settings.addresses[0]]
	p.mu.Unlock()
	if x == nil {
		return lease.ErrNotHeld
	}
	return x.release(ctx, to)
}

// alive implements contender.
func (p *publisher) alive() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := time.Since(p.beat); since > 3*maxNap {
		return fmt.Errorf("services: the loop has not turned for %s", since.Round(time.Millisecond))
	}
	for _, x := range p.all {
		if err := x.alive(); err != nil {
			return err
		}
	}
	return nil
}

// status implements contender: what there is to say is not about groups; see report.
func (p *publisher) status(context.Context) ([]GroupStatus, error) { return nil, nil }

// rank is this machine's place in the order in which machines come to answer for
// an address that nobody has: each address has an order of its own, so that they
// spread over the machines (rendezvous hashing).
func rank(self string, a netip.Addr, nodes []string) int {
	weigh := func(node string) uint64 {
		// Names that differ in the last letter have to weigh as they will: a simpler
		// hash prefers some of them.
		h := sha256.Sum256(append(a.AsSlice(), node...))
		return binary.BigEndian.Uint64(h[:])
	}
	own, n := weigh(self), 0
	for _, node := range nodes {
		if w := weigh(node); node != self && (w > own || w == own && strings.Compare(node, self) < 0) {
			n++
		}
	}
	return n
}

// ownPrefixes are the addresses of an interface that this machine's own
// configuration gave it.
func ownPrefixes(name string) ([]netip.Prefix, error) {
	h, err := link.Open()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	all, err := h.Interfaces()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(x link.Interface) bool { return x.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s: %w", name, link.ErrNoInterface)
	}
	entries, err := h.List()
	if err != nil {
		return nil, err
	}
	var own []netip.Prefix
	for _, e := range entries {
		if e.Index == all[i].Index && !e.Ours() {
			own = append(own, e.Prefix)
		}
	}
	return own, nil
}

func broadcast(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// leftOfServices are addresses of pools that an earlier run left on this machine.
func (a *agent) leftOfServices() []netip.Addr {
	if a.settings.Services == nil {
		return nil
	}
	entries, err := a.links.List()
	if err != nil {
		return nil // which the caller will find as well
	}
	c := a.settings.Services.config()
	var left []netip.Addr
	for _, e := range entries {
		if e.Ours() && c.Find(e.Prefix.Addr()) != nil {
			left = append(left, e.Prefix.Addr())
		}
	}
	return left
}

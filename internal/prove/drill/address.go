package drill

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

const (
	// lookAtAddressEvery is how often each machine is looked at for the address.
	lookAtAddressEvery = 20 * time.Millisecond
	// heldWithin bounds how long the first machine may take to answer for it, and
	// the others to know that: keepalived listens for three adverts first.
	heldWithin = 20 * time.Second
)

// observerMAC is the station in whose name the observer asks: locally
// administered, and nobody's.
var observerMAC = net.HardwareAddr{0x02, 0x68, 0x66, 0x64, 0x72, 0x01}

// heldAddress is the address of a case with vip: .100 on the link of its site.
func (e *engine) heldAddress() netip.Addr {
	if e.anycast() {
		return anycastAddress
	}
	node, err := e.lab.Node(e.c.VIP.Nodes[0])
	if err != nil {
		return netip.Addr{}
	}
	b := node.IP().As4()
	b[3] = 100
	return netip.AddrFrom4(b)
}

// hasAddress says whether the case has an address that one machine holds.
func (e *engine) hasAddress() bool { return len(e.c.VIP.Nodes) > 0 && !e.c.VIP.Anycast() }

// startAddress has every machine answer, the first hold the address and the
// others stand by.
func (e *engine) startAddress(ctx context.Context) error {
	if e.anycast() {
		return e.startAnycast(ctx)
	}
	if !e.hasAddress() {
		return nil
	}
	if err := e.makeSockets(); err != nil {
		return err
	}
	if err := e.makeStations(ctx); err != nil {
		return err
	}
	if err := e.watchAddress(); err != nil {
		return err
	}
	if err := e.startAgents(ctx, scenario.AgentFront); err != nil {
		return err
	}
	for i, name := range e.c.VIP.Nodes {
		p := scenario.NodeAgent(scenario.AgentVIP, name)
		if err := e.startAgent(ctx, p); err != nil {
			return err
		}
		if err := e.awaitReady(ctx, p); err != nil {
			return err
		}
		if err := e.awaitStanding(ctx, p); err != nil {
			return err
		}
		if i == 0 && !until(ctx, heldWithin, func() bool { return e.holder() == name }) {
			return fmt.Errorf("%s does not answer for %s within %s; see logs/%s.log", name, e.heldAddress(), heldWithin, agentName(p))
		}
	}
	return nil
}

// makeStations has every machine answer at whatever addresses it has.
func (e *engine) makeStations(ctx context.Context) error {
	for _, name := range e.c.VIP.Nodes {
		node, err := e.lab.Node(name)
		if err != nil {
			return err
		}
		if err := startStation(ctx, node, e.exe); err != nil {
			return err
		}
	}
	return nil
}

// holder is the machine that answers for the address, "" when none does or more
// than one.
func (e *engine) holder() string {
	all := e.answering()
	if len(all) != 1 {
		return ""
	}
	return all[0]
}

func (e *engine) answering() []string {
	e.watchers.mu.Lock()
	defer e.watchers.mu.Unlock()
	return e.watchers.spells.answering()
}

// displaced says in words that the address is not where the case begins.
func (e *engine) displaced() string {
	if !e.hasAddress() {
		return ""
	}
	if first := e.c.VIP.Nodes[0]; e.holder() != first {
		return fmt.Sprintf("%s answers for the address, and not %s alone", strings.Join(e.answering(), "+"), first)
	}
	return ""
}

// watchAddress asks on the link who answers for the address and looks at the
// machines for it, until the watchers stop.
func (e *engine) watchAddress() error {
	client, err := e.lab.Node(e.c.ClientNode(e.c.VIP.Site()))
	if err != nil {
		return err
	}
	if e.macs, err = e.machines(); err != nil {
		return err
	}
	var socket *os.File
	err = client.Do(func() (err error) {
		socket, err = openARP(client.Interface())
		return err
	})
	if err != nil {
		return err
	}
	w := e.watchers
	context.AfterFunc(w.ctx, func() { _ = socket.Close() })
	w.done.Go(func() { e.askAddress(w.ctx, socket) })
	w.done.Go(func() { e.hearAddress(socket) })
	for _, name := range e.c.VIP.Nodes {
		node, err := e.lab.Node(name)
		if err != nil {
			return err
		}
		w.done.Go(func() { e.lookForAddress(w.ctx, node) })
	}
	return nil
}

// machines maps the MAC addresses of those that may hold the address to them.
func (e *engine) machines() (map[string]string, error) {
	macs := map[string]string{}
	for _, name := range e.c.VIP.Nodes {
		node, err := e.lab.Node(name)
		if err != nil {
			return nil, err
		}
		mac, err := node.HardwareAddr()
		if err != nil {
			return nil, err
		}
		macs[mac.String()] = name
	}
	return macs, nil
}

// askAddress asks who has the address until ctx ends, and ends the spells of who
// does not answer any more.
func (e *engine) askAddress(ctx context.Context, socket *os.File) {
	question := arpQuestion(observerMAC, e.heldAddress())
	tick := time.NewTicker(askAddressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, _ = socket.Write(question)
		e.tellSpells((*spells).asked)
	}
}

func (e *engine) hearAddress(socket *os.File) {
	b := make([]byte, 256)
	for {
		n, err := socket.Read(b)
		if err != nil {
			return // closed
		}
		answer, err := parseARPAnswer(b[:n], observerMAC)
		if err != nil || answer.addr != e.heldAddress() {
			continue
		}
		node, known := e.macs[answer.mac.String()]
		if !known {
			node = answer.mac.String()
		}
		e.tellSpells(func(s *spells) []record.Event { return s.heard(node, e.clock.now()) })
	}
}

func (e *engine) tellSpells(f func(*spells) []record.Event) {
	e.watchers.mu.Lock()
	events := f(e.watchers.spells)
	e.watchers.mu.Unlock()
	for _, ev := range events {
		e.w.Event(ev)
	}
}

// lookForAddress records when the address comes to a machine's interface and when
// it goes.
func (e *engine) lookForAddress(ctx context.Context, node *lab.Node) {
	tick := time.NewTicker(lookAtAddressEvery)
	defer tick.Stop()
	for had := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		has, err := node.Has(e.heldAddress())
		if err != nil || has == had {
			continue
		}
		had = has
		ev := record.Event{
			At: e.clock.now(), Source: "observer", Kind: record.KindAddressOn, Keys: map[string]string{"node": node.Name()},
			Message: "the address is on " + node.Name(),
		}
		if !has {
			ev.Kind, ev.Message = record.KindAddressOff, "the address is not on "+node.Name()+" any more"
		}
		e.w.Event(ev)
	}
}

// noteNeighbours records what the clients on the link and its router believe of
// the address, at the end of the fault and of the run.
func (e *engine) noteNeighbours(ctx context.Context) {
	if !e.hasAddress() || e.watchers == nil {
		return
	}
	until(ctx, time.Second, func() bool { return len(e.answering()) > 0 })
	site := e.c.VIP.Site()
	believe := map[string]string{}
	if mac, err := e.lab.RouterNeighbor(site, e.heldAddress()); err == nil {
		believe["router "+site] = mac
	}
	if client, err := e.lab.Node(e.c.ClientNode(site)); err == nil {
		if mac, err := client.Neighbor(e.heldAddress()); err == nil {
			believe[client.Name()] = mac
		}
	}
	answering := e.answering()
	for who, mac := range believe {
		node := mac
		if name, known := e.macs[mac]; known {
			node = name
		}
		e.w.Event(neighbourEvent(e.clock.now(), who, node, answering))
	}
}

// forget takes from machines what a loss of power takes, before they come back.
func (e *engine) forget(nodes []string) error {
	for _, name := range nodes {
		node, err := e.lab.Node(name)
		if err != nil {
			return err
		}
		if err := node.Forget(); err != nil {
			return err
		}
	}
	return nil
}

// holderWords say who holds the address in a run, and by which timers.
func holderWords(c *scenario.Case, agents bool) string {
	v := c.VIP
	switch {
	case agents && v.Mode == scenario.ModeLease:
		return fmt.Sprintf("`holdfast vip` by a lease in %s with its defaults, policy %s", v.Record, v.Policy)
	case agents:
		return fmt.Sprintf("`holdfast vip` by VRRP with adverts every %s", v.Interval)
	}
	if v.ByElection() {
		t := v.ElectionTimers()
		return fmt.Sprintf("client-go's leader election by a Lease of %s, deadline %s, retry %s, announced every %s", t.Duration, t.Renew, t.Retry, t.Announce)
	}
	words := fmt.Sprintf("keepalived with adverts every %s", v.PeerAdvert())
	if v.Health != "" {
		words += " and a check every 3s, of which 3 have to fail"
	}
	return words
}

package vip

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	randv2 "math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/etcd"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/kube"
	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// tenant holds a group by lease. lease.Agent decides, in its own loop; a tenant
// is its lease.Actor.
type tenant struct {
	agent  *agent
	group  *group
	holder *presence
	lease  *lease.Agent
	socket *ask.Socket
	store  lease.Store
	stop   func() // of what the store needs

	mu     sync.Mutex // of the group's state, and of what follows
	faults map[string]string
	facts  hold.Facts
	// reopened counts gates that fell shut while the group was held; said is why
	// one was not opened again.
	reopened uint64
	said     string
}

// keyLength of what peers sign with is that of the HMAC's hash.
const keyLength = 32

func newTenant(a *agent, g *group) (*tenant, error) {
	t := &tenant{agent: a, group: g, faults: map[string]string{faultInterface: "not looked at yet"}, stop: func() {}}
	if reason, _ := g.gate.verdict(); reason != "" {
		t.faults[faultHealth] = reason
	}
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	own := slices.IndexFunc(config.Peers, func(p lease.Peer) bool { return p.Name == config.Self })
	holder, err := hold.New(hold.Config{
		Interface: g.settings.Interface, Addresses: g.settings.addresses, Log: a.log,
		Quiet: !g.settings.announces(announceARP),
	}, a.door, a.links)
	if err != nil {
		return nil, err
	}
	t.holder = a.present(g.settings, holder, g.settings.addresses)
	name, err := t.openStore(config)
	if err != nil {
		return nil, err
	}
	if t.socket, err = a.listen(config.Peers[own].Address); err != nil {
		t.stop()
		return nil, err
	}
	if t.lease, err = lease.NewAgent(config, name, t.store, t.socket, t, a.log.With(keyGroup, g.settings.Name)); err != nil {
		t.stop()
		return nil, err
	}
	t.lease.SetReady(false) // until it has been looked at
	return t, nil
}

// config fills in what is random, and the key.
func (t *tenant) config() (lease.Config, error) {
	l := t.group.settings.Lease
	c, err := l.config()
	if err != nil {
		return c, err
	}
	c.Incarnation = 1 + randv2.Uint64N(math.MaxUint64)
	c.FreshKey = make([]byte, keyLength)
	if _, err := rand.Read(c.FreshKey); err != nil {
		return c, fmt.Errorf("make key: %w", err)
	}
	if l.KeyFile == "" {
		return c, nil
	}
	key, err := os.ReadFile(l.KeyFile)
	if err != nil {
		return c, fmt.Errorf("lease.keyFile: %w", err)
	}
	if c.Key = []byte(strings.TrimSpace(string(key))); len(c.Key) < keyLength/2 {
		return c, fmt.Errorf("lease.keyFile: %s has %d bytes; write at least %d random ones", l.KeyFile, len(c.Key), keyLength/2)
	}
	return c, nil
}

// openStore opens what keeps the record, and returns the name of the record to
// all peers alike.
func (t *tenant) openStore(c lease.Config) (name string, err error) {
	l := t.group.settings.Lease
	if k := l.Kubernetes; k != nil {
		duration := cmp.Or(c.Duration, lease.DefaultDuration)
		t.store = &kube.Store{
			Cluster:   &kubeapi.Cluster{Kubeconfig: k.Kubeconfig, Context: k.Context, Servers: k.Servers, Attempt: kube.Attempt(duration)},
			Namespace: k.Namespace, Name: k.Name,
		}
		return k.Namespace + "/" + k.Name, nil
	}
	e := l.Etcd
	config := clientv3.Config{Endpoints: e.Endpoints, DialTimeout: 2 * time.Second, Logger: zap.NewNop()}
	if e.CA != "" || e.Cert != "" {
		if config.TLS, err = (creds.Files{CA: e.CA, Cert: e.Cert, Key: e.Key}).Client(""); err != nil {
			return "", fmt.Errorf("lease.etcd: %w", err)
		}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return "", fmt.Errorf("lease.etcd: %w", err)
	}
	t.stop = func() { _ = client.Close() }
	t.store = &etcd.Store{Client: client, Key: e.Record}
	return e.Record, nil
}

// listen opens the socket of an address, which groups may share.
func (a *agent) listen(at netip.AddrPort) (*ask.Socket, error) {
	if s := a.sockets[at]; s != nil {
		return s, nil
	}
	s, err := ask.Listen(at)
	if err != nil {
		return nil, err
	}
	if a.sockets == nil {
		a.sockets = map[netip.AddrPort]*ask.Socket{}
	}
	a.sockets[at] = s
	return s, nil
}

// Hold implements lease.Actor.
func (t *tenant) Hold(h lease.Holding) {
	left := h.Until - lease.Now()
	deadline := time.Now().Add(left)
	if !h.Began {
		if h.Lingering {
			t.holder.Yield()
			t.enter(stateYielding, "handed over")
		}
		if err := t.holder.RenewUntil(deadline); err != nil {
			t.reopen(h, deadline, err)
		}
		return
	}
	begun := time.Now()
	if err := t.holder.TakeUntil(deadline); err != nil {
		t.agent.log.Warn("address not taken", keyGroup, t.group.settings.Name, keyError, err)
		t.fault(faultHold, err.Error())
		time.AfterFunc(retryHold, func() { t.fault(faultHold, "") })
		return
	}
	t.agent.stats.took(t.group.settings.Name, time.Since(begun))
	t.lease.Announced()
	t.enter(stateActive, string(h.Cause))
}

// reopen opens a gate that fell shut although the lease still says that the address
// is held here until then: somebody removed the rules, or this process was slow.
func (t *tenant) reopen(h lease.Holding, deadline time.Time, cause error) {
	err := cause
	if !h.Lingering {
		err = t.holder.TakeUntil(deadline)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.reopened++
	} else if err.Error() != t.said {
		t.agent.log.Warn("gate not opened again; it is tried with each renewal", keyGroup, t.group.settings.Name, keyCause, cause, keyError, err)
	}
	t.said = ""
	if err != nil {
		t.said = err.Error()
	}
}

// Release implements lease.Actor.
func (t *tenant) Release(c lease.Cause) {
	if err := t.holder.Drop(); err != nil {
		t.agent.log.Warn("address not removed; the gate keeps it mute", keyGroup, t.group.settings.Name, keyError, err)
	}
	t.enter(stateBackup, string(c))
}

func (t *tenant) enter(state, cause string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.group.enter(t.agent, state, cause, time.Now())
}

// fault sets or takes back ("") a reason why this machine cannot serve.
func (t *tenant) fault(kind, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := len(t.faults)
	if reason == "" {
		delete(t.faults, kind)
	} else if t.faults[kind] != reason {
		t.faults[kind] = reason
		t.agent.log.Warn("cannot serve", keyGroup, t.group.settings.Name, keyReason, kind+": "+reason)
	}
	if was != len(t.faults) {
		t.lease.SetReady(len(t.faults) == 0)
	}
}

// run implements contender.
func (t *tenant) run(ctx context.Context) {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var around sync.WaitGroup
	t.enter(stateBackup, "start")
	around.Go(func() { t.holder.Run(background) })
	around.Go(func() { t.hearRivals(background) })
	around.Go(func() {
		for background.Err() == nil {
			t.look()
			pause(background, lookEvery)
		}
	})
	t.lease.Run(ctx)
	stop()
	around.Wait()
	_ = t.holder.Drop()
	t.enter(stateInitialize, "stop")
	t.stop()
}

func (t *tenant) hearRivals(ctx context.Context) {
	said := ""
	for ctx.Err() == nil {
		if err := t.holder.Hear(ctx); err != nil && err.Error() != said {
			said = err.Error()
			t.agent.log.Warn("addresses cannot be announced", keyGroup, t.group.settings.Name, keyError, said)
		}
		pause(ctx, 200*time.Millisecond)
	}
}

func (t *tenant) look() {
	name := t.group.settings.Interface
	f := hold.Look(name, t.agent.held)
	t.mu.Lock()
	anew := f.Index != 0 && f.Index != t.facts.Index
	t.facts = f
	t.mu.Unlock()
	if anew {
		t.agent.tune(name)
		if err := t.holder.Guard(); err != nil {
			t.agent.log.Warn("interface not gated", keyInterface, name, keyError, err)
		}
	}
	switch {
	case f.Index == 0:
		t.fault(faultInterface, fmt.Sprintf("there is none of the name %s; it is waited for", name))
	case !f.Up:
		t.fault(faultInterface, fmt.Sprintf("%s is down or has no carrier; it is waited for", name))
	default:
		t.fault(faultInterface, "")
	}
}

// changed implements contender.
func (t *tenant) changed(e link.Event) {
	switch {
	case e.Kind == link.AddressThere:
	case e.Kind == link.AddressGone:
		if slices.Contains(t.group.settings.addresses, e.Address) {
			if err := t.holder.Mend(); err != nil {
				t.agent.log.Warn("address taken away, and not added again", keyGroup, t.group.settings.Name, keyAddress, e.Address, keyError, err)
			}
		}
	default:
		t.look()
	}
}

// ailing implements contender.
func (t *tenant) ailing(g *group) {
	reason, _ := g.gate.verdict()
	t.fault(faultHealth, reason)
}

// release implements contender.
func (t *tenant) release(ctx context.Context, to string) error {
	if err := t.lease.Release(ctx, to); err != nil {
		return fmt.Errorf("group %s: %w", t.group.settings.Name, err)
	}
	return nil
}

// alive implements contender.
func (t *tenant) alive() error {
	if !t.lease.Alive() {
		return errors.New("group " + t.group.settings.Name + ": the loop of the lease does not turn")
	}
	return nil
}

// of implements contender.
func (t *tenant) of() []*group { return []*group{t.group} }

// status implements contender.
func (t *tenant) status(ctx context.Context) ([]GroupStatus, error) {
	l, err := t.lease.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", t.group.settings.Name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.group.status("lease")
	s.Holder, s.LeaseAgeMS = l.Holder, l.Unchanged.Milliseconds()
	s.Fault = reasons(t.faults)
	if l.Foreign != "" {
		s.Fault = strings.TrimPrefix(s.Fault+"; record: "+l.Foreign, "; ")
	}
	s.Contact, s.APIError, s.Reopened = l.Contact > 0, l.APIError, t.reopened
	s.tally(t.holder.Holder)
	return []GroupStatus{s}, nil
}

package services

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/kube"
	baselease "github.com/holdfast-ha/holdfast/internal/base/lease"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/loop"
)

// AllocatorLease is the name of the Lease of whoever gives addresses.
const AllocatorLease = "holdfast-services"

// allocatorDuration is how long new Services wait for an address when the machine
// that gives them dies. It costs a write every 1.7 s.
const allocatorDuration = 5 * time.Second

// Options are what an Agent needs.
type Options struct {
	Config Config
	// Cluster is the API; Leases is as well, with the short attempts that holders
	// need (kube.Attempt).
	Cluster, Leases *kubeapi.Cluster
	// Namespace of all Leases, and Duration of those of addresses.
	Namespace string
	Duration  time.Duration
	// Node is this machine's name in Kubernetes, Self how the others reach it.
	Node string
	Self lease.Peer
	// Changed is told when what is to be announced may have changed, from any
	// goroutine; it must not block.
	Changed func()
	Log     *slog.Logger
}

// Agent follows Services and gives them addresses. Whoever announces them asks it
// for Elections and Peers.
type Agent struct {
	options   Options
	view      *view
	members   *members
	shared    *kube.Shared
	allocator *allocator
	sweeper   *sweeper
	events    *kubeapi.Events
	loop      *loop.Loop
	cond      troubles

	mu     sync.Mutex
	plan   Plan
	acting bool
}

// NewAgent makes an Agent; Run runs it.
func NewAgent(o Options) *Agent {
	a := &Agent{options: o, cond: troubles{log: o.Log, all: map[string]error{}}}
	// A pass is made when something changes; the period looks after what was put
	// off, and after Leases that nobody needs.
	a.loop = &loop.Loop{Name: "services", Log: o.Log, Period: 30 * time.Second, Jitter: 0.1, Backoff: loop.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}}
	nudge := func() { o.Changed(); a.loop.Nudge() }
	a.view = newView(nudge)
	a.members = &members{cluster: o.Cluster, namespace: o.Namespace, self: o.Self, report: a.cond.set("member leases"), changed: nudge}
	a.shared = &kube.Shared{Cluster: o.Leases, Namespace: o.Namespace, Label: Label, Value: valueElection, Report: a.cond.set("address leases")}
	a.events = &kubeapi.Events{Client: o.Cluster.Client, Component: "holdfast-services", Instance: o.Node, Report: a.cond.set("events")}
	a.allocator = &allocator{
		config: &a.options.Config, view: a.view, events: a.events, log: o.Log, said: map[string][]string{}, opened: a.open,
		client: func() (api, error) { return o.Cluster.Client() },
		lock:   &baselease.Lock{Client: o.Cluster.Client, Namespace: o.Namespace, Name: AllocatorLease, Duration: allocatorDuration, Identity: baselease.NewIdentity(o.Self.Name)},
	}
	a.sweeper = &sweeper{remove: a.remove, log: o.Log}
	return a
}

// Run follows and decides until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() {
		_ = (&kubeapi.Follower[Service]{
			Connect: a.options.Cluster.Connect, Path: "/api/v1/services", Report: a.cond.set("services"),
			Replace: a.view.replaceServices, Apply: a.view.applyService,
		}).Run(ctx)
	})
	all.Go(func() {
		_ = (&kubeapi.Follower[Slice]{
			Connect: a.options.Cluster.Connect, Path: "/apis/discovery.k8s.io/v1/endpointslices", Report: a.cond.set("endpointslices"),
			// As kube-proxy selects them.
			Selector: "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name",
			Replace:  a.view.replaceSlices, Apply: a.view.applySlice,
		}).Run(ctx)
	})
	all.Go(func() {
		_ = (&kubeapi.Follower[node]{
			Connect: a.options.Cluster.Connect, Path: "/api/v1/nodes", Metadata: true, Report: a.nodeRead,
			Fields: "metadata.name=" + a.options.Node, Replace: a.view.replaceNode, Apply: a.view.applyNode,
		}).Run(ctx)
	})
	all.Go(func() { a.members.run(ctx) })
	all.Go(func() { a.shared.Run(ctx) })
	all.Go(func() { a.events.Run(ctx) })
	all.Go(func() {
		a.allocator.lock.Keep(ctx, func(held bool) {
			a.options.Log.Info("allocator", "acting", held)
			a.loop.Nudge()
		}, a.cond.set("allocator lease"))
	})
	_ = a.loop.Run(ctx, a.pass)
	all.Wait()
}

func (a *Agent) pass(ctx context.Context) error {
	if !a.view.complete() {
		return nil // nothing is decided upon half a world
	}
	plan, acting, err := a.allocator.pass(ctx)
	a.mu.Lock()
	a.plan, a.acting = plan, acting
	a.mu.Unlock()
	if acting {
		err = errors.Join(err, a.sweep(ctx))
	}
	return err
}

// open makes the record of an address that is about to be given to a Service, so
// that the first machine need not wait for somebody who may have held it when the
// record was deleted: nobody can have. A record that is there already is left.
func (a *Agent) open(ctx context.Context, addr netip.Addr) {
	name := nameOf(addr)
	records, listed := a.shared.Seen()
	peers, known := a.members.peers()
	if _, there := records[name]; there || !listed || !known {
		return
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // which cannot fail
	record := lease.Record{Mark: lease.Mark{Incarnation: 1, Serial: 1}, Duration: a.options.Duration, Peers: peers, Key: key}
	if _, err := a.shared.Store(name).Write(ctx, record, 0); err != nil && !errors.Is(err, lease.ErrConflict) {
		a.options.Log.Info("record not made ahead; whoever comes first makes it", keyLease, name, keyError, err)
	}
}

func (a *Agent) remove(ctx context.Context, name, version string) error {
	client, err := a.options.Cluster.Client()
	if err != nil {
		return err
	}
	return client.Delete(ctx, leases(a.options.Namespace)+"/"+url.PathEscape(name), kubeapi.Preconditions{ResourceVersion: version})
}

func (a *Agent) sweep(ctx context.Context) error {
	records, ok := a.shared.Seen()
	if !ok {
		return nil
	}
	elections, _ := a.Elections()
	needed, found := map[string]bool{}, map[string]seenLease{}
	for _, e := range elections {
		needed[e.Name] = true
	}
	for name, s := range records {
		found[name] = seenLease{version: s.Version, free: s.Record.Holder == "" && !s.Record.Fresh && s.Foreign == ""}
	}
	return a.sweeper.sweep(ctx, a.members, needed, found)
}

// Elections are the addresses that there are; false before all has been read once.
func (a *Agent) Elections() ([]Election, bool) {
	if !a.view.complete() {
		return nil, false
	}
	all, ready := a.view.snapshot()
	return Elect(&a.options.Config, all, ready), true
}

// nodeRead notes whether this machine's Node can be read. Without the right to, as
// after an upgrade with the rights of before, it is not taken to be excluded.
func (a *Agent) nodeRead(err error) {
	a.cond.set("nodes")(err)
	if kubeapi.Code(err) == http.StatusForbidden {
		a.view.replaceNode(nil)
	}
}

// Excluded says that this machine's Node has LabelExclude.
func (a *Agent) Excluded() bool {
	a.view.mu.Lock()
	defer a.view.mu.Unlock()
	return a.view.excluded
}

// Peers are the machines that may answer for an address, this one among them;
// false before they have been read once.
func (a *Agent) Peers() ([]lease.Peer, bool) { return a.members.peers() }

// Store keeps the record of an election.
func (a *Agent) Store(name string) lease.Store { return a.shared.Store(name) }

// Warn says something about Services on them, for `kubectl describe`.
func (a *Agent) Warn(about []Key, reason, message string) {
	all, _ := a.view.snapshot()
	for i := range all {
		if slices.Contains(about, all[i].Metadata.Key()) {
			a.events.Record(all[i].Reference(), kubeapi.Warning, reason, message)
		}
	}
}

// Status is what an Agent knows.
type Status struct {
	// Allocator is who gives addresses, as far as is known.
	Allocator string `json:"allocator,omitempty"`
	// Acting: it is this machine. Pools and Pending are known to it alone.
	Acting  bool      `json:"acting"`
	Pools   []Use     `json:"pools,omitempty"`
	Pending []Pending `json:"pending,omitempty"`
	// Troubles are why the API does not say or take what it should.
	Troubles []string `json:"troubles,omitempty"`
}

// Status returns it.
func (a *Agent) Status() Status {
	holder, _, _ := strings.Cut(a.allocator.lock.Holder(), "_") // see baselease.NewIdentity
	a.mu.Lock()
	defer a.mu.Unlock()
	return Status{Allocator: holder, Acting: a.acting, Pools: a.plan.Pools, Pending: a.plan.Pending, Troubles: a.cond.list()}
}

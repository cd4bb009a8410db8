package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/etcd"
	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/kube"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// electors are three contenders for one address that each reach the store through
// their own site. What the kernel would let through is played by whoever holds it
// until when, by the one clock that all share.
type electors struct {
	*mirrored
	outer   *testing.T // not that of a step, which changes
	agents  map[string]*lease.Agent
	sockets map[string]*ask.Socket
	ways    map[string]*way
	stops   []func()

	mu      sync.Mutex
	holding map[string]lease.Holding
	moves   []string
	// gap is from when the last holder's time was over, or it let go, to when the
	// next began; negative where they overlapped.
	gap   time.Duration
	ended time.Duration
}

// way is a site's way to the store, which a test can block.
type way struct {
	lease.Store
	mu      sync.Mutex
	blocked bool
}

func (w *way) block(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocked = on
}

func (w *way) wait(ctx context.Context) error {
	w.mu.Lock()
	blocked := w.blocked
	w.mu.Unlock()
	if blocked {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (w *way) Read(ctx context.Context) (lease.Seen, error) {
	if err := w.wait(ctx); err != nil {
		return lease.Seen{}, err
	}
	return w.Store.Read(ctx)
}

func (w *way) Write(ctx context.Context, r lease.Record, version uint64) (lease.Seen, error) {
	if err := w.wait(ctx); err != nil {
		return lease.Seen{}, err
	}
	return w.Store.Write(ctx, r, version)
}

func (w *way) Watch(ctx context.Context, tell func(lease.Seen)) {
	w.Store.Watch(ctx, func(s lease.Seen) {
		w.mu.Lock()
		blocked := w.blocked
		w.mu.Unlock()
		if !blocked {
			tell(s)
		}
	})
}

// actor is one contender's.
type actor struct {
	*electors
	name string
}

func (a *actor) Hold(h lease.Holding) {
	now := lease.Now()
	a.electors.mu.Lock()
	defer a.electors.mu.Unlock()
	for name, o := range a.holding {
		if name != a.name && !h.Lingering && !o.Lingering && o.Until > now {
			a.outer.Errorf("%s holds the address, and %s does for another %v", a.name, name, o.Until-now)
		}
	}
	a.holding[a.name] = h
	if h.Began {
		a.moves = append(a.moves, fmt.Sprintf("%s (%s)", a.name, h.Cause))
		a.gap = now - a.ended
		a.electors.agents[a.name].Announced()
	}
}

func (a *actor) Release(lease.Cause) {
	a.electors.mu.Lock()
	defer a.electors.mu.Unlock()
	a.ended = min(lease.Now(), a.holding[a.name].Until)
	delete(a.holding, a.name)
	for _, o := range a.holding {
		if o.Until > lease.Now() {
			a.gap = -1 // another answers already
		}
	}
}

func (e *electors) holder() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, h := range e.holding {
		if !h.Lingering && h.Until > lease.Now() {
			return name
		}
	}
	return ""
}

func (e *electors) moved() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.moves)
}

// elect starts the contenders with the defaults.
func (m *mirrored) elect(store func(site string) lease.Store) *electors {
	m.t.Helper()
	e := &electors{
		mirrored: m, outer: m.t, agents: map[string]*lease.Agent{}, sockets: map[string]*ask.Socket{}, ways: map[string]*way{},
		holding: map[string]lease.Holding{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.stops = append(e.stops, cancel)
	var peers []lease.Peer
	for _, site := range sites {
		s, err := ask.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
		if err != nil {
			m.t.Fatal(err)
		}
		go func() { _ = s.Serve(ctx) }()
		e.sockets[site] = s
		peers = append(peers, lease.Peer{Name: site, Address: s.Address()})
	}
	for i, site := range sites {
		e.ways[site] = &way{Store: store(site)}
		config := lease.Config{Self: site, Peers: peers, Incarnation: uint64(i + 1), FreshKey: []byte("0123456789abcdef")}
		agent, err := lease.NewAgent(config, "test/address", e.ways[site], e.sockets[site], &actor{e, site}, slog.New(slog.DiscardHandler))
		if err != nil {
			m.t.Fatal(err)
		}
		e.agents[site] = agent
	}
	for _, agent := range e.agents {
		run, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() { defer close(ended); agent.Run(run) }()
		e.stops = append(e.stops, func() { stop(); <-ended })
	}
	return e
}

func (e *electors) stop() {
	for i := len(e.stops) - 1; i >= 0; i-- {
		e.stops[i]()
	}
}

// settled waits until somebody holds it and has heard its peers.
func (e *electors) settled() (holder string) {
	e.t.Helper()
	e.until("somebody holds the address and has heard that the others could", 30*time.Second, func() error {
		if holder = e.holder(); holder == "" {
			return fmt.Errorf("nobody holds it")
		}
		s, err := e.agents[holder].Status(e.t.Context())
		if err != nil {
			return err
		}
		for _, p := range s.Peers {
			if !p.Ready || !p.Reached || p.Age > 2*time.Second {
				return fmt.Errorf("%s: %+v", holder, p)
			}
		}
		return nil
	})
	return holder
}

func (e *electors) passes(from string) (took time.Duration) {
	e.t.Helper()
	began := lease.Now()
	e.until("another holds it", 20*time.Second, func() error {
		if h := e.holder(); h == "" || h == from {
			return fmt.Errorf("%q holds it", h)
		}
		return nil
	})
	return lease.Now() - began
}

// during lets d pass, and wants the address to stay all the time.
func (e *electors) during(d time.Duration, holder string) {
	e.t.Helper()
	before, end := e.moved(), lease.Now()+d
	e.until("the time is over", d+10*time.Second, func() error {
		if h := e.holder(); h != holder || e.moved() != before {
			e.t.Fatalf("%q holds it after %v", h, e.moves)
		}
		if lease.Now() < end {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}

// handsOver releases the address; the old one answers until the new one does.
func (e *electors) handsOver() {
	e.t.Helper()
	holder := e.settled()
	began := lease.Now()
	if err := e.agents[holder].Release(e.t.Context(), ""); err != nil {
		e.t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gap != -1 {
		e.t.Errorf("between the old holder and the new there were %v", e.gap)
	}
	e.t.Logf("handed over within %v, without a gap", (lease.Now() - began).Round(time.Millisecond))
}

// silent has the holder vanish: it reaches neither the API nor its peers, and
// nobody is told.
func (e *electors) silent() {
	e.t.Helper()
	holder := e.settled()
	e.ways[holder].block(true)
	e.sockets[holder].Join("test/address", nil)
	took := e.passes(holder)
	e.t.Logf("a silent holder is replaced after %v; its own time was over %v before", took.Round(time.Millisecond), e.gap.Round(time.Millisecond))
	if took > 3*time.Second {
		e.t.Errorf("more than 3 s")
	}
}

func TestAddressLease(t *testing.T) {
	m := startMirrored(t)
	e := m.elect(func(site string) lease.Store {
		a := m.apiserver(site)
		return &kube.Store{
			Namespace: "kube-system", Name: "address",
			Cluster: &kubeapi.Cluster{
				Kubeconfig: a.PKI().AdminConf, Servers: []string{a.URL()}, Dial: a.Node().DialContext,
				Attempt: kube.Attempt(lease.DefaultDuration),
			},
		}
	})
	defer e.stop()
	m.step("at rest", func() { e.rests() })
	m.step("etcd stands still again and again", func() { e.stalls() })
	m.step("every apiserver dies", func() { e.apiserversDie() })
	m.step("handed over", func() { e.handsOver() })
	m.step("the API is lost to the holder alone", func() { e.cutOff() })
	m.step("the holder falls silent", func() { e.silent() })
}

func (e *electors) rests() {
	const long = 5
	holder := e.settled()
	before := e.statuses()
	e.during(long*time.Second, holder)
	for site, s := range e.statuses() {
		writes, reads := s.Tally.Writes[lease.Done]-before[site].Tally.Writes[lease.Done], s.Tally.Reads[lease.Done]-before[site].Tally.Reads[lease.Done]
		e.t.Logf("%s: %d writes, %d reads in %d s", site, writes, reads, long)
		if writes > long+1 || site != holder && writes > 0 {
			e.t.Errorf("%s wrote %d times in %d s", site, writes, long)
		}
	}
}

func (e *electors) statuses() map[string]lease.Status {
	all := map[string]lease.Status{}
	for _, site := range sites {
		s, err := e.agents[site].Status(e.t.Context())
		if err != nil {
			e.t.Fatal(err)
		}
		all[site] = s
	}
	return all
}

// stalls is the fault behind most moves of an address: an etcd that is slow for
// seconds, and then again.
func (e *electors) stalls() {
	holder := e.settled()
	for range byNight(3, 1) {
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			for _, site := range sites {
				if err := e.member(site).Child().Signal(sig); err != nil {
					e.t.Fatal(err)
				}
			}
			e.during(map[syscall.Signal]time.Duration{syscall.SIGSTOP: 6 * time.Second, syscall.SIGCONT: 3 * time.Second}[sig], holder)
		}
	}
	if h := e.settled(); h != holder {
		e.t.Errorf("%s holds it", h)
	}
}

func (e *electors) apiserversDie() {
	holder := e.settled()
	for _, site := range sites {
		if err := e.servers[site].Signal(syscall.SIGKILL); err != nil {
			e.t.Fatal(err)
		}
	}
	e.during(8*time.Second, holder)
	for _, site := range sites {
		e.serve(site)
	}
	e.until("the holder renews", time.Minute, func() error {
		if s := e.statuses()[holder]; s.APIError != "" || !s.Held {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if h := e.settled(); h != holder {
		e.t.Errorf("%s holds it", h)
	}
}

// cutOff takes the API from whoever holds the address, five times by night; how long
// it takes depends on when it was last renewed.
func (e *electors) cutOff() {
	var times, gaps []time.Duration
	for range byNight(5, 3) {
		holder := e.settled()
		e.ways[holder].block(true)
		times = append(times, e.passes(holder).Round(time.Millisecond))
		e.ways[holder].block(false)
		e.mu.Lock()
		gaps = append(gaps, e.gap.Round(time.Millisecond))
		e.mu.Unlock()
		e.during(3*time.Second, e.holder()) // the one that returns takes nothing back
	}
	slices.Sort(times)
	slices.Sort(gaps)
	e.t.Logf("another holds it after %v; between the two were %v", times, gaps)
	if median := times[len(times)/2]; median > 3*time.Second {
		e.t.Errorf("median %v, more than 3 s", median)
	}
}

func TestAddressLeaseInEtcd(t *testing.T) {
	m := &mirrored{cluster: start(t, "")}
	e := m.elect(func(site string) lease.Store {
		client, err := m.member(site).Client()
		if err != nil {
			t.Fatal(err)
		}
		return &etcd.Store{Client: client, Key: "/holdfast/address/test"}
	})
	defer e.stop()
	m.step("at rest", func() { e.rests() })
	m.step("etcd stands still again and again", func() { e.stalls() })
	m.step("handed over", func() { e.handsOver() })
	m.step("etcd is lost to the holder alone", func() { e.cutOff() })
	m.step("the holder falls silent", func() { e.silent() })
}

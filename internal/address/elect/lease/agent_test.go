package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
)

// memory is a Store that can be put out of reach.
type memory struct {
	mu       sync.Mutex
	seen     Seen
	revision uint64
	watchers map[chan Seen]bool
	down     bool
}

func newMemory() *memory { return &memory{watchers: map[chan Seen]bool{}} }

// reach is one node's way to it.
type reach struct {
	*memory
	mu  sync.Mutex
	cut bool
}

func (r *reach) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
}

func (r *reach) blocked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	return r.cut || r.memory.down
}

func (r *reach) wait(ctx context.Context) error {
	if !r.blocked() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (r *reach) Read(ctx context.Context) (Seen, error) {
	if err := r.wait(ctx); err != nil {
		return Seen{}, err
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	return r.seen, nil
}

func (r *reach) Write(ctx context.Context, record Record, version uint64) (Seen, error) {
	if err := r.wait(ctx); err != nil {
		return Seen{}, err
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if version != r.seen.Version {
		return Seen{}, fmt.Errorf("write: %w", ErrConflict)
	}
	r.revision++
	r.seen = Seen{Record: record, Version: r.revision}
	for w := range r.watchers {
		select {
		case w <- r.seen:
		default:
		}
	}
	return r.seen, nil
}

func (r *reach) Watch(ctx context.Context, tell func(Seen)) {
	news := make(chan Seen, 16)
	r.memory.mu.Lock()
	r.watchers[news] = true
	r.memory.mu.Unlock()
	for {
		select {
		case s := <-news:
			if !r.blocked() {
				tell(s)
			}
		case <-ctx.Done():
			return
		}
	}
}

// stage is who holds the address, by one true clock.
type stage struct {
	t  *testing.T
	mu sync.Mutex
	by map[string]Holding
}

type player struct {
	*stage
	name  string
	agent *Agent
}

func (p *player) Hold(h Holding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := Now()
	for other, o := range p.by {
		if other != p.name && !h.Lingering && !o.Lingering && o.Until > now {
			p.t.Errorf("%s holds, and %s does for %v", p.name, other, o.Until-now)
		}
	}
	p.by[p.name] = h
	if h.Began {
		p.agent.Announced()
	}
}

func (p *player) Release(Cause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.by, p.name)
}

func (s *stage) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.by {
		if !h.Lingering && h.Until > Now() {
			return name
		}
	}
	return ""
}

// troupe is three agents of one address.
type troupe struct {
	*stage
	memory *memory
	ways   map[string]*reach
	agents map[string]*Agent
	stop   map[string]context.CancelFunc
	ended  map[string]chan struct{}
}

func newTroupe(t *testing.T, change func(*Config)) *troupe {
	t.Helper()
	r := &troupe{
		stage: &stage{t: t, by: map[string]Holding{}}, memory: newMemory(), ways: map[string]*reach{},
		agents: map[string]*Agent{}, stop: map[string]context.CancelFunc{}, ended: map[string]chan struct{}{},
	}
	names := []string{"a", "b", "c"}
	sockets := map[string]*ask.Socket{}
	var peers []Peer
	for _, name := range names {
		s, err := ask.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(t.Context()) }()
		sockets[name] = s
		peers = append(peers, Peer{Name: name, Address: s.Address()})
	}
	for i, name := range names {
		config := Config{Self: name, Peers: peers, Duration: time.Second, Incarnation: uint64(i + 1), FreshKey: []byte("0123456789abcdef")}
		if change != nil {
			change(&config)
		}
		r.ways[name] = &reach{memory: r.memory}
		p := &player{stage: r.stage, name: name}
		agent, err := NewAgent(config, "test/address", r.ways[name], sockets[name], p, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		p.agent, r.agents[name] = agent, agent
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		r.stop[name], r.ended[name] = cancel, ended
		go func() { defer close(ended); agent.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-ended })
	}
	return r
}

// until waits for a condition of several processes, which no channel tells.
func (r *troupe) until(what string, cond func() bool) {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		if cond() {
			return
		}
	}
	r.t.Fatalf("20 s, and not: %s", what)
}

func (r *troupe) begin() (holder string) {
	r.t.Helper()
	r.until("somebody holds it", func() bool { holder = r.holder(); return holder != "" })
	// Peers have answered once.
	r.until("the holder has heard its peers", func() bool {
		s, err := r.agents[holder].Status(r.t.Context())
		return err == nil && len(s.Peers) == 2 && s.Peers[0].Ready && s.Peers[1].Ready
	})
	return holder
}

func (r *troupe) another(than string) func() bool {
	return func() bool { h := r.holder(); return h != "" && h != than }
}

func TestAgentsHandOver(t *testing.T) {
	t.Parallel()
	r := newTroupe(t, nil)
	first := r.begin()
	if err := r.agents[first].Release(t.Context(), "nobody"); !errors.Is(err, ErrRefused) {
		t.Errorf("released to nobody: %v", err)
	}
	if err := r.agents[first].Release(t.Context(), ""); err != nil {
		t.Error(err)
	}
	r.until("another holds it", r.another(first))
	second := r.holder()
	if err := r.agents[first].Release(t.Context(), ""); !errors.Is(err, ErrNotHeld) {
		t.Errorf("released by who does not hold it: %v", err)
	}
	r.stop[second]()
	<-r.ended[second]
	r.until("another holds it", r.another(second))
	if _, err := r.agents[second].Status(t.Context()); err == nil {
		t.Error("a stopped agent has a status")
	}
	third := r.holder()
	r.agents[third].SetReady(false)
	r.until("the one that is ready holds it", r.another(third))
}

func TestAgentsWithoutTheAPI(t *testing.T) {
	t.Parallel()
	// Long enough that a busy machine is no lost peer.
	r := newTroupe(t, func(c *Config) { c.Duration = 2 * time.Second })
	first := r.begin()
	r.memory.mu.Lock()
	r.memory.down = true
	r.memory.mu.Unlock()
	lost := func(name string) bool {
		s, err := r.agents[name].Status(t.Context())
		return err == nil && s.Contact == 0 && s.APIError != ""
	}
	r.until("all have lost the API", func() bool { return lost("a") && lost("b") && lost("c") })
	// For another two leases.
	end := Now() + 4*time.Second
	r.until("the time is over", func() bool {
		if h := r.holder(); h != first {
			t.Fatalf("%q holds it", h)
		}
		return Now() >= end
	})
	r.memory.mu.Lock()
	r.memory.down = false
	r.memory.mu.Unlock()
	r.until("the API is back", func() bool { return !lost(first) })
	if h := r.holder(); h != first {
		t.Errorf("%q holds it", h)
	}
	r.ways[first].set(true)
	r.until("another holds it", r.another(first))
	if s, err := r.agents[first].Status(t.Context()); err != nil || s.Held || s.Tally.Released[CauseReached] != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if !r.agents[first].Alive() {
		t.Error("not alive")
	}
}

func TestAgentsWithPolicyDrop(t *testing.T) {
	t.Parallel()
	r := newTroupe(t, func(c *Config) { c.Policy, c.Key = Drop, []byte("from a file") })
	r.begin()
	r.memory.mu.Lock()
	r.memory.down = true
	r.memory.mu.Unlock()
	r.until("nobody holds it", func() bool { return r.holder() == "" })
}

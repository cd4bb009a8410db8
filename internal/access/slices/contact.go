package slices

import (
	"context"
	"log/slog"
	"maps"
	"net"
	stdslices "slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

const (
	// reachEvery is how often connections to the others' apiservers are tried
	// while the clients of the own zone depend on them; reachLater the same after
	// reachLong, for each try is a line in the log of an apiserver.
	reachEvery = time.Second
	reachLater = 5 * time.Second
	reachLong  = 15 * time.Second
	// reachTimeout is many round trips, and less than reachEvery.
	reachTimeout = 900 * time.Millisecond
	// reachFails are so many failures in a row before a node counts as out of
	// reach: one may be a lost SYN.
	reachFails = 2
)

// contact is which nodes' apiservers this node fails to connect to. It is sought
// only while the own zone has no endpoint of its own, and forgotten after.
type contact struct {
	log *slog.Logger
	// dial says that a connection was made.
	dial func(ctx context.Context, address string) bool

	mu     sync.Mutex
	wanted chan struct{} // closed while it is sought
	sought bool
	failed map[string]int // by node, in a row
}

func newContact(log *slog.Logger) *contact {
	return &contact{log: log, wanted: make(chan struct{}), failed: map[string]int{}, dial: func(ctx context.Context, address string) bool {
		_, ok := connectTime(ctx, address, reachTimeout)
		return ok
	}}
}

// seek begins or ends the tries.
func (c *contact) seek(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sought == is {
		return
	}
	c.sought = is
	if is {
		close(c.wanted)
		return
	}
	c.wanted = make(chan struct{})
	clear(c.failed)
}

// state is what to wait for, and whether it is sought.
func (c *contact) state() (wanted <-chan struct{}, sought bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted, c.sought
}

// unreached are the nodes that were not reached reachFails times in a row.
func (c *contact) unreached() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, node := range stdslices.Sorted(maps.Keys(c.failed)) {
		if c.failed[node] >= reachFails {
			all = append(all, node)
		}
	}
	return all
}

// note takes the outcome of a try. It reports whether a node came into reach or
// went out of it.
func (c *contact) note(node string, reached bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.failed[node] >= reachFails
	switch {
	case !c.sought:
		return false
	case reached:
		delete(c.failed, node)
	default:
		c.failed[node] = min(c.failed[node]+1, reachFails)
	}
	is := c.failed[node] >= reachFails
	switch {
	case is && !was:
		c.log.Warn("apiserver out of reach from this node: it adopts this zone last", "node", node)
	case was && !is:
		c.log.Info("apiserver in reach again", "node", node)
	}
	return is != was
}

// run tries while it is sought, and calls changed when something did.
func (c *contact) run(ctx context.Context, others func() map[string][]string, changed func()) {
	var since time.Time
	for {
		wanted, sought := c.state()
		if !sought {
			since = time.Time{}
			select {
			case <-wanted:
			case <-ctx.Done():
				return
			}
		}
		if since.IsZero() {
			since = time.Now()
		}
		if c.try(ctx, others()) {
			changed()
		}
		wait := reachEvery
		if time.Since(since) > reachLong {
			wait = reachLater
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// try connects to all of them at once; one address of a node is enough.
func (c *contact) try(ctx context.Context, others map[string][]string) bool {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		changed bool
	)
	for node, addresses := range others {
		wg.Go(func() {
			reached := stdslices.ContainsFunc(addresses, func(address string) bool { return c.dial(ctx, address) })
			if ctx.Err() == nil && c.note(node, reached) {
				mu.Lock()
				defer mu.Unlock()
				changed = true
			}
		})
	}
	wg.Wait()
	return changed
}

// others are the addresses of the other nodes' apiservers, by node.
func (a *agent) others() map[string][]string {
	all := map[string][]string{}
	s := a.world.look()
	for i := range s.view.Slices {
		if o := &s.view.Slices[i]; o.Owner == plan.Ours && o.Node != a.settings.Node && o.Address != "" {
			all[o.Node] = append(all[o.Node], net.JoinHostPort(o.Address, strconv.Itoa(int(o.Port))))
		}
	}
	return all
}

// dependent says that the clients of the own zone are sent to other zones, or
// soon will be.
func dependent(self *plan.Self, v *plan.View) bool {
	if self.Zone == "" || self.Health == plan.Unknown {
		return false
	}
	for i := range v.Slices {
		s := &v.Slices[i]
		if s.Owner == plan.Ours && s.Zone == self.Zone && s.Ready && !(s.Node == self.Node && self.Health == plan.Unready) {
			return false
		}
	}
	return true
}

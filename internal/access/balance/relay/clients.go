package relay

import (
	"net/netip"
	"sync"
)

// clients counts the connections of each client address of a listener.
type clients struct {
	mu    sync.Mutex
	count map[netip.Addr]int
}

// enter counts one more unless that would exceed limit.
func (c *clients) enter(a netip.Addr, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[a] >= limit {
		return false
	}
	if c.count == nil {
		c.count = map[netip.Addr]int{}
	}
	c.count[a]++
	return true
}

func (c *clients) leave(a netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[a]--; c.count[a] <= 0 {
		delete(c.count, a)
	}
}

package scenario

import (
	"fmt"
	"slices"
	"time"
)

// Bounds of [Step.Sync]: below, the lab itself is as slow on a busy machine; above,
// every client has long given up.
const (
	leastSync = 50 * time.Millisecond
	mostSync  = 30 * time.Second
)

// checkSlowDisk accepts members alone, and asks how slow their disk is to be.
func (c *Case) checkSlowDisk(f Step) error {
	if len(f.SlowDisk) == 0 {
		if f.Sync != 0 {
			return fmt.Errorf("sync: %s of nobody's disk; add slowDisk: [%s/SITE]", f.Sync, c.ClusterNames()[0])
		}
		return nil
	}
	if f.Sync < leastSync || f.Sync > mostSync {
		return fmt.Errorf("sync: %s; choose %s to %s", f.Sync, leastSync, mostSync)
	}
	if c.HasPair() {
		return fmt.Errorf("slowDisk: the agents of a pair start its members; drill the disk of a cluster that has no pair")
	}
	for _, target := range f.SlowDisk {
		procs, err := c.Resolve(target)
		if err != nil {
			return fmt.Errorf("slowDisk: %w", err)
		}
		if len(procs) != 1 || procs[0].Agent || !slices.Contains(c.ClusterNames(), procs[0].Cluster) {
			return fmt.Errorf("slowDisk: %q is no member; write CLUSTER/SITE, such as %s/%s", target, c.ClusterNames()[0], c.SiteNames()[0])
		}
	}
	return nil
}

// HasSlowDisks says whether a fault of the case slows the disk of a member.
func (c *Case) HasSlowDisks() bool {
	return slices.ContainsFunc(c.Faults, func(f Step) bool { return len(f.SlowDisk) > 0 })
}

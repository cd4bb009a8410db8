package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Run is one run to make: a variant of a scenario, with or without the agents.
type Run struct {
	Scenario, Variant string
	Agents            bool
	// Cost is how much of the room it takes, 1 or more.
	Cost int
	// Lasts is how long it is expected to take, from nothing to nothing left.
	Lasts time.Duration
}

// String names a run for people.
func (r Run) String() string {
	side := "without"
	if r.Agents {
		side = "with"
	}
	return fmt.Sprintf("%s %s, %s", r.Scenario, r.Variant, side)
}

// Costs of runs, in units of a lab with etcd and agents alone: those take 0.1 to 0.3
// cores once they run.
const (
	costEtcd       = 1
	costAPIServers = 2
	costKubernetes = 4
	// Alone is more than any room.
	Alone = 1 << 20
)

// fine is the shortest bound that a drill may have beside others. Shorter ones are
// within what a scheduler with more to do than cores takes away (20 ms at a time,
// measured 80 ms with two apiservers starting).
const fine = 250 * time.Millisecond

// CostOf is the cost of a case.
func CostOf(c *scenario.Case) int {
	for _, e := range c.Expect {
		if e.Role == scenario.RoleClean && e.Gap > 0 && e.Gap < fine {
			return Alone
		}
	}
	switch {
	case c.Kubernetes:
		return costKubernetes
	case c.APIServers:
		return costAPIServers
	}
	return costEtcd
}

// Waves groups runs that are made side by side, so that the costs of a wave are at
// most room, or it has one run. Runs of about the same length and cost are together,
// since a wave is as long as its longest; the cheap waves come first, so that a
// reader has results early.
func Waves(runs []Run, room int) [][]Run {
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(a, b Run) int {
		return cmp.Or(a.Cost-b.Cost, cmp.Compare(b.Lasts, a.Lasts), cmp.Compare(a.String(), b.String()))
	})
	var waves [][]Run
	used := 0
	for _, r := range sorted {
		if n := len(waves); n == 0 || used+r.Cost > room {
			waves, used = append(waves, nil), 0
		}
		used += r.Cost
		waves[len(waves)-1] = append(waves[len(waves)-1], r)
	}
	return waves
}

// Lasts is how long waves take that follow one another.
func Lasts(waves [][]Run) time.Duration {
	var all time.Duration
	for _, w := range waves {
		var longest time.Duration
		for _, r := range w {
			longest = max(longest, r.Lasts)
		}
		all += longest
	}
	return all
}

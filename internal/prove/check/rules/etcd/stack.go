package etcd

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/stack"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Stack lists the elections of etcd, which the members' own timers begin.
func Stack(f *fact.Facts) []stack.Path {
	var all []stack.Path
	for _, m := range own(f) {
		election := millis(m, "election-timeout", defaultElection)
		all = append(all, stack.Path{
			Fault: "losing etcd's leader", Client: "all writes, and reads that must be current",
			Detectors: []stack.Detector{{
				Name: "etcd: election", Set: fmt.Sprintf("election timeout %s of %s", election, m.Node),
				Window: scenario.Leaderless(election, 0), At: m.FlagAt("election-timeout"),
			}},
		})
	}
	return all
}

package timers

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/stack"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Stack lists the detectors of Kubernetes itself: nodes by their heartbeats, and the
// leases of its controllers.
func Stack(f *fact.Facts) []stack.Path {
	var all []stack.Path
	for _, m := range f.Components("kube-controller-manager") {
		if grace, how, err := graceOf(f, m); err == nil {
			all = append(all, nodePaths(m, grace, how)...)
		}
	}
	for _, c := range electedOf(f) {
		if v, _ := c.Flag("leader-elect"); v == "false" {
			continue // what HF-TIME-003 is about
		}
		lease, retry := flagged(c, "leader-elect-lease-duration", 15*time.Second), flagged(c, "leader-elect-retry-period", 2*time.Second)
		all = append(all, stack.Path{
			Fault: "losing the " + c.Name + " that acts", Client: "what it does for the cluster",
			Detectors: []stack.Detector{{
				Name: c.Name + ": its lease in the API", Set: fmt.Sprintf("lease %s, retry %s", lease, retry),
				Window: scenario.Elected(lease, retry), At: c.FlagAt("leader-elect-lease-duration"),
			}},
		})
	}
	return all
}

func nodePaths(m fact.Component, grace time.Duration, how string) []stack.Path {
	notReady := stack.Detector{
		Name: "kube-controller-manager: heartbeats of nodes", Set: fmt.Sprintf("grace period %s (%s)", grace, how),
		Window: scenario.NotReady(grace, scenario.NodeHeartbeat, scenario.NodeMonitor), At: m.FlagAt(graceFlag),
	}
	stays := stack.Detector{
		Name: "kube-controller-manager: eviction", Set: fmt.Sprintf("pods tolerate it for %s, unless they say otherwise", scenario.DefaultEviction),
		Window: scenario.Evicted(scenario.Window{}, scenario.DefaultEviction), At: m.FlagAt(graceFlag),
	}
	return []stack.Path{
		{Fault: "losing a node", Client: "the share of connections to Services with a pod there", Detectors: []stack.Detector{notReady}},
		{Fault: "losing a node", Client: "what has its only pod there", Detectors: []stack.Detector{notReady, stays}},
	}
}

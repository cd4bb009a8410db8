package bgp

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Rules lists the rules of the group.
func Rules() []rule.Rule {
	return []rule.Rule{
		holdWithoutBFD, keptAsStale, rareKeepalives, oneRouter, nothingAccepted, oneRoute, aggregated, hopWithoutPod, microseconds, natBetweenHosts, strictPaths,
	}
}

var errNoSession = fact.NotApplicable("no BGP session in frr.conf, MetalLB or kube-vip")

var holdWithoutBFD = rule.Rule{
	ID: "HF-BGP-001", Group: rule.BGP, Severity: rule.Warning,
	Title: "A machine that dies is announced until the hold time ends: no BFD",
	OneOf: []fact.Kind{fact.Files, fact.Custom, fact.Pods, fact.DaemonSets},
	Why: "A machine that loses power or network closes no session. The router goes on sending its share of connections there until the " +
		"hold time has passed. A shorter hold drops sessions on brief loss; BFD finds it within a second and leaves the hold time alone.",
	Remedy: "watch the session by BFD on both sides",
	Drill:  "bgp-node-dead",
	Check:  checkHold,
}

func checkHold(f *fact.Facts) ([]rule.Finding, error) {
	all := sessions(f)
	if len(all) == 0 {
		return nil, errNoSession
	}
	var found []rule.Finding
	for _, s := range all {
		if s.bfd {
			continue
		}
		found = append(found, rule.Finding{
			At: s.at, Key: s.peer,
			What: fmt.Sprintf("the session of %s with %s has a hold time of %s and no BFD", s.who, s.peer, s.hold),
			Effect: rule.Lasts("losing a machine that announces", "its share of connections is lost",
				scenario.Hold(s.hold, s.keepalive)),
			Remedy: s.remedy,
		})
	}
	return found, nil
}

package etcd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// Rules lists the rules of the group.
func Rules() []rule.Rule {
	return []rule.Rule{
		majorityInZone, evenVoters, headless, nobodyMoves, unwell, slowDisk, differentTimers, singleDatastore, deadStaysActive, oldPatch, preVoteOff, nearQuota,
	}
}

var majorityInZone = rule.Rule{
	ID: "HF-ETCD-001", Group: rule.Etcd, Severity: rule.Error,
	Title: "One zone has so many members of etcd that the rest has no quorum",
	Needs: []fact.Kind{fact.Nodes}, OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "With 2 members in one zone and 1 in another the loss of the first stops all writes; with one in each of two zones any cut does. " +
		"A third place with one member, and nothing else, keeps the quorum through the loss of any one.",
	Remedy: "move a member to a third zone, or run the two as a pair with an arbiter: holdfast pair",
	Drill:  "site-loss",
	Check:  checkMajority,
}

func checkMajority(f *fact.Facts) ([]rule.Finding, error) {
	if len(f.Zones()) < 2 {
		return nil, fact.NotApplicable("the nodes name fewer than two zones in label %s", fact.ZoneLabel)
	}
	members := own(f)
	if len(members) == 0 {
		return nil, errNoEtcd
	}
	byZone := map[string][]fact.Component{}
	for _, m := range members {
		zone := f.Zone(m.Node)
		if zone == "" {
			return nil, fact.Lacking("node %s has no label %s, and an etcd member", m.Node, fact.ZoneLabel)
		}
		byZone[zone] = append(byZone[zone], m)
	}
	quorum := len(members)/2 + 1
	var all []rule.Finding
	for _, zone := range slices.Sorted(maps.Keys(byZone)) {
		here := byZone[zone]
		if len(members)-len(here) >= quorum {
			continue
		}
		all = append(all, rule.Finding{
			At: here[0].At, Key: zone,
			What:   fmt.Sprintf("zone %s has %d of %d members (%s); %d are needed", zone, len(here), len(members), nodes(here), quorum),
			Effect: rule.Unending("losing zone "+zone, "etcd takes no writes, and the API none"),
		})
	}
	return all, nil
}

func nodes(members []fact.Component) string {
	var all []string
	for _, m := range members {
		all = append(all, m.Node)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

package maintenance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var halfUpgraded = rule.Rule{
	ID: "HF-MAINT-009", Group: rule.Maintenance, Severity: rule.Note,
	Title: "The agents of an address are of different versions: an upgrade was not ended",
	OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "An agent is upgraded on one control-plane node at a time: Ready, \"announcing route\", 200 from /readyz, next. Where that stopped " +
		"half way the address works, until it moves to a node that was left behind.",
	Remedy: "end the upgrade, one node at a time",
	Drill:  "vip-handover",
	Check:  checkVersions,
}

func checkVersions(f *fact.Facts) ([]rule.Finding, error) {
	byTag := map[string][]fact.Component{}
	agents := 0
	for _, c := range f.Components("kube-vip") {
		if _, tag := fact.SplitImage(c.Container.Image); tag != "" && c.Node != "" {
			byTag[tag] = append(byTag[tag], c)
			agents++
		}
	}
	switch {
	case agents == 0:
		return nil, fact.NotApplicable("no kube-vip whose node and version are known")
	case agents == 1:
		return nil, fact.Lacking("the version of one agent only is known")
	case len(byTag) == 1:
		return nil, nil
	}
	// The fewest are what differs; of as many, the lower tag, so that runs agree.
	tags := slices.Sorted(maps.Keys(byTag))
	slices.SortStableFunc(tags, func(a, b string) int { return len(byTag[a]) - len(byTag[b]) })
	odd := byTag[tags[0]]
	var nodes []string
	for _, c := range odd {
		nodes = append(nodes, c.Node)
	}
	return []rule.Finding{{
		At: odd[0].At.Field("spec", "containers", fmt.Sprint(odd[0].Index), "image"), Key: "kube-vip",
		What:   fmt.Sprintf("kube-vip is %s on %s, and elsewhere %s", tags[0], strings.Join(nodes, ", "), strings.Join(tags[1:], ", ")),
		Effect: rule.Unending("the address moving to "+nodes[0], "it is held by an agent of another version than before"),
		Remedy: "# the manifest of kube-vip on " + nodes[0] + ", then wait for 200 from /readyz by the address:\nimage: kube-vip/kube-vip:" + tags[len(tags)-1],
	}}, nil
}

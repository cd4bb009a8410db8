package clients

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var piped = rule.Rule{
	ID: "HF-CLI-006", Group: rule.Clients, Severity: rule.Warning,
	Title: "A pipeline deploys by one control-plane node's address",
	Needs: []fact.Kind{fact.Nodes, fact.Pipelines},
	Why: "What repairs a cluster is mostly deployed by a pipeline. One that was given a server's own address cannot deploy while that node " +
		"is away, which is when it is needed.",
	Remedy: "use the address of all apiservers",
	Drill:  "vip-node-silent",
	Check:  checkPiped,
}

func checkPiped(f *fact.Facts) ([]rule.Finding, error) {
	find := finder(f.ControlPlane())
	if find == nil {
		return nil, fact.NotApplicable("the cluster has no two control-plane nodes with addresses")
	}
	target := "ADDRESS-OF-ALL-APISERVERS"
	if endpoint, ok := f.ControlPlaneEndpoint(); ok {
		target = fact.Host(endpoint.Server)
	}
	var all []rule.Finding
	for _, p := range f.Pipelines.Items {
		lines := strings.Split(string(p.Object.Data), "\n")
		for i, line := range lines {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				lines[i] = ""
			}
		}
		i, address, node := find(lines)
		if i < 0 {
			continue
		}
		all = append(all, rule.Finding{
			At: p.At.LineIn(i + 1), Key: address,
			What:   fmt.Sprintf("%s goes by %s, the address of node %s", p.Object.Path, address, node),
			Effect: rule.Unending("losing node "+node, "the pipeline reaches no API"),
			Remedy: fmt.Sprintf("sed -i 's/%s/%s/g' %s", strings.ReplaceAll(address, ".", `\.`), target, p.Object.Path),
		})
	}
	return all, nil
}

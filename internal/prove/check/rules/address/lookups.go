package address

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var nameOfNodes = rule.Rule{
	ID: "HF-API-009", Group: rule.APIAddress, Severity: rule.Error,
	Title: "A name of the API leads to addresses of single machines",
	Needs: []fact.Kind{fact.Lookups, fact.Nodes},
	Why: "DNS watches nothing: a name that has the addresses of nodes goes on giving out that of a node that is dead. With one address the " +
		"name is that node's; with several each client takes one in its turn, and waits for its connection to fail before it tries the next, if it does.",
	Remedy: "let the name lead to an address that outlives machines: a virtual one, or a balancer's",
	Drill:  "site-loss",
	Check:  checkNamesOfNodes,
}

func checkNamesOfNodes(f *fact.Facts) ([]rule.Finding, error) {
	if len(f.Lookups.Items) == 0 {
		return nil, fact.NotApplicable("nobody reaches the API by a name that DNS has to know")
	}
	if len(f.ControlPlane()) == 1 {
		return nil, fact.NotApplicable("the cluster has one control-plane node")
	}
	var all []rule.Finding
	judged := map[string]bool{}
	for _, l := range f.Lookups.Items {
		if l.Object.Outcome != fact.LookupOK || judged[l.Object.Name] {
			continue
		}
		judged[l.Object.Name] = true
		var nodes []string
		for _, address := range l.Object.Addresses {
			if n := f.NodeOf(address); n != nil && !slices.Contains(nodes, n.Name) {
				nodes = append(nodes, n.Name)
			}
		}
		if len(nodes) == 0 {
			continue
		}
		all = append(all, leadsToNodes(l, nodes))
	}
	if len(judged) == 0 {
		return nil, fact.Lacking("no name server knew a name of the API when it was asked")
	}
	return all, nil
}

func leadsToNodes(l fact.Item[fact.Lookup], nodes []string) rule.Finding {
	name := l.Object.Name
	finding := rule.Finding{
		At: l.At, Key: name,
		What:   fmt.Sprintf("%s has the addresses %s, those of nodes %s", name, strings.Join(l.Object.Addresses, ", "), strings.Join(nodes, ", ")),
		Effect: rule.Unending("losing one of "+strings.Join(nodes, ", "), fmt.Sprintf("clients that were given its address by %s wait for it", name)),
		Remedy: fmt.Sprintf("# in the zone of %s, one record, of an address that moves:\n%s. 60 IN A ADDRESS-OF-ALL-APISERVERS", name, name),
	}
	if len(nodes) == 1 {
		finding.What = fmt.Sprintf("%s has the address %s, that of node %s", name, strings.Join(l.Object.Addresses, ", "), nodes[0])
		finding.Effect = rule.Unending("losing node "+nodes[0], "clients that use "+name+" have no API")
	}
	return finding
}

var serversDiffer = rule.Rule{
	ID: "HF-API-010", Group: rule.APIAddress, Severity: rule.Warning,
	Title: "A name server does not tell what the others tell of a name of the API",
	Needs: []fact.Kind{fact.Lookups},
	Why: "A resolver asks the next server only where one is silent, and that after 5 s: what a server answers is final, be it that there is no " +
		"such name. With one server of two that does not know the name, or is dead, each look-up fails or stalls by chance, and nobody notices " +
		"as long as the other is asked first.",
	Remedy: "bring the server back, give it the zone, or take it out of resolv.conf",
	Drill:  "vip-node-silent",
	Check:  checkServers,
}

func checkServers(f *fact.Facts) ([]rule.Finding, error) {
	if len(f.Lookups.Items) == 0 {
		return nil, fact.NotApplicable("nobody reaches the API by a name that DNS has to know")
	}
	var all []rule.Finding
	for _, l := range f.Lookups.Items {
		if what := unlike(f, l.Object); what != "" {
			all = append(all, rule.Finding{
				At: l.At, Key: l.Object.Name + " " + l.Object.Server, What: what,
				Effect: rule.Unending("a look-up of "+l.Object.Name+" that asks "+l.Object.Server, harms[l.Object.Outcome]),
				Remedy: fmt.Sprintf("dig +short %s @%s   # compare with the other servers of resolv.conf", l.Object.Name, l.Object.Server),
			})
		}
	}
	return all, nil
}

// harms say what an answer does to who asks.
var harms = map[string]string{
	fact.LookupOK:     "the client goes elsewhere than the others",
	fact.LookupNone:   "the client does not find the API, and asks nobody else",
	fact.LookupSilent: "it stalls for 5 s before another server is asked, and fails where there is none",
	fact.LookupFailed: "it fails, or goes on to another server",
}

// unlike says in what an answer is not that of most servers; "" where it is. An answer
// without an address is never right: somebody goes by the name.
func unlike(f *fact.Facts, l *fact.Lookup) string {
	switch l.Outcome {
	case fact.LookupNone:
		return fmt.Sprintf("the name server %s says that %s has no address", l.Server, l.Name)
	case fact.LookupSilent:
		return fmt.Sprintf("the name server %s gave no answer for %s", l.Server, l.Name)
	case fact.LookupFailed:
		return fmt.Sprintf("the name server %s could not be asked for %s: %s", l.Server, l.Name, l.Error)
	}
	mine := strings.Join(l.Addresses, ", ")
	votes, first := map[string]int{}, ""
	for _, other := range f.Lookups.Items {
		if o := other.Object; o.Name == l.Name && o.Outcome == fact.LookupOK {
			text := strings.Join(o.Addresses, ", ")
			if first == "" {
				first = text
			}
			votes[text]++
		}
	}
	for text, n := range votes {
		if n > votes[first] {
			first = text
		}
	}
	if mine == first {
		return ""
	}
	return fmt.Sprintf("the name server %s says that %s has %s, and another that it has %s", l.Server, l.Name, mine, first)
}

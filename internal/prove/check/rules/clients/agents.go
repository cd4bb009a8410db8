package clients

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var registration = rule.Rule{
	ID: "HF-CLI-002", Group: rule.Clients, Severity: rule.Warning,
	Title: "An agent of k3s or RKE2 registers with one server's address",
	Needs: []fact.Kind{fact.Nodes, fact.Files},
	Why: "An agent learns of all servers from the one it registers with, and keeps the list. A machine that is new, or has lost the list, " +
		"or has a list that went stale, asks that one server again: while it is gone the agent does not start.",
	Remedy: "register with an address or name that outlives servers",
	Drill:  "site-loss",
	Check:  checkRegistration,
}

func checkRegistration(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	servers := f.ControlPlane()
	agents := 0
	for _, r := range f.APIReferences() {
		own := func(n fact.Item[corev1.Node]) bool { return n.Object.Name == r.Node }
		if !r.Registers() || slices.ContainsFunc(servers, own) {
			continue // a server asks another one only when it joins
		}
		agents++
		node := f.NodeOf(r.Host)
		if node == nil || len(servers) == 1 {
			continue
		}
		all = append(all, rule.Finding{
			At: r.At, Key: r.Who,
			What:   fmt.Sprintf("the agent of %s on %s registers with %s, the address of node %s", r.Who, r.Node, r.Server, node.Name),
			Effect: rule.Unending("losing node "+node.Name, "an agent on "+r.Node+" that starts without its list of servers finds none"),
			Remedy: fmt.Sprintf("sed -i 's|%s|https://ADDRESS-OF-ALL-SERVERS:%s|' /%s && systemctl restart %s-agent   # on %s; ADDRESS must be among the servers' tls-san",
				r.Server, portOf(r.Server), trimNode(r.At.File), r.Who, r.Node),
		})
	}
	if agents == 0 {
		return nil, fact.NotApplicable("no agent of k3s or RKE2 is known")
	}
	return all, nil
}

func portOf(server string) string {
	if u, err := url.Parse(server); err == nil {
		return cmp.Or(u.Port(), "6443")
	}
	return "6443"
}

// trimNode is the path on its node of a file below nodes/NODE/files.
func trimNode(file string) string {
	if _, rest, ok := strings.Cut(file, "/files/"); ok {
		return rest
	}
	return file
}

var someHosts = rule.Rule{
	ID: "HF-CLI-003", Group: rule.Clients, Severity: rule.Warning,
	Title: "A name that some nodes have in /etc/hosts is missing on others that use it",
	Needs: []fact.Kind{fact.Files},
	Why: "Where a name of the API or of etcd was put into /etc/hosts so that nothing depends on DNS, the node that was forgotten does " +
		"depend on it. Nobody sees that before DNS is gone.",
	Remedy: "write the same lines into /etc/hosts of every node",
	Drill:  "vip-handover",
	Check:  checkSomeHosts,
}

// use is a name that somebody on a node has to resolve.
type use struct {
	who, node, name string
	at              fact.Location
}

func checkSomeHosts(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	known := 0
	seen := map[string]bool{}
	entries := map[string][]fact.HostEntry{}
	for _, u := range uses(f) {
		if seen[u.node+" "+u.name] {
			continue
		}
		seen[u.node+" "+u.name] = true
		with, ok := entries[u.name]
		if !ok { // once for each name, not for each node
			with = having(f, u.name)
			entries[u.name] = with
		}
		if len(with) == 0 {
			continue
		}
		known++
		own, state := f.HostEntries(u.node, u.name)
		if state.State != fact.Unknown && len(own) == 0 {
			all = append(all, forgotten(u, with))
		}
	}
	if known == 0 {
		return nil, fact.NotApplicable("no name that nodes use stands in an /etc/hosts that is known")
	}
	return all, nil
}

// uses are the names in kubeconfigs of nodes and in --etcd-servers.
func uses(f *fact.Facts) []use {
	var all []use
	for _, r := range f.APIReferences() {
		if r.Node != "" && fact.Named(r.Host) {
			all = append(all, use{r.Who, r.Node, r.Host, r.At})
		}
	}
	for _, c := range f.Components("kube-apiserver") {
		servers, _ := c.Flag("etcd-servers")
		for _, server := range strings.Split(servers, ",") {
			if host := fact.Host(server); c.Node != "" && fact.Named(host) {
				all = append(all, use{c.Name, c.Node, host, c.FlagAt("etcd-servers")})
			}
		}
	}
	return all
}

// having are the lines of /etc/hosts of any node that have a name.
func having(f *fact.Facts, name string) []fact.HostEntry {
	var all []fact.HostEntry
	for _, node := range f.FileNodes() {
		entries, _ := f.HostEntries(node, name)
		all = append(all, entries...)
	}
	return all
}

func forgotten(u use, with []fact.HostEntry) rule.Finding {
	return rule.Finding{
		At: u.at, Key: u.node + " " + u.name,
		What:   fmt.Sprintf("%s on %s uses %s, which is in /etc/hosts of %s and not of %s", u.who, u.node, u.name, with[0].Node, u.node),
		Effect: rule.Unending("losing DNS", u.who+" on "+u.node+" does not find "+u.name),
		Remedy: fmt.Sprintf("echo '%s %s' >> /etc/hosts   # on %s", with[0].Address, u.name, u.node),
	}
}

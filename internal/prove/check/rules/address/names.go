package address

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var oneNameServer = rule.Rule{
	ID: "HF-API-003", Group: rule.APIAddress, Severity: rule.Error,
	Title: "A node finds the API by a name, and has at most one name server",
	Needs: []fact.Kind{fact.Files},
	Why: "Kubelets that dial the API by a name ask DNS for each new connection. With one name server, or a resolv.conf that leads nowhere, " +
		"all nodes turn NotReady together when it goes, while every apiserver is well.",
	Remedy: "name a second server, or the address in /etc/hosts of every node",
	Drill:  "vip-node-silent",
	Check:  checkNameServers,
}

func checkNameServers(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	var lacks []string
	judged := map[string]bool{}
	for _, r := range f.APIReferences() {
		if r.Node == "" || !fact.Named(r.Host) || judged[r.Node] {
			continue
		}
		if entries, _ := f.HostEntries(r.Node, r.Host); len(entries) > 0 {
			continue // HF-API-004 speaks of these
		}
		finding, lack := nameServers(f, r)
		if lack != "" {
			lacks = append(lacks, lack)
			continue
		}
		judged[r.Node] = true
		if finding != nil {
			all = append(all, *finding)
		}
	}
	switch {
	case len(all) > 0 || len(judged) > 0:
		return all, nil
	case len(lacks) > 0:
		return nil, fact.Lacking("%s", strings.Join(lacks, "; "))
	}
	return nil, fact.NotApplicable("no node finds the API by a name that DNS has to know")
}

// nameServers judges the name servers of a node that needs them for r, or says why
// it cannot.
func nameServers(f *fact.Facts, r fact.APIReference) (found *rule.Finding, lack string) {
	file, known := resolvConf(f, r.Node)
	finding := rule.Finding{
		Key:    r.Node,
		Remedy: fmt.Sprintf("# on %s, in the settings that make /etc/resolv.conf:\nnameserver SECOND-ADDRESS\noptions timeout:1 attempts:2\n# or, without DNS: echo 'ADDRESS-OF-ALL-APISERVERS %s' >> /etc/hosts", r.Node, r.Host),
	}
	switch {
	case known.State == fact.Unknown:
		return nil, known.Why
	case file == nil:
		finding.At = r.At
		finding.What = fmt.Sprintf("%s on %s finds the API by the name %s, and there is no /etc/resolv.conf, or it leads nowhere", r.Who, r.Node, r.Host)
		finding.Effect = rule.Unending("the next connection to the API", r.Who+" on "+r.Node+" does not find it")
		return &finding, ""
	}
	servers := conf.Lines(file.Object.Data, "#;").All("nameserver")
	if len(servers) > 1 {
		return nil, ""
	}
	finding.At, finding.What = file.At, fmt.Sprintf("%s on %s finds the API by the name %s, and resolv.conf names no server", r.Who, r.Node, r.Host)
	finding.Effect = rule.Unending("the next connection to the API", r.Who+" on "+r.Node+" does not find it")
	if len(servers) == 1 {
		server := servers[0].Word(1)
		if ip := net.ParseIP(server); ip != nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast()) {
			return nil, fmt.Sprintf("the name server of node %s is %s, and whom that asks is not known", r.Node, server)
		}
		finding.At = file.At.LineIn(servers[0].Line)
		finding.What = fmt.Sprintf("%s on %s finds the API by the name %s, and resolv.conf names one server only, %s", r.Who, r.Node, r.Host, server)
		finding.Effect = rule.Unending("losing the name server "+server, r.Who+" on "+r.Node+" does not find the API")
	}
	return &finding, ""
}

// resolvConf is the file that names the servers a node asks: behind the stub of
// systemd-resolved its list of them, where that is known.
func resolvConf(f *fact.Facts, node string) (*fact.Item[fact.File], fact.Known) {
	file, known := f.FileOf(node, "/etc/resolv.conf")
	if file == nil {
		return nil, known
	}
	servers := conf.Lines(file.Object.Data, "#;").All("nameserver")
	if len(servers) == 1 && servers[0].Word(1) == "127.0.0.53" {
		if behind, _ := f.FileOf(node, "/run/systemd/resolve/resolv.conf"); behind != nil {
			return behind, known
		}
	}
	return file, known
}

var hostsDiffer = rule.Rule{
	ID: "HF-API-004", Group: rule.APIAddress, Severity: rule.Error,
	Title: "/etc/hosts of a node has another address for the API than that of the others",
	Needs: []fact.Kind{fact.Files},
	Why: "A name for the API in /etc/hosts is an address that nobody changes when the API's is moved, or was one node's when that node was " +
		"alone. The node works as long as something answers there.",
	Remedy: "write the address of all apiservers into /etc/hosts of every node",
	Drill:  "vip-handover",
	Check:  checkHosts,
}

func checkHosts(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	entries := 0
	for _, name := range apiNames(f) {
		var of []fact.HostEntry
		for _, node := range f.FileNodes() {
			more, _ := f.HostEntries(node, name)
			for _, e := range more {
				if !ownServer(f, e) {
					of = append(of, e)
				}
			}
		}
		entries += len(of)
		all = append(all, strangers(f, name, of)...)
	}
	if entries == 0 {
		return nil, fact.NotApplicable("no /etc/hosts that is known has a name of the API")
	}
	return all, nil
}

// apiNames are the names by which anybody reaches the API, sorted.
func apiNames(f *fact.Facts) []string {
	names := map[string]bool{}
	for _, r := range f.APIReferences() {
		if fact.Named(r.Host) {
			names[r.Host] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// ownServer says that a control-plane node has its own apiserver behind the name,
// as is done on purpose: it cannot outlive itself.
func ownServer(f *fact.Facts, e fact.HostEntry) bool {
	if fact.Loopback(e.Address) {
		return true
	}
	node := f.NodeOf(e.Address)
	return node != nil && node.Name == e.Node
}

// strangers are the entries that name one node's address, or another one than most.
func strangers(f *fact.Facts, name string, entries []fact.HostEntry) []rule.Finding {
	votes := map[string]int{}
	for _, e := range entries {
		if f.NodeOf(e.Address) == nil {
			votes[e.Address]++
		}
	}
	right := ""
	for _, address := range slices.Sorted(maps.Keys(votes)) {
		if votes[address] > votes[right] {
			right = address
		}
	}
	var all []rule.Finding
	for _, e := range entries {
		node := f.NodeOf(e.Address)
		what := fmt.Sprintf("/etc/hosts of %s has %s at %s, and most nodes have it at %s", e.Node, name, e.Address, right)
		fault := e.Address + " answering no more"
		switch {
		case e.Address == right || node != nil && len(f.ControlPlane()) == 1:
			continue
		case node != nil:
			what = fmt.Sprintf("/etc/hosts of %s has %s at %s, the address of node %s", e.Node, name, e.Address, node.Name)
			fault = "losing node " + node.Name
		}
		all = append(all, rule.Finding{
			At: e.At, Key: name + " " + e.Address, What: what,
			Effect: rule.Unending(fault, "node "+e.Node+" has no API, and no DNS that would help"),
			Remedy: fmt.Sprintf("sed -i 's/^%s\\b/%s/' /etc/hosts   # on %s", strings.ReplaceAll(e.Address, ".", `\.`), cmp.Or(right, "ADDRESS-OF-ALL-APISERVERS"), e.Node),
		})
	}
	return all
}

package bgp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var nothingAccepted = rule.Rule{
	ID: "HF-BGP-005", Group: rule.BGP, Severity: rule.Error,
	Title: "BGP sessions are up, and no route passes: a policy that does not exist",
	Needs: []fact.Kind{fact.Files},
	Why: "FRR takes a route-map that is not defined, and one that is missing on a session with another AS (ebgp-requires-policy), for one " +
		"that denies all. The session is up, so that everybody takes it for good, and no route is in it.",
	Remedy: "define the route-map that the neighbour names; vtysh -c 'show route-map' counts what it was Invoked for",
	Drill:  "bgp-agent-restarted",
	Check:  checkAccepted,
}

func checkAccepted(f *fact.Facts) ([]rule.Finding, error) {
	var found []rule.Finding
	routers := 0
	for _, file := range f.FilesAt("/etc/frr/frr.conf") {
		root := conf.FRR(file.Object.Data)
		for _, bgp := range root.All("router", "bgp") {
			routers++
			found = append(found, undefined(file, root, bgp)...)
			found = append(found, withoutPolicy(file, root, bgp)...)
		}
	}
	for _, file := range f.FilesAt("!vtysh-bgp-summary.json") {
		routers++
		empty, err := emptySessions(file)
		if err != nil {
			return found, err
		}
		found = append(found, empty...)
	}
	if routers == 0 {
		return nil, fact.NotApplicable("no FRR with BGP")
	}
	return found, nil
}

// undefined finds route-maps that are named and nowhere defined.
func undefined(file fact.Item[fact.File], root, bgp *conf.Block) []rule.Finding {
	defined := map[string]bool{}
	var names []string
	for _, m := range root.All("route-map") {
		defined[m.Word(1)] = true
		names = append(names, m.Word(1))
	}
	var found []rule.Finding
	bgp.Walk(func(b *conf.Block) {
		name := b.After("route-map")
		if name == "" || defined[name] {
			return
		}
		found = append(found, rule.Finding{
			At: file.At.LineIn(b.Line), Key: b.Text(),
			What:   fmt.Sprintf("route-map %s is not defined on %s, which has %s", name, file.Object.Node, cmp.Or(strings.Join(slices.Compact(names), ", "), "none")),
			Effect: rule.Unending("as it is set up", "the session is up and passes no route"),
			Remedy: fmt.Sprintf("vtysh -c 'configure terminal' -c 'route-map %s permit 10' -c 'end' -c 'write'   # or mend the name", name),
		})
	})
	return found
}

// policyVersion is the first major version of FRR whose every minor wants a policy
// for sessions with another AS.
const policyVersion = 8

// withoutPolicy finds sessions with another AS that have no filter at all, where
// FRR wants one.
func withoutPolicy(file fact.Item[fact.File], root, bgp *conf.Block) []rule.Finding {
	version, _ := conf.Seconds(root.First("frr", "version").Word(2))
	if version.Seconds() < policyVersion || root.First("frr", "defaults").Word(2) != "traditional" || bgp.First("no", "bgp", "ebgp-requires-policy") != nil {
		return nil
	}
	filtered := map[string]bool{}
	bgp.Walk(func(b *conf.Block) {
		if b.Word(0) == "neighbor" && slices.Contains([]string{"route-map", "prefix-list", "filter-list", "distribute-list"}, b.Word(2)) {
			filtered[b.Word(1)] = true
		}
	})
	var found []rule.Finding
	for _, n := range bgp.All("neighbor") {
		peer, as := n.Word(1), n.Word(3)
		group := bgp.First("neighbor", peer, "peer-group").Word(3)
		if n.Word(2) != "remote-as" || as == "internal" || as == bgp.Word(2) || filtered[peer] || filtered[group] {
			continue
		}
		found = append(found, rule.Finding{
			At: file.At.LineIn(n.Line), Key: peer,
			What:   fmt.Sprintf("%s has no policy for %s of AS %s, and ebgp-requires-policy holds", file.Object.Node, peer, as),
			Effect: rule.Unending("as it is set up", "the session is up and passes no route"),
			Remedy: fmt.Sprintf("vtysh -c 'configure terminal' -c 'route-map ALL permit 10' -c '%s' -c 'address-family ipv4 unicast' -c 'neighbor %s route-map ALL in' -c 'neighbor %s route-map ALL out' -c 'end' -c 'write'",
				bgp.Text(), peer, peer),
		})
	}
	return found
}

// summary is what `show bgp summary json` says of one address family.
type summary map[string]struct {
	Peers map[string]struct {
		State    string `json:"state"`
		Received int    `json:"pfxRcd"`
		Sent     *int   `json:"pfxSnt"`
	} `json:"peers"`
}

// emptySessions finds those that are up and carry nothing in either direction.
func emptySessions(file fact.Item[fact.File]) ([]rule.Finding, error) {
	var s summary
	if err := json.Unmarshal(file.Object.Data, &s); err != nil {
		return nil, fact.Lacking("%s is not what `show bgp summary json` prints", file.At)
	}
	var found []rule.Finding
	for _, family := range slices.Sorted(maps.Keys(s)) {
		for _, peer := range slices.Sorted(maps.Keys(s[family].Peers)) {
			p := s[family].Peers[peer]
			if p.State != "Established" || p.Received > 0 || p.Sent == nil || *p.Sent > 0 {
				continue
			}
			found = append(found, rule.Finding{
				At: file.At, Key: family + "/" + peer,
				What:   fmt.Sprintf("%s has a session with %s that is up, and took and sent no route (%s)", file.Object.Node, peer, family),
				Effect: rule.Unending("as it is set up", "the session is up and passes no route"),
				Remedy: fmt.Sprintf("vtysh -c 'show bgp ipv4 unicast neighbors %s filtered-routes' -c 'show route-map'   # then: clear bgp %s soft in", peer, peer),
			})
		}
	}
	return found, nil
}

var oneRoute = rule.Rule{
	ID: "HF-BGP-006", Group: rule.BGP, Severity: rule.Warning,
	Title: "A router with several machines behind an address uses one of them",
	Needs: []fact.Kind{fact.Files},
	Why: "With maximum-paths 1 the other machines only stand by. All connections go through one, all of them break when it goes, and what " +
		"is wrong with the others comes to light on that day.",
	Remedy: "allow as many paths as there are machines",
	Drill:  "bgp-apiserver-killed",
	Check:  checkWidth,
}

func checkWidth(f *fact.Facts) ([]rule.Finding, error) {
	var found []rule.Finding
	routers := 0
	for _, file := range f.FilesAt("/etc/frr/frr.conf") {
		for _, bgp := range conf.FRR(file.Object.Data).All("router", "bgp") {
			peers := len(peersOf(bgp))
			if peers < 2 {
				continue
			}
			routers++
			bgp.Walk(func(b *conf.Block) {
				if !b.Has("maximum-paths", "1") && !b.Has("maximum-paths", "ibgp", "1") {
					return
				}
				found = append(found, rule.Finding{
					At: file.At.LineIn(b.Line), Key: b.Text(),
					What:   fmt.Sprintf("%s has %d neighbours and %s", file.Object.Node, peers, b.Text()),
					Effect: rule.Lasts("losing the one machine in use", "all connections are lost", lostBy(f, file.Object.Node)),
					Remedy: fmt.Sprintf("vtysh -c 'configure terminal' -c '%s' -c 'address-family ipv4 unicast' -c 'maximum-paths %d' -c 'end' -c 'write'", bgp.Text(), peers),
				})
			})
		}
	}
	if routers == 0 {
		return nil, fact.NotApplicable("no FRR with two neighbours")
	}
	return found, nil
}

func peersOf(bgp *conf.Block) map[string]bool {
	peers := map[string]bool{}
	for _, n := range bgp.All("neighbor") {
		if n.Word(2) == "remote-as" && !isGroup(bgp, n.Word(1)) || n.Word(2) == "peer-group" && n.Word(3) != "" {
			peers[n.Word(1)] = true
		}
	}
	return peers
}

var strictPaths = rule.Rule{
	ID: "HF-BGP-011", Group: rule.BGP, Severity: rule.Warning,
	Title: "Strict reverse-path filtering where packets come by several routers",
	Needs: []fact.Kind{fact.Files},
	Why: "With two routers a request may come by one and its answer leave by the other. rp_filter 1 drops what comes in where the way back " +
		"is another: ping and the handshake may work over one path, and data does not over the other.",
	Remedy: "set net.ipv4.conf.all.rp_filter to 2 on machines that announce",
	Drill:  "nat-asymmetric",
	Check:  checkStrict,
}

func checkStrict(f *fact.Facts) ([]rule.Finding, error) {
	var found []rule.Finding
	speakers := 0
	for _, file := range f.FilesAt("/etc/frr/frr.conf") {
		routers := 0
		for _, bgp := range conf.FRR(file.Object.Data).All("router", "bgp") {
			routers += len(peersOf(bgp))
		}
		if routers < 2 {
			continue
		}
		speakers++
		at, strict := reversePath(f, file.Object.Node)
		if !strict {
			continue
		}
		found = append(found, rule.Finding{
			At: at, Key: file.Object.Node,
			What:   fmt.Sprintf("%s filters strictly by the way back, and has %d routers", file.Object.Node, routers),
			Effect: rule.Unending("a request that comes by the router its answer does not leave by", "its packets are dropped"),
			Remedy: "echo 'net.ipv4.conf.all.rp_filter = 2' > /etc/sysctl.d/99-rp-filter.conf && sysctl --system",
		})
	}
	if speakers == 0 {
		return nil, fact.NotApplicable("no FRR with two neighbours")
	}
	return found, nil
}

// reversePath is the setting in force for all interfaces, the last one in the
// order in which sysctl.d(5) reads. A looser one of the interfaces wins, so that
// none may be set.
func reversePath(f *fact.Facts, node string) (at fact.Location, strict bool) {
	files := f.FilesAt("/etc/sysctl.d/*.conf")
	slices.SortFunc(files, func(a, b fact.Item[fact.File]) int {
		return strings.Compare(path.Base(a.Object.Path), path.Base(b.Object.Path))
	})
	for _, file := range append(files, f.FilesAt("/etc/sysctl.conf")...) {
		if file.Object.Node != node {
			continue
		}
		for _, line := range conf.Assignments(file.Object.Data, "#;").Blocks {
			key := strings.ReplaceAll(strings.TrimPrefix(line.Word(0), "-"), "/", ".")
			value, err := strconv.Atoi(line.Word(1))
			switch {
			case err != nil || !strings.HasPrefix(key, "net.ipv4.conf.") || !strings.HasSuffix(key, ".rp_filter"):
			case key == "net.ipv4.conf.all.rp_filter":
				at, strict = file.At.LineIn(line.Line), value == 1
			case value == 2:
				return at, false
			}
		}
	}
	return at, strict
}

package vip

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var preemptedAnyway = rule.Rule{
	ID: "HF-VIP-007", Group: rule.VIP, Severity: rule.Warning,
	Title: "nopreempt does nothing beside state MASTER",
	Needs: []fact.Kind{fact.Files},
	Why: "keepalived ignores nopreempt where the first state is MASTER. The machine takes the address back when it returns, so that " +
		"clients lose their connections a second time, maybe to an apiserver that is still starting.",
	Remedy: "state BACKUP on every machine, with nopreempt and different priorities",
	Drill:  "vip-node-returns",
	Check:  checkPreempted,
}

func checkPreempted(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	err := eachInstance(f, func(d daemon, i instance) {
		if !i.nopreempt || !strings.EqualFold(i.state, "MASTER") {
			return
		}
		all = append(all, rule.Finding{
			At: i.at, Key: d.node + "/" + i.name,
			What: fmt.Sprintf("vrrp_instance %s of %s has nopreempt and state MASTER", i.name, d.node),
			Effect: rule.Lasts("the machine coming back", "the address moves a second time, and both or none may answer",
				scenario.Adverts(i.interval, i.priority)),
			Remedy: "# in vrrp_instance " + i.name + " of every machine:\n    state BACKUP\n    nopreempt",
		})
	})
	return all, err
}

var neverMoves = rule.Rule{
	ID: "HF-VIP-008", Group: rule.VIP, Severity: rule.Error,
	Title: "nopreempt with a weighted check: the address never leaves a failed machine",
	Needs: []fact.Kind{fact.Files},
	Why: "A check with a weight only lowers the priority, and nopreempt forbids the others to take over from a lower one. By design the " +
		"address then stays where the apiserver is dead. Without a weight the failed machine gives it up.",
	Remedy: "take the weight out of the check, or nopreempt out of the instance",
	Drill:  "vip-apiserver-dead",
	Check:  checkNeverMoves,
}

func checkNeverMoves(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	err := eachInstance(f, func(d daemon, i instance) {
		if !i.nopreempt || strings.EqualFold(i.state, "MASTER") { // that is HF-VIP-007, and preempts
			return
		}
		for _, s := range d.tracked(i) {
			if s.weight == 0 {
				continue
			}
			all = append(all, rule.Finding{
				At: s.at, Key: d.node + "/" + i.name + "/" + s.name,
				What:   fmt.Sprintf("vrrp_script %s has weight %d, and vrrp_instance %s of %s nopreempt", s.name, s.weight, i.name, d.node),
				Effect: rule.Unending("the apiserver of the machine with the address dying", "the API does not answer by its address"),
				Remedy: "# in vrrp_script " + s.name + " of every machine, instead of weight:\n    weight 0",
			})
		}
	})
	return all, err
}

// member is an instance and whose it is.
type member struct {
	daemon
	instance
}

// members lists all instances; where only one machine's keepalived.conf is known,
// nobody can tell whether they agree.
func members(f *fact.Facts) ([]member, error) {
	var all []member
	nodes := map[string]bool{}
	err := eachInstance(f, func(d daemon, i instance) {
		all = append(all, member{d, i})
		nodes[d.node] = true
	})
	if err == nil && len(nodes) < 2 {
		err = fact.Lacking("keepalived.conf of one machine only; the others' say whether they agree")
	}
	return all, err
}

var missingPeer = rule.Rule{
	ID: "HF-VIP-015", Group: rule.VIP, Severity: rule.Error,
	Title: "keepalived does not send its adverts to all that wait for them",
	Needs: []fact.Kind{fact.Files},
	Why: "With unicast, only the peers that are listed hear an advert. A machine that none reaches takes the holder for dead and holds the " +
		"address too; which of the two a client reaches is left to ARP.",
	Remedy: "list every other machine in unicast_peer, on each",
	Drill:  "vip-node-silent",
	Check:  checkPeers,
}

func checkPeers(f *fact.Facts) ([]rule.Finding, error) {
	all, err := members(f)
	if err != nil {
		return nil, err
	}
	var found []rule.Finding
	for _, a := range all {
		for _, b := range all {
			if a.node == b.node || a.vrid != b.vrid || !slices.Equal(a.addresses, b.addresses) || !a.unicast {
				continue
			}
			what := ""
			switch {
			case !b.unicast:
				what = fmt.Sprintf("%s sends its adverts by unicast, and %s waits for multicast", a.node, b.node)
			case b.source != "" && !slices.Contains(a.peers, b.source):
				what = fmt.Sprintf("unicast_peer of %s does not list %s, which is %s", a.node, b.source, b.node)
			default:
				continue
			}
			found = append(found, rule.Finding{
				At: a.at, Key: a.node + "/" + a.name + "/" + b.node, What: what,
				Effect: rule.Unending("as it is set up", fmt.Sprintf("%s and %s may both hold %s", a.node, b.node, strings.Join(a.addresses, ", "))),
				Remedy: fmt.Sprintf("# in vrrp_instance %s of %s:\n    unicast_peer {\n        %s\n    }", a.name, a.node,
					strings.Join(append(slices.Clone(a.peers), b.source), "\n        ")),
			})
		}
	}
	return found, nil
}

var disagree = rule.Rule{
	ID: "HF-VIP-016", Group: rule.VIP, Severity: rule.Error,
	Title: "Machines that share an address disagree about its VRRP router",
	Needs: []fact.Kind{fact.Files},
	Why: "Adverts of another virtual_router_id, of other addresses or of another interval are not heard as the holder's. Each machine then " +
		"takes itself for the only one and holds the address.",
	Remedy: "the same virtual_router_id, advert_int and addresses on all machines of an address, and another id for every other address of the network",
	Drill:  "vip-node-silent",
	Check:  checkDisagree,
}

func checkDisagree(f *fact.Facts) ([]rule.Finding, error) {
	all, err := members(f)
	if err != nil {
		return nil, err
	}
	var found []rule.Finding
	for n, a := range all {
		for _, b := range all[n+1:] {
			shared := slices.ContainsFunc(a.addresses, func(s string) bool { return slices.Contains(b.addresses, s) })
			if a.node == b.node || !shared {
				continue
			}
			what := ""
			switch {
			case a.vrid != b.vrid:
				what = fmt.Sprintf("virtual_router_id is %s on %s and %s on %s", a.vrid, a.node, b.vrid, b.node)
			case a.interval != b.interval:
				what = fmt.Sprintf("advert_int is %s on %s and %s on %s", a.interval, a.node, b.interval, b.node)
			case !slices.Equal(a.addresses, b.addresses):
				what = fmt.Sprintf("the addresses of virtual router %s are other ones on %s than on %s", a.vrid, a.node, b.node)
			default:
				continue
			}
			found = append(found, rule.Finding{
				At: b.at, Key: a.node + "/" + b.node + "/" + b.name, What: what,
				Effect: rule.Unending("as it is set up", fmt.Sprintf("%s and %s may both hold %s", a.node, b.node, strings.Join(b.addresses, ", "))),
				Remedy: fmt.Sprintf("# in vrrp_instance %s of %s, as %s has it:\n    virtual_router_id %s\n    advert_int %g", b.name, b.node, a.node, a.vrid, a.interval.Seconds()),
			})
		}
	}
	return found, nil
}

package remote

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// tablePrefix begins the name of every nft table of ours.
const tablePrefix = "holdfast_drill_"

// controllerWord stands in rules for the address of the controller as the host
// sees it, which the script fills in.
const controllerWord = "@CONTROLLER@"

// HostCut is what one host drops of its traffic with Peers.
type HostCut struct {
	Peers []netip.Prefix
	// Names are those of the peers, for the print-out.
	Names []string
	// Out takes what goes to the peers, In what comes from them.
	Out, In bool
	// State is all, new or established; "" is all.
	State  string
	Proto  string
	Ports  []uint16
	Action string
}

func hostCut(c scenario.Cut, peers []Host, out, in bool) *HostCut {
	h := &HostCut{Out: out, In: in, State: c.State, Proto: c.Proto, Ports: c.Ports, Action: c.Action}
	h.Names, h.Peers = peersOf(peers)
	return h
}

// peersOf are the names of hosts, and all that they are reached by.
func peersOf(hosts []Host) (names []string, peers []netip.Prefix) {
	for _, p := range hosts {
		names = append(names, p.Name)
		peers = append(peers, netip.PrefixFrom(p.Address, p.Address.BitLen()))
		peers = append(peers, p.Networks...)
	}
	return names, peers
}

// ruleset is the text that `nft -f` loads: one table of our own. It hooks before
// the host's filters (priority -10), because what those accept must be dropped
// too, and what those drop is dropped anyway. The forward hook takes pods.
func (c *HostCut) ruleset(id int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s%d {\n", tablePrefix, id)
	if c.State == "established" {
		b.WriteString(youngSets)
	}
	for _, hook := range []string{"input", "output", "forward"} {
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype filter hook %[1]s priority -10; policy accept;\n", hook)
		if hook != "forward" {
			b.WriteString("\t\t" + spare(hook) + "\n")
		}
		if hook == "input" && c.Out {
			// The reset that answers the host's own packets comes back to it over
			// the loopback, in the name of the peer.
			b.WriteString("\t\tiifname \"lo\" accept\n")
		}
		if c.In && hook != "output" {
			b.WriteString(eachPeer(c.Peers, "saddr", "jump cut"))
		}
		if c.Out && hook != "input" {
			b.WriteString(eachPeer(c.Peers, "daddr", "jump cut"))
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("\tchain cut {\n")
	for _, r := range c.takes() {
		b.WriteString("\t\t" + r + "\n")
	}
	b.WriteString("\t}\n}\n")
	return b.String()
}

// spare lets the controller's SSH pass: who can no longer undo must not have cut.
// The words in @…@ come from SSH_CONNECTION on the host.
func spare(hook string) string {
	if hook == "input" {
		return "@FAMILY@ saddr " + controllerWord + " tcp dport @PORT@ accept"
	}
	return "@FAMILY@ daddr " + controllerWord + " tcp sport @PORT@ accept"
}

// eachPeer is a rule for each peer at one end.
func eachPeer(peers []netip.Prefix, end, verdict string) string {
	var b strings.Builder
	for _, family := range []string{"ip", "ip6"} {
		var set []string
		for _, p := range peers {
			if p.Addr().Is4() == (family == "ip") {
				set = append(set, element(p))
			}
		}
		slices.Sort(set)
		for _, e := range slices.Compact(set) {
			fmt.Fprintf(&b, "\t\t%s %s %s %s\n", family, end, e, verdict)
		}
	}
	return b.String()
}

func element(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// youngSets hold the TCP connections that began under the cut, of which there may be
// as many as a busy host opens in an hour; youngRules write them down and let them pass.
// What is not written down is older: conntrack would have to have been watching before,
// and a mark of ours on its entries would outlive the cut.
const youngSets = `	set young {
		typeof ip saddr . tcp sport . ip daddr . tcp dport
		flags dynamic
		size 1048576
	}
	set young6 {
		typeof ip6 saddr . tcp sport . ip6 daddr . tcp dport
		flags dynamic
		size 1048576
	}
`

var youngRules = []string{
	"tcp flags & (syn | ack) == syn add @young { ip saddr . tcp sport . ip daddr . tcp dport } return",
	"tcp flags & (syn | ack) == syn add @young6 { ip6 saddr . tcp sport . ip6 daddr . tcp dport } return",
	"ip saddr . tcp sport . ip daddr . tcp dport @young return",
	"ip daddr . tcp dport . ip saddr . tcp sport @young return",
	"ip6 saddr . tcp sport . ip6 daddr . tcp dport @young6 return",
	"ip6 daddr . tcp dport . ip6 saddr . tcp sport @young6 return",
}

// takes lets pass what the cut does not want, then takes the rest. A new TCP
// connection is told by its SYN and not by conntrack, which has not seen the
// connections that are older than its first rule and calls them new.
func (c *HostCut) takes() []string {
	var r []string
	switch {
	case c.Proto == "vxlan":
		r = append(r, "meta l4proto != udp return", "udp dport != 4789 return")
	case c.Proto == "tcp", c.Proto == "udp":
		r = append(r, fmt.Sprintf("meta l4proto != %s return", c.Proto))
	case len(c.Ports) > 0:
		r = append(r, "meta l4proto != { tcp, udp } return")
	}
	switch c.State {
	case "established":
		r = append(r, youngRules...)
	case "new":
		r = append(r, "tcp flags & (syn | ack) != syn return", "meta l4proto != tcp ct state != new return")
	}
	verdicts := []string{"counter drop"}
	switch c.Action {
	case "reset":
		verdicts = []string{"meta l4proto tcp counter reject with tcp reset", "counter drop"}
	case "icmp":
		verdicts = []string{"counter reject with icmpx type admin-prohibited"}
	}
	for _, m := range c.matches() {
		for _, v := range verdicts {
			r = append(r, m+v)
		}
	}
	return r
}

// matches is either end in a rule each.
func (c *HostCut) matches() []string {
	if len(c.Ports) == 0 || c.Proto == "vxlan" {
		return []string{""}
	}
	words := make([]string, len(c.Ports))
	for i, p := range c.Ports {
		words[i] = fmt.Sprint(p)
	}
	set := "{ " + strings.Join(words, ", ") + " } "
	return []string{"th dport " + set, "th sport " + set}
}

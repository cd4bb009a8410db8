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
	New     bool
	Proto   string
	Ports   []uint16
	Action  string
}

func hostCut(c scenario.Cut, peers []Host, out, in bool) *HostCut {
	h := &HostCut{Out: out, In: in, New: c.State == "new", Proto: c.Proto, Ports: c.Ports, Action: c.Action}
	for _, p := range peers {
		h.Names = append(h.Names, p.Name)
		h.Peers = append(h.Peers, netip.PrefixFrom(p.Address, p.Address.BitLen()))
		h.Peers = append(h.Peers, p.Networks...)
	}
	return h
}

// ruleset is the text that `nft -f` loads: one table of our own. It hooks before
// the host's filters (priority -10), because what those accept must be dropped
// too, and what those drop is dropped anyway. The forward hook takes pods.
func (op Operation) ruleset() string {
	c := op.Cut
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s%d {\n", tablePrefix, op.ID)
	for _, hook := range []string{"input", "output", "forward"} {
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype filter hook %[1]s priority -10; policy accept;\n", hook)
		if hook != "forward" {
			b.WriteString("\t\t" + spare(hook) + "\n")
		}
		if c.In && hook != "output" {
			b.WriteString(c.jumps("saddr"))
		}
		if c.Out && hook != "input" {
			b.WriteString(c.jumps("daddr"))
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

// jumps matches the peers at one end, a rule for each family.
func (c *HostCut) jumps(end string) string {
	var b strings.Builder
	for _, family := range []string{"ip", "ip6"} {
		var set []string
		for _, p := range c.Peers {
			if p.Addr().Is4() == (family == "ip") {
				set = append(set, element(p))
			}
		}
		slices.Sort(set)
		for _, e := range slices.Compact(set) {
			fmt.Fprintf(&b, "\t\t%s %s %s jump cut\n", family, end, e)
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
	if c.New {
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

package lab

import (
	"fmt"
	"slices"
	"strings"
)

// vxlanPort is IANA's UDP port for VXLAN (RFC 7348 section 5).
const vxlanPort = 4789

// ruleset writes the nftables text of one site's router: losses of its links
// (loss maps an interface to a share) and the cuts of packets that leave
// through it. Loading the text replaces the previous one in one transaction.
//
// Connections are told apart by the generation of the lab in which they were
// opened, kept as their conntrack mark, and not by `ct state`: a one-way UDP
// flow such as VXLAN is "new" for its whole life to conntrack, and a connection
// opened after a cut of established ones must go on when it is established
// itself.
func ruleset(p plan, site string, generation uint32, cuts []Applied, loss map[string]float64) string {
	w := &ruleWriter{plan: p, site: site}
	for i, c := range cuts {
		w.cut(i+1, c)
	}
	var b strings.Builder
	b.WriteString("table inet holdfast\ndelete table inet holdfast\ntable inet holdfast {\n")
	b.WriteString("\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n")
	fmt.Fprintf(&b, "\t\tct mark 0 ct mark set %d\n", generation)
	for _, r := range w.jumps {
		b.WriteString("\t\t" + r + "\n")
	}
	for _, ifname := range sorted(loss) {
		if loss[ifname] > 0 {
			fmt.Fprintf(&b, "\t\toifname %q numgen random mod 1000000 < %d counter drop\n", ifname, int(loss[ifname]*1e6))
		}
	}
	b.WriteString("\t}\n" + w.chains.String() + "}\n")
	b.WriteString("table bridge holdfast\ndelete table bridge holdfast\n")
	if len(w.bridge)+len(w.entering)+len(w.leaving) > 0 {
		b.WriteString("table bridge holdfast {\n")
		bridgeChain(&b, "prerouting", w.entering)
		bridgeChain(&b, "forward", w.bridge)
		bridgeChain(&b, "postrouting", w.leaving)
		b.WriteString("}\n")
	}
	return b.String()
}

// bridgeChain writes the chain of a hook of the bridge, unless it has no rules.
func bridgeChain(b *strings.Builder, hook string, rules []string) {
	if len(rules) == 0 {
		return
	}
	fmt.Fprintf(b, "\tchain %s {\n\t\ttype filter hook %s priority filter; policy accept;\n", hook, hook)
	for _, r := range rules {
		b.WriteString("\t\t" + r + "\n")
	}
	b.WriteString("\t}\n")
}

type ruleWriter struct {
	plan   plan
	site   string
	jumps  []string
	chains strings.Builder
	bridge []string
	// entering and leaving are frames at the ports of nodes that are cut off.
	entering, leaving []string
}

// cut adds the rules of one cut: jumps that say where, a chain that says what.
func (w *ruleWriter) cut(n int, c Applied) {
	if c.Via != "" {
		w.strict(n, c)
		return
	}
	from, _ := w.plan.end(c.From)
	to := end{}
	if c.To != "" {
		to, _ = w.plan.end(c.To)
	}
	places := w.places(from, to)
	if !c.OneWay {
		places = append(places, w.places(to, from)...)
	}
	if len(places) > 0 {
		for _, m := range places {
			w.jumps = append(w.jumps, fmt.Sprintf("%s jump cut-%d", m, n))
		}
		fmt.Fprintf(&w.chains, "\tchain cut-%d { # %s\n", n, c.Cut)
		for _, r := range verdict(c) {
			w.chains.WriteString("\t\t" + r + "\n")
		}
		w.chains.WriteString("\t}\n")
	}
	w.inside(c.Cut, from, to)
}

// places matches packets from x to y that leave the site here.
func (w *ruleWriter) places(x, y end) []string {
	if x.site != "" && x.site != w.site || y.site == w.site || x.site == y.site {
		return nil
	}
	out := "to-*"
	if y.site != "" {
		if _, ok := w.plan.link(w.site, y.site); !ok {
			return nil
		}
		out = uplink(y.site)
	}
	match4, match6 := fmt.Sprintf("oifname %q", out), fmt.Sprintf("oifname %q", out)
	if x.node == "" && y.node == "" {
		return []string{match4}
	}
	if n, ok := w.plan.node(x.node); ok {
		match4, match6 = match4+" ip saddr "+n.ip4.String(), match6+" ip6 saddr "+n.ip6.String()
	}
	if n, ok := w.plan.node(y.node); ok {
		match4, match6 = match4+" ip daddr "+n.ip4.String(), match6+" ip6 daddr "+n.ip6.String()
	}
	return []string{match4, match6}
}

// verdict lets pass what the cut does not take, and then takes the rest.
func verdict(c Applied) []string {
	var r []string
	switch c.State {
	case StateNew:
		r = append(r, "ct state invalid return", "ct direction reply return", fmt.Sprintf("ct mark < %d return", c.generation))
	case StateEstablished:
		r = append(r, fmt.Sprintf("ct mark >= %d return", c.generation))
	}
	r = append(r, selection(c.Cut)...)
	for _, port := range ports(c.Ports) {
		for _, take := range takes(c.Action) {
			r = append(r, port+take)
		}
	}
	return r
}

func takes(a CutAction) []string {
	switch a {
	case ActionReset:
		return []string{"meta l4proto tcp counter reject with tcp reset", "counter drop"}
	case ActionICMP:
		return []string{"counter reject with icmpx type admin-prohibited"}
	default:
		return []string{"counter drop"}
	}
}

// ports matches either end, one rule each. Both in one rule, negated, would be
// shorter, but nft 1.0.6 merges the two comparisons into one of 32 bits, which
// then means "not both".
func ports(list []uint16) []string {
	if len(list) == 0 {
		return []string{""}
	}
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = fmt.Sprint(p)
	}
	set := "{ " + strings.Join(words, ", ") + " } "
	return []string{"th dport " + set, "th sport " + set}
}

func selection(c Cut) []string {
	var r []string
	switch c.Proto {
	case ProtoTCP, ProtoUDP:
		r = append(r, fmt.Sprintf("meta l4proto != %s return", c.Proto))
	case ProtoVXLAN:
		return []string{"meta l4proto != udp return", fmt.Sprintf("udp dport != %d return", vxlanPort)}
	case ProtoAll:
		if len(c.Ports) > 0 {
			r = append(r, "meta l4proto != { tcp, udp } return")
		}
	}
	return r
}

// inside adds rules on the bridge for nodes of the same site.
func (w *ruleWriter) inside(c Cut, from, to end) {
	if from.site != w.site || !c.inside(w.plan) {
		return
	}
	x, _ := w.plan.node(from.node)
	y, _ := w.plan.node(to.node)
	if c.silences() {
		w.entering = append(w.entering, fmt.Sprintf("iifname %q counter drop", x.name))
		if !c.OneWay {
			w.leaving = append(w.leaving, fmt.Sprintf("oifname %q counter drop", x.name))
		}
		return
	}
	w.bridge = append(w.bridge, bridgeRules(c, x, y)...)
	if !c.OneWay {
		w.bridge = append(w.bridge, bridgeRules(c, y, x)...)
	}
}

// bridgeRules drops frames from x to y; a zero node is any.
func bridgeRules(c Cut, x, y nodePlan) []string {
	match4, match6 := "", ""
	if x.name != "" {
		match4, match6 = "ip saddr "+x.ip4.String(), "ip6 saddr "+x.ip6.String()
	}
	if y.name != "" {
		match4, match6 = strings.TrimSpace(match4+" ip daddr "+y.ip4.String()), strings.TrimSpace(match6+" ip6 daddr "+y.ip6.String())
	}
	var what []string
	switch {
	case c.Proto == ProtoVXLAN:
		what = []string{fmt.Sprintf("udp dport %d", vxlanPort)}
	case len(c.Ports) > 0:
		what = portMatches(c)
	case c.Proto != ProtoAll:
		what = []string{"meta l4proto " + string(c.Proto)}
	default:
		what = []string{""}
	}
	var r []string
	for _, m := range []string{match4, match6} {
		for _, what := range what {
			r = append(r, strings.Join(strings.Fields(m+" "+what+" counter drop"), " "))
		}
	}
	return r
}

func portMatches(c Cut) []string {
	protos := []string{string(c.Proto)}
	if c.Proto == ProtoAll {
		protos = []string{"tcp", "udp"}
	}
	var r []string
	for _, proto := range protos {
		for _, port := range c.Ports {
			r = append(r, fmt.Sprintf("%s dport %d", proto, port), fmt.Sprintf("%s sport %d", proto, port))
		}
	}
	return r
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

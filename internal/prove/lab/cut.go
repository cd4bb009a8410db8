package lab

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CutState says which connections a cut takes.
type CutState string

const (
	// StateAll takes every packet.
	StateAll CutState = "all"
	// StateNew takes connections opened after the cut in its direction; those
	// that existed go on.
	StateNew CutState = "new"
	// StateEstablished takes connections that existed when the cut was made;
	// those opened after it go through.
	StateEstablished CutState = "established"
)

// CutProto says which packets a cut takes.
type CutProto string

const (
	ProtoAll CutProto = "all"
	ProtoTCP CutProto = "tcp"
	ProtoUDP CutProto = "udp"
	// ProtoVXLAN is UDP to port 4789 (RFC 7348), what an overlay between nodes
	// sends.
	ProtoVXLAN CutProto = "vxlan"
)

// CutAction says what happens to the packets taken.
type CutAction string

const (
	// ActionDrop is silence, as of a dead line.
	ActionDrop CutAction = "drop"
	// ActionReset answers TCP with RST and drops the rest.
	ActionReset CutAction = "reset"
	// ActionICMP answers "administratively prohibited", as a firewall does.
	ActionICMP CutAction = "icmp"
)

// Cut is a fault of the network. Zero State, Proto and Action mean all, all
// and drop.
type Cut struct {
	// Name is what Heal takes; "" means the text of the cut.
	Name string `json:"name"`
	// From and To are a site or a node each; To "" means everything else, so
	// that {From: "b"} isolates site b.
	From string `json:"from"`
	To   string `json:"to,omitempty"`
	// OneWay takes only packets that travel from From to To.
	OneWay bool      `json:"one_way,omitempty"`
	State  CutState  `json:"state,omitempty"`
	Proto  CutProto  `json:"proto,omitempty"`
	Ports  []uint16  `json:"ports,omitempty"` // of either end
	Action CutAction `json:"action,omitempty"`
	// Via is a third site, whose router gets the packets that travel from From
	// to To while answers come directly. It is a strict firewall: what belongs
	// to no connection that it has seen open is dropped. So ping and the
	// handshake work from From, and data does not; nothing works from To but
	// what needs no answer. From and To are sites, the rest is left out.
	Via string `json:"via,omitempty"`
}

// Applied is a cut in force.
type Applied struct {
	Cut
	// Since is when the rules took effect, before they were verified.
	Since time.Time `json:"since"`
	// generation is the value of the lab's counter at the cut: connections
	// opened before carry a smaller mark.
	generation uint32
}

// String is the cut in the grammar of ParseCut, followed by what it takes.
func (c Cut) String() string {
	c = c.withDefaults()
	var b strings.Builder
	b.WriteString(c.route())
	if c.Via != "" {
		b.WriteString(" via " + c.Via)
	}
	if c.State != StateAll {
		b.WriteString(" " + string(c.State))
	}
	if c.Proto != ProtoAll {
		b.WriteString(" " + string(c.Proto))
	}
	if len(c.Ports) > 0 {
		b.WriteString(" port")
		for i, p := range c.Ports {
			b.WriteString(map[bool]string{true: " ", false: ","}[i == 0] + strconv.Itoa(int(p)))
		}
	}
	if c.Action != ActionDrop {
		b.WriteString(" " + string(c.Action))
	}
	return b.String()
}

// route is "a-b", "a>b", "a" (isolated) or "a>" (sends nothing).
func (c Cut) route() string {
	switch {
	case c.OneWay, c.Via != "":
		return c.From + ">" + c.To
	case c.To == "":
		return c.From
	}
	return c.From + "-" + c.To
}

func (c Cut) withDefaults() Cut {
	c.State = cmp.Or(c.State, StateAll)
	c.Proto = cmp.Or(c.Proto, ProtoAll)
	c.Action = cmp.Or(c.Action, ActionDrop)
	return c
}

var routeForm = regexp.MustCompile(`^([a-z][a-z0-9]*)(?:(-|->|>)([a-z][a-z0-9]*)?)?$`)

// ParseCut reads where a cut is: "a-b" (both ways), "a>b" or "a->b" (packets
// from a to b), "b" (b from everything else), "b>" (what b sends). Ends are
// sites or nodes.
func ParseCut(s string) (Cut, error) {
	m := routeForm.FindStringSubmatch(s)
	if m == nil || m[2] == "-" && m[3] == "" {
		return Cut{}, fmt.Errorf("cut %q is not understood: write a-b (both ways), a>b (packets from a to b), or a (isolate a)", s)
	}
	return Cut{From: m[1], To: m[3], OneWay: strings.HasSuffix(m[2], ">")}, nil
}

// check reports what makes the cut impossible in this lab.
func (c Cut) check(p plan) error {
	if !slices.Contains([]CutState{StateAll, StateNew, StateEstablished}, c.State) {
		return fmt.Errorf("cut %s has the unknown state %q: use all, new or established", c.route(), c.State)
	}
	if !slices.Contains([]CutProto{ProtoAll, ProtoTCP, ProtoUDP, ProtoVXLAN}, c.Proto) {
		return fmt.Errorf("cut %s has the unknown protocol %q: use all, tcp, udp or vxlan", c.route(), c.Proto)
	}
	if !slices.Contains([]CutAction{ActionDrop, ActionReset, ActionICMP}, c.Action) {
		return fmt.Errorf("cut %s has the unknown action %q: use drop, reset or icmp", c.route(), c.Action)
	}
	if c.Action == ActionReset && c.Proto != ProtoAll && c.Proto != ProtoTCP {
		return fmt.Errorf("cut %s answers %s with a TCP reset: use tcp, or the action icmp", c.route(), c.Proto)
	}
	if len(c.Ports) > 0 && c.Proto == ProtoVXLAN {
		return fmt.Errorf("cut %s gives ports beside vxlan, which is port %d: use udp", c.route(), vxlanPort)
	}
	if slices.Contains(c.Ports, 0) {
		return fmt.Errorf("cut %s gives port 0: use 1 to 65535", c.route())
	}
	if c.Via != "" {
		return c.checkDetour(p)
	}
	return c.checkEnds(p)
}

func (c Cut) checkEnds(p plan) error {
	from, err := p.end(c.From)
	if err != nil {
		return fmt.Errorf("cut %s: %w", c.route(), err)
	}
	to := end{}
	if c.To != "" {
		if to, err = p.end(c.To); err != nil {
			return fmt.Errorf("cut %s: %w", c.route(), err)
		}
	}
	switch {
	case from.site == to.site && (from.node == "" || to.node == "" || from.node == to.node):
		return fmt.Errorf("cut %s has one end inside the other: name two sites, or two nodes", c.route())
	case to.site != "" && from.site != to.site:
		if _, ok := p.link(from.site, to.site); !ok {
			return fmt.Errorf("cut %s: there is no link between %s and %s", c.route(), from.site, to.site)
		}
	case from.node != "" && c.inside(p) && (c.State != StateAll || c.Action != ActionDrop):
		return fmt.Errorf("cut %s reaches inside site %s, where only all connections can be dropped: leave state and action out", c.route(), from.site)
	}
	return nil
}

// inside reports whether the cut separates nodes of one site.
func (c Cut) inside(p plan) bool {
	from, _ := p.end(c.From)
	to, _ := p.end(c.To)
	s, _ := p.site(from.site)
	return from.node != "" && len(s.nodes) > 1 && (c.To == "" || from.site == to.site)
}

// silences reports whether the cut takes everything that a node sends, or sends
// and hears: then every frame is dropped at its port, also ARP and whatever has
// other addresses than its own, while its carrier stays.
func (c Cut) silences() bool {
	return c.To == "" && c.State == StateAll && c.Action == ActionDrop && c.Proto == ProtoAll && len(c.Ports) == 0
}

// end is what a name in a cut stands for: a whole site (node "") or a node. The
// zero end is everything.
type end struct{ site, node string }

func (p plan) end(name string) (end, error) {
	if s, ok := p.site(name); ok {
		return end{site: s.Name}, nil
	}
	if n, ok := p.node(name); ok {
		return end{site: n.site, node: n.name}, nil
	}
	var known []string
	for _, s := range p.sites {
		known = append(known, s.Name)
	}
	for _, n := range p.nodes() {
		known = append(known, n.name)
	}
	return end{}, fmt.Errorf("site or node %q is unknown: use %s", name, strings.Join(known, ", "))
}

func (e end) has(n nodePlan) bool {
	return e.site == "" || e.site == n.site && (e.node == "" || e.node == n.name)
}

// takes reports whether packets from x to y are in a direction of the cut.
func (c Cut) takes(p plan, x, y nodePlan) bool {
	from, _ := p.end(c.From)
	to := end{}
	if c.To != "" {
		to, _ = p.end(c.To)
	}
	along := func(x, y nodePlan) bool {
		if c.To == "" && from.has(x) && from.has(y) {
			return false // everything else, not itself
		}
		return from.has(x) && to.has(y)
	}
	return along(x, y) || !c.OneWay && along(y, x)
}

package lab

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is one way of reaching a node.
type Kind string

const (
	// KindUDP and KindUDP6 are one datagram of a new flow, counted when it
	// arrives, not when its answer does: the only kind that sees one direction
	// alone.
	KindUDP  Kind = "udp"
	KindUDP6 Kind = "udp6"
	// KindFlow is a datagram of a UDP flow that is as old as the lab.
	KindFlow Kind = "flow"
	// KindVXLAN is a datagram to port 4789.
	KindVXLAN Kind = "vxlan"
	// KindNew is a TCP connection opened now, and an echo over it.
	KindNew Kind = "new"
	// KindKept is an echo over a TCP connection that was open before.
	KindKept Kind = "kept"
)

// kinds are measured between all nodes; "tcp/PORT" and "udp/PORT" only where a
// cut of ports is in force, "dial" and "ping" only across a detour.
var kinds = []Kind{KindUDP, KindUDP6, KindFlow, KindVXLAN, KindNew, KindKept}

// Matrix says which node reaches which, by kind.
type Matrix struct {
	// Cells has one entry per ordered pair of nodes, sorted.
	Cells []Cell `json:"cells"`
}

// Cell is one ordered pair.
type Cell struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	Open map[Kind]bool `json:"open"`
}

// Cell returns the cell of a pair.
func (m Matrix) Cell(from, to string) (Cell, bool) {
	for _, c := range m.Cells {
		if c.From == from && c.To == to {
			return c, true
		}
	}
	return Cell{}, false
}

// Open reports whether from reaches to in the given way.
func (m Matrix) Open(from, to string, k Kind) bool {
	c, ok := m.Cell(from, to)
	return ok && c.Open[k]
}

// Mismatch is a kind of a pair that was measured differently than declared.
type Mismatch struct {
	From, To   string
	Kind       Kind
	Want, Have bool
}

func (m Mismatch) String() string {
	words := map[bool]string{true: "open", false: "blocked"}
	return fmt.Sprintf("%s to %s by %s is %s, declared %s", m.From, m.To, m.Kind, words[m.Have], words[m.Want])
}

// Differs lists what was measured in m and declared otherwise in want. Kinds
// that either does not know are left out.
func (m Matrix) Differs(want Matrix) []Mismatch {
	var out []Mismatch
	for _, c := range m.Cells {
		w, ok := want.Cell(c.From, c.To)
		if !ok {
			continue
		}
		for _, k := range sortedKinds(c.Open) {
			if open, known := w.Open[k]; known && open != c.Open[k] {
				out = append(out, Mismatch{c.From, c.To, k, open, c.Open[k]})
			}
		}
	}
	return out
}

func sortedKinds(m map[Kind]bool) []Kind {
	ks := make([]Kind, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// expected derives the matrix from links and cuts.
func expected(p plan, cuts []Applied) Matrix {
	var m Matrix
	nodes := p.nodes()
	for _, x := range nodes {
		for _, y := range nodes {
			if x.name == y.name {
				continue
			}
			c := Cell{From: x.name, To: y.name, Open: map[Kind]bool{}}
			_, linked := p.link(x.site, y.site)
			linked = linked || x.site == y.site
			for _, k := range kinds {
				c.Open[k] = linked && !blocked(p, cuts, x, y, k)
			}
			for _, k := range detourKinds(cuts, x, y) {
				c.Open[k] = linked && !blocked(p, cuts, x, y, k)
			}
			for _, k := range portKinds(p, cuts, x, y) {
				c.Open[k] = false
			}
			m.Cells = append(m.Cells, c)
		}
	}
	return m
}

func blocked(p plan, cuts []Applied, x, y nodePlan, k Kind) bool {
	return slices.ContainsFunc(cuts, func(c Applied) bool { return c.blocks(p, x, y, k) })
}

// blocks reports whether the cut alone keeps x from reaching y by k. TCP needs
// both directions, whoever opened the connection; a cut of new connections
// needs only the opener's.
func (c Cut) blocks(p plan, x, y nodePlan, k Kind) bool {
	if c.Via != "" {
		return c.stopsDetoured(x, y, k)
	}
	there, back := c.takes(p, x, y), c.takes(p, y, x)
	if !c.selects(k) {
		return false
	}
	switch k {
	case KindNew, KindDial, KindPing:
		return c.State == StateAll && (there || back) || c.State == StateNew && there
	case KindKept:
		return c.State != StateNew && (there || back)
	case KindFlow:
		return c.State != StateNew && there
	default:
		return c.State != StateEstablished && there
	}
}

// selects reports whether protocol and ports of the cut include the probe.
func (c Cut) selects(k Kind) bool {
	udp, port := true, uint16(echoPort)
	switch k {
	case KindNew, KindKept, KindDial:
		udp = false
	case KindPing:
		return c.Proto == ProtoAll && len(c.Ports) == 0
	case KindVXLAN:
		port = vxlanPort
	}
	if len(c.Ports) > 0 && !slices.Contains(c.Ports, port) {
		return false
	}
	switch c.Proto {
	case ProtoTCP:
		return !udp
	case ProtoUDP:
		return udp
	case ProtoVXLAN:
		return k == KindVXLAN
	}
	return true
}

// portKinds lists the ports of y that cuts keep x from. A cut of established
// connections keeps nobody from opening one, so it has none.
func portKinds(p plan, cuts []Applied, x, y nodePlan) []Kind {
	var ks []Kind
	for _, c := range cuts {
		if c.State == StateEstablished {
			continue
		}
		there := c.takes(p, x, y)
		for _, port := range c.Ports {
			if c.Proto != ProtoUDP && (there || c.State == StateAll && c.takes(p, y, x)) {
				ks = append(ks, Kind(fmt.Sprintf("tcp/%d", port)))
			}
			if c.Proto != ProtoTCP && there {
				ks = append(ks, Kind(fmt.Sprintf("udp/%d", port)))
			}
		}
	}
	slices.Sort(ks)
	return slices.Compact(ks)
}

// split takes "tcp/2380" apart; ok is false for the plain kinds.
func (k Kind) split() (proto string, port uint16, ok bool) {
	proto, text, ok := strings.Cut(string(k), "/")
	if !ok {
		return "", 0, false
	}
	_, err := fmt.Sscan(text, &port)
	return proto, port, err == nil
}

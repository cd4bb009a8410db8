package remote

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Print says what a plan would do, whom it touches and how it ends, for a person
// who decides whether to let it.
func Print(p *Plan, inv *Inventory) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %d of %d hosts, for %v; a host that hears no more undoes by itself %v after it was armed\n",
		p.Scenario, len(p.hosts(inv)), len(inv.Hosts), p.Hold, p.DeadMan)
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "\n%s, from %v to %v\n", s.Name, s.At, s.Until)
		for _, op := range s.Ops {
			h := inv.host(op.Host)
			fmt.Fprintf(&b, "  %s (%s, site %s, %s): %s\n", h.Name, h.Address, h.Site, h.Role, op)
		}
	}
	var untouched []string
	for _, h := range inv.Hosts {
		if len(p.of(h.Name)) == 0 {
			untouched = append(untouched, h.Name)
		}
	}
	if len(untouched) > 0 {
		fmt.Fprintf(&b, "\nnot touched: %s\n", strings.Join(untouched, ", "))
	}
	b.WriteString("\nspared: the SSH connections of this machine\n")
	return b.String()
}

// Kind is the kind of fault for reports: cut, slow, kill, stop or pause.
func (op Operation) Kind() string {
	switch {
	case op.Cut != nil:
		return "cut"
	case op.Slow != nil:
		return "slow"
	}
	return op.Verb
}

func (op Operation) String() string {
	switch {
	case op.Slow != nil:
		text := fmt.Sprintf("%s; undone by: delete table inet %s%d", op.Slow, tablePrefix, op.ID)
		if op.Slow.queued() {
			text += " and the queueing discipline htb " + slowHandle + ":"
		}
		return text
	case op.Cut == nil:
		undo := "start"
		if op.Verb == "pause" {
			undo = "continue"
		}
		return fmt.Sprintf("%s %s; undone by: %s", op.Verb, op.Unit, undo)
	}
	return fmt.Sprintf("%s; undone by: delete table inet %s%d", op.Cut, tablePrefix, op.ID)
}

func (c *HostCut) String() string {
	what := "everything"
	if c.Proto != "" && c.Proto != "all" {
		what = c.Proto
	}
	if len(c.Ports) > 0 {
		what += fmt.Sprintf(" at ports %s", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(c.Ports)), ", "), "[]"))
	}
	switch c.State {
	case "new":
		what += " that begins anew"
	case "established":
		what += " of connections that are older"
	}
	way := "to and from"
	switch {
	case !c.In:
		way = "to"
	case !c.Out:
		way = "from"
	}
	verb := "drop"
	if c.Action == "reset" || c.Action == "icmp" {
		verb = "reject (" + c.Action + ")"
	}
	return fmt.Sprintf("%s %s %s %s", verb, what, way, strings.Join(c.Names, ", ")) + behind(c.Peers)
}

// behind counts the networks among peers.
func behind(peers []netip.Prefix) string {
	nets := 0
	for _, p := range peers {
		if !p.IsSingleIP() {
			nets++
		}
	}
	if nets == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d networks behind", nets)
}

// host returns the one of that name; the plan names no other.
func (inv *Inventory) host(name string) Host {
	return inv.Hosts[slices.IndexFunc(inv.Hosts, func(h Host) bool { return h.Name == name })]
}

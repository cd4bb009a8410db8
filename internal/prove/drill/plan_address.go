package drill

import (
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// planAddress says who may hold the address and, in either run, by what.
func planAddress(line func(string, ...any), c *scenario.Case) {
	v := c.VIP
	if len(v.Nodes) == 0 {
		return
	}
	if v.Anycast() {
		planAnycast(line, c)
		return
	}
	line("  an address on the link of site %s: %s answers for it at first, %s may take over", v.Site(), v.Nodes[0], strings.Join(v.Nodes[1:], ", "))
	switch v.Health {
	case scenario.HealthAPIServer:
		line("  each of them has a kube-apiserver, and the address is held where that is ready")
	case scenario.HealthFront:
		line("  each of them has a balancer in front of the apiservers of all sites, without the agents HAProxy; the address is held where that has a server")
	}
	line("  with the agents: %s", holderWords(c, true))
	if !c.Alone {
		line("  without the agents: %s", holderWords(c, false))
	}
}

// planAddressBounds are what must hold of the address in the run with the agents.
func planAddressBounds(line func(string, ...any), c *scenario.Case) {
	v := c.VIP
	if len(v.Nodes) == 0 {
		return
	}
	if v.Anycast() {
		planHops(line, c)
		return
	}
	planBounds(line, "moves of the address, to the end of the run", v.Moves)
	if v.TwoHolders != nil {
		line("  address: two machines answer for it at once for at most %s", *v.TwoHolders)
	}
	if v.Gone > 0 {
		line("  address: gone from a machine whose agent is struck within %s", v.Gone)
	}
	line("  address: at the end of fault and run nobody sends packets for it to a machine that does not answer")
}

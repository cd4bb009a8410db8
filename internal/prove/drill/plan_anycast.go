package drill

import (
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// planAnycast says who announces the address and, in either run, by what.
func planAnycast(line func(string, ...any), c *scenario.Case) {
	v := c.VIP
	line("  an address announced by BGP: %s to the router of site %s, which spreads over all of them", strings.Join(v.Nodes, ", "), v.Site())
	switch v.Health {
	case scenario.HealthAPIServer:
		line("  each of them has a kube-apiserver, and announces where that is ready")
	case scenario.HealthPod:
		line("  it is that of a Service of type LoadBalancer, policy Local, with a pod on each of them")
	}
	line("  with the agents: %s", announcerWords(c, true))
	if !c.Alone {
		line("  without the agents: %s", announcerWords(c, false))
	}
}

// planHops are what must hold of the router's next hops.
func planHops(line func(string, ...any), c *scenario.Case) {
	b := c.VIP.BGP
	for _, side := range []struct{ who, window string }{{"", b.Withdrawn}, {"without the agents ", b.Without}} {
		if w, err := c.WindowOfHops(side.window); err == nil {
			line("  next hops: %sone leaves within %s to %s = %s", side.who, w.Min, w.Max, strings.Join(w.Why, " + "))
		}
	}
	if b.Back > 0 {
		line("  next hops: all are back within %s of the end of the fault", b.Back)
	}
	line("  next hops: never fewer than %d", b.Fewest)
}

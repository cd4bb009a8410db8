package drill

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// pairWords say who runs the members of a pair in a run.
func pairWords(c *scenario.Case, agents bool) string {
	p := c.Pair
	if !agents {
		words := "two plain members"
		if p.Forced != "" {
			words += fmt.Sprintf(", of which that of %s alone returns, and is started with --force-new-cluster", p.Forced)
		}
		return words
	}
	keeps := map[string]string{
		scenario.ArbiterHTTP: "`holdfast pair arbiter serve`", scenario.ArbiterEtcd: "an etcd of one member", scenario.ArbiterS3: "versitygw",
	}[p.Arbiter]
	words := fmt.Sprintf("`holdfast pair run` with its defaults beside each member, the record in %s in %s", keeps, p.Site)
	if p.Prefer != "" {
		words += ", " + p.Prefer + " preferred"
	}
	if len(p.Clients) > 0 {
		words += ", no claim without sight of " + strings.Join(p.Clients, " or ")
	}
	return words
}

// planPair says who runs the members of a pair, in either run.
func planPair(line func(string, ...any), c *scenario.Case) {
	if !c.HasPair() {
		return
	}
	line("  an etcd of two members, in %s", strings.Join(c.PairSites(), " and "))
	if mb := c.Pair.FillMB; mb > 0 {
		line("  with a database of %d MB", mb)
	}
	line("  with the agents: %s", pairWords(c, true))
	if !c.Alone {
		line("  without the agents: %s", pairWords(c, false))
	}
}

// planPairBounds are what must hold of a pair in the run with the agents.
func planPairBounds(line func(string, ...any), c *scenario.Case) {
	if !c.HasPair() {
		return
	}
	p := c.Pair
	switch p.Survivor {
	case scenario.SurvivorNone:
		line("  pair: nobody serves alone")
	case scenario.SurvivorAny:
		line("  pair: either member may serve alone")
	default:
		line("  pair: the member of %s alone serves alone", p.Survivor)
	}
	if p.AloneAfter > 0 {
		line("  pair: not before %s after the first fault", p.AloneAfter)
	}
	if p.Loses {
		line("  pair: what is lost was acknowledged by a member that served alone; at the end both members have the same keys")
	} else {
		line("  pair: no acknowledged write is lost, no two are acknowledged at one revision, at the end both members have the same keys")
	}
	line("  pair: paired again within %s of the end of the last fault", p.Paired.Round(time.Millisecond))
}

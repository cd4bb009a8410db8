package balancer

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/stack"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Stack lists the checks of balancers that clients come by. What is not checked is
// left to the rules.
func Stack(f *fact.Facts) []stack.Path {
	var all []stack.Path
	for _, b := range apiBackends(f) {
		if slices.ContainsFunc(b.servers, func(s *conf.Block) bool { return !b.has(s, "check") }) {
			continue
		}
		all = append(all, b.paths()...)
	}
	return all
}

// paths are those of a backend whose servers are all checked.
func (b backend) paths() []stack.Path {
	slowest := slices.MaxFunc(b.servers, func(x, y *conf.Block) int { return int(b.hung(x).Max - b.hung(y).Max) })
	by, share := b.Text()+" of HAProxy on "+b.node, "new connections by "+b.Text()+" of HAProxy on "+b.node
	detector := func(w scenario.Window) stack.Detector {
		inter, fall := b.rhythm(slowest)
		set := fmt.Sprintf("inter %s, fall %d", inter, fall)
		if timeout, ok := b.timeout("check"); ok {
			set += fmt.Sprintf(", timeout check %s", timeout)
		}
		return stack.Detector{Name: "HAProxy: check of " + by, Set: set, Window: w, At: b.at.LineIn(slowest.Line)}
	}
	all := []stack.Path{{Fault: "an apiserver that is killed", Client: share, Detectors: []stack.Detector{detector(b.gone(slowest))}}}
	if !b.asks() {
		return all // what HF-BAL-001 is about
	}
	all = append(all, stack.Path{Fault: "an apiserver that hangs", Client: share, Detectors: []stack.Detector{detector(b.hung(slowest))}})
	if !slices.ContainsFunc(b.servers, func(s *conf.Block) bool { return b.option(s, "on-marked-down") != "shutdown-sessions" }) {
		all = append(all, stack.Path{
			Fault: "an apiserver that hangs", Client: "clients that are connected by " + by, Detectors: []stack.Detector{detector(b.hung(slowest))},
		})
	}
	return all
}

package rules

import (
	"slices"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/address"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/balancer"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/bgp"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/certificates"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/clients"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/etcd"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/maintenance"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/timers"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/vip"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules/zones"
	"github.com/holdfast-ha/holdfast/internal/prove/check/stack"
)

// All lists every rule, group by group.
func All() []rule.Rule {
	return slices.Concat(
		address.Rules(), certificates.Rules(), balancer.Rules(), etcd.Rules(), zones.Rules(),
		vip.Rules(), bgp.Rules(), timers.Rules(), clients.Rules(), maintenance.Rules(),
	)
}

// Stack lists the paths from faults to clients whose detectors were found, from etcd
// outwards. Of instances of one thing the slowest stands for all.
func Stack(f *fact.Facts) []stack.Path {
	return stack.Slowest(slices.Concat(
		etcd.Stack(f), balancer.Stack(f), zones.Stack(f), vip.Stack(f), bgp.Stack(f), timers.Stack(f), clients.Stack(f),
	))
}

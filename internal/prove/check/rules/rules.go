package rules

import (
	"slices"

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
)

// All lists every rule, group by group.
func All() []rule.Rule {
	return slices.Concat(
		address.Rules(), certificates.Rules(), balancer.Rules(), etcd.Rules(), zones.Rules(),
		vip.Rules(), bgp.Rules(), timers.Rules(), clients.Rules(), maintenance.Rules(),
	)
}

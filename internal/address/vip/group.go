package vip

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// group is one entry of groups, whoever holds it.
type group struct {
	settings *GroupSettings
	gate     *healthGate
	hooks    *hooks

	// What follows belongs to the loop of the group.
	state string
	since time.Time
	cause string
	next  string // the cause of the newest change of a member
}

// enter notes a change of state and tells hooks, log and metrics.
func (g *group) enter(a *agent, state, cause string, now time.Time) {
	if g.state == state {
		return
	}
	was := g.state
	g.state, g.cause, g.since = state, cause, now
	a.log.Info("state", keyGroup, g.settings.Name, keyState, state, keyCause, cause, keyBefore, was)
	a.stats.moved(g.settings.Name, state, cause)
	g.hooks.tell(change{group: g.settings.Name, state: state, before: was, cause: cause, addresses: g.settings.Addresses})
}

// nameOf returns the state of package vrrp in our words.
func nameOf(s vrrp.State) string { return s.String() }

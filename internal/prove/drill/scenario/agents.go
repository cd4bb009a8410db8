package scenario

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Agents of a run.
const (
	// AgentLeader is `holdfast leader run`, one per etcd member.
	AgentLeader = "leader"
	// AgentBalance is `holdfast balance run`, one per site, in front of the
	// apiservers. The run without the agents has one too, with the timers of
	// what people use (see [Balance]): without any balancer there would be
	// nothing to compare with.
	AgentBalance = "balance"
	// AgentEtcdBalance is `holdfast balance run`, one per site, between the
	// apiserver of the site and the members of etcd.
	AgentEtcdBalance = "etcd-balance"
	// AgentSlices is `holdfast slices run`, one per site, and AgentZonal
	// `holdfast zonal run`, likewise. The runs without the agents have neither.
	AgentSlices = "slices"
	AgentZonal  = "zonal"
	// AgentNone is none at all.
	AgentNone = "none"
)

// Agents are the kinds of agents of the `with` runs, written as one name or as
// a list of names.
type Agents []string

// Has says whether agents of a kind are among them.
func (a Agents) Has(kind string) bool { return slices.Contains(a, kind) }

// UnmarshalYAML accepts "leader" for ["leader"].
func (a *Agents) UnmarshalYAML(n *yaml.Node) error {
	var one string
	if n.Decode(&one) == nil {
		*a = Agents{one}
		return nil
	}
	var list []string
	if err := n.Decode(&list); err != nil {
		return fmt.Errorf("write one name or a list of names, such as [leader, balance]")
	}
	*a = list
	return nil
}

// MarshalYAML writes a single name without a list.
func (a Agents) MarshalYAML() (any, error) {
	if len(a) == 1 {
		return a[0], nil
	}
	return []string(a), nil
}

// Balance says how the balancers of a drill are set and what they may do.
type Balance struct {
	// Spread leaves the zones out, so that every site's balancer uses the
	// apiservers of all sites alike; else it prefers its own site's.
	Spread bool `yaml:"spread,omitempty"`
	// Without is the profile of the run without the agents: anchors (TCP
	// connect every 20 s with 15 s of patience, nothing is reset; the default),
	// seed (/readyz every 5 s with 3 s), haproxy (HAProxy with its plain check, a TCP
	// connect every 3 s that has to fail three times), or none (no balancers at all, the default
	// with kubernetes: kubelet and kube-proxy of a node then ask the apiserver of
	// their own site).
	Without string `yaml:"without,omitempty"`
	// Transitions bounds how often balancers change their grade of a backend,
	// Resets how many connections they reset: all of them together, while the
	// faults of the run with the agents are in force. nil allows any number.
	Transitions *Bounds `yaml:"transitions,omitempty"`
	Resets      *Bounds `yaml:"resets,omitempty"`
}

// Bounds are the least and the most of something that is counted.
type Bounds struct {
	Min int `yaml:"min,omitempty"`
	Max int `yaml:"max"`
}

// Profiles of the balancers in a run without the agents.
const (
	ProfileAnchors = "anchors"
	ProfileSeed    = "seed"
	ProfileHAProxy = "haproxy"
	ProfileNone    = "none"
)

// check refuses bounds that nothing fits.
func (b *Bounds) check(field string) error {
	if b != nil && (b.Min < 0 || b.Max < b.Min) {
		return fmt.Errorf("%s: min %d max %d; write 0 ≤ min ≤ max", field, b.Min, b.Max)
	}
	return nil
}

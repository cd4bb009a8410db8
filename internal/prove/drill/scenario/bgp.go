package scenario

import (
	"cmp"
	"fmt"
	"time"
)

// ModeAnycast has every healthy machine hold the address and announce it by BGP
// to the router of the site, which spreads.
const ModeAnycast = "anycast"

// PeerFRR announces the address in a run without the agents: bgpd of FRR on each
// machine with the timers of a guide, hold 30 s and keepalive 10 s, without BFD.
// Where the address has a health, a check every 5 s has to fail three times.
const PeerFRR = "frr"

// Timers of BGP in either run.
const (
	// DefaultHold is what guides have, and the default of `holdfast vip`; keepalive
	// is a third.
	DefaultHold = 30 * time.Second
	// BFDInterval and BFDMultiplier are the agents', and the router's.
	BFDInterval   = 100 * time.Millisecond
	BFDMultiplier = 3
	// PeerCheck is between two checks of the run without the agents, of which
	// PeerFall have to fail.
	PeerCheck = 5 * time.Second
	PeerFall  = 3
)

// BGP is what must hold of the router's next hops to an address of mode anycast,
// in the run with the agents.
type BGP struct {
	// NoBFD leaves BFD out of the run with the agents, too.
	NoBFD bool `yaml:"noBFD,omitempty"`
	// Withdrawn names the derivation that allows the time from the fault to one
	// next hop less; Without is the same for the run without the agents. "" asks
	// nothing.
	Withdrawn string `yaml:"withdrawn,omitempty"`
	Without   string `yaml:"without,omitempty"`
	// Back is how soon after the end of the first fault all next hops must be
	// there again; 0 does not ask.
	Back time.Duration `yaml:"back,omitempty"`
	// Fewest is how many next hops there must be at all times; 0 is one less than
	// machines.
	Fewest int `yaml:"fewest,omitempty"`
}

// Anycast says whether the address is announced to a router.
func (v VIP) Anycast() bool { return v.Mode == ModeAnycast }

// peers are who may hold or announce the address without the agents.
func (v VIP) peers() []string {
	if v.Anycast() {
		return []string{PeerFRR}
	}
	return allPeers
}

// Pods says whether the address is that of pods behind a Service.
func (v VIP) Pods() bool { return v.Health == HealthPod }

// fillAnycast puts defaults in.
func (v VIP) fillAnycast() VIP {
	v.Without = cmp.Or(v.Without, PeerFRR)
	if v.BGP == nil {
		v.BGP = &BGP{}
	}
	b := *v.BGP
	b.Fewest = cmp.Or(b.Fewest, len(v.Nodes)-1)
	v.BGP = &b
	return v
}

// checkAnycast refuses what does not go with it, and what goes with nothing else.
func (c *Case) checkAnycast() error {
	v := c.VIP
	if !v.Anycast() {
		if v.BGP != nil {
			return fmt.Errorf("vip.bgp: nobody announces by it; write mode: anycast")
		}
		if v.Pods() {
			return fmt.Errorf("vip.health: pod is for what is announced; write mode: anycast")
		}
		return nil
	}
	switch {
	case v.Health == HealthFront || c.Agents.Has(AgentFront):
		return fmt.Errorf("vip.health: front stands behind one address; write apiserver, or leave it out")
	case v.Pods() && !c.Kubernetes:
		return fmt.Errorf("vip.health: there are no pods; add kubernetes: true")
	case v.Moves != nil || v.TwoHolders != nil || v.Gone != 0:
		return fmt.Errorf("vip: moves, twoHolders and gone are for one holder; write bgp: {withdrawn: …, back: …}")
	case v.BGP.Back < 0 || v.BGP.Fewest < 0 || v.BGP.Fewest > len(v.Nodes):
		return fmt.Errorf("vip.bgp: back %s, fewest %d; choose a duration, and at most %d next hops", v.BGP.Back, v.BGP.Fewest, len(v.Nodes))
	}
	for field, name := range map[string]string{"withdrawn": v.BGP.Withdrawn, "without": v.BGP.Without} {
		if name == "" {
			continue
		}
		if _, err := c.TimersOf("").Window(name); err != nil {
			return fmt.Errorf("vip.bgp.%s: %w", field, err)
		}
	}
	return nil
}

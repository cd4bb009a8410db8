package plan

import "time"

// Observer remembers since when what it is shown has been so. Times are of one
// monotonic clock, counted from anywhere; nothing else is compared with them.
// Show it every change as it arrives: late sight only makes it slower to judge.
// A new Observer knows nothing, and starting fresh can only delay.
type Observer struct {
	cfg   Settings
	self  Self
	signs []sign
	// agents is measured by the own Lease; identities by any identity Lease,
	// for at least that of the apiserver that answers is renewed.
	agents, identities stream
	ready              []lasting
	watchman           watchman
	rival              rival
}

// lasting is since when a slice has been ready.
type lasting struct {
	Standing
	since time.Duration
	seen  bool
}

// rival is another holder of the own agent Lease.
type rival struct {
	holder string
	since  time.Duration // it was last seen to renew, or first seen at all
	renews bool
}

// NewObserver returns one that has seen nothing.
func NewObserver(cfg Settings) *Observer { return &Observer{cfg: cfg} }

// See takes in what the watches show now.
func (o *Observer) See(now time.Duration, self *Self, v *View) {
	o.self = *self
	for i := range v.Leases {
		o.seeLease(now, &v.Leases[i])
	}
	o.seeAbsent(now, v)
	o.seeSlices(now, v)
	o.watchman.see(now, v.Combined, &o.cfg)
}

func (o *Observer) sign(role Role, name string) *sign {
	for i := range o.signs {
		if s := &o.signs[i]; s.role == role && s.name == name {
			return s
		}
	}
	return nil
}

func (o *Observer) seeLease(now time.Duration, l *Lease) {
	s := o.sign(l.Role, l.Name)
	first := s == nil
	if first {
		o.signs = append(o.signs, sign{role: l.Role, name: l.Name})
		s = &o.signs[len(o.signs)-1]
	}
	s.node, s.identity, s.deleted, s.mentioned = l.Node, l.Identity, false, true
	if l.Role == Agent && l.Node == o.self.Node {
		o.seeOwn(now, l, first || s.token != l.Token)
	}
	if s.token == l.Token && !first {
		return
	}
	s.token, s.changed = l.Token, now
	switch {
	case first: // how old it is, nobody knows
	case l.Role == Identity:
		o.identities.arrive(now, o.cfg.Gap)
	case l.Role == Agent && l.Node == o.self.Node && l.Holder == o.self.Holder:
		o.agents.arrive(now, o.cfg.Gap)
	}
}

// seeOwn looks for somebody else who renews the Lease of this node's agent.
func (o *Observer) seeOwn(now time.Duration, l *Lease, changed bool) {
	switch {
	case l.Holder == o.self.Holder || l.Holder == "":
		o.rival = rival{}
	case l.Holder != o.rival.holder:
		o.rival = rival{holder: l.Holder, since: now}
	case changed:
		o.rival.since, o.rival.renews = now, true
	}
}

// seeAbsent notes Leases that are gone, and identity Leases that agents name
// and nobody has seen: they have not been renewed since somebody looked.
func (o *Observer) seeAbsent(now time.Duration, v *View) {
	for i := range o.signs {
		s := &o.signs[i]
		if !s.mentioned && !s.deleted {
			s.deleted, s.token = true, ""
			if s.role == Agent && s.node == o.self.Node {
				o.rival = rival{}
			}
		}
		s.mentioned = false
	}
	for i := range o.signs {
		if s := o.signs[i]; s.role == Agent && s.identity != "" && o.sign(Identity, s.identity) == nil {
			o.signs = append(o.signs, sign{role: Identity, name: s.identity, changed: now, deleted: true})
		}
	}
	o.forget(v)
}

// forget drops the signs of agents that are gone with their slices.
func (o *Observer) forget(v *View) {
	kept := o.signs[:0]
	for _, s := range o.signs {
		if s.role == Agent && s.deleted && v.slice(SliceName(s.node, IPv4)) == nil && v.slice(SliceName(s.node, IPv6)) == nil {
			continue
		}
		kept = append(kept, s)
	}
	o.signs = kept
}

func (o *Observer) seeSlices(now time.Duration, v *View) {
	for i := range v.Slices {
		if s := &v.Slices[i]; s.Owner == Ours && s.Ready {
			o.seeReady(now, Standing{s.Name, s.ReadyFrom})
		}
	}
	kept := o.ready[:0]
	for _, r := range o.ready {
		if r.seen {
			r.seen = false
			kept = append(kept, r)
		}
	}
	o.ready = kept
}

func (o *Observer) seeReady(now time.Duration, s Standing) {
	for i := range o.ready {
		if o.ready[i].Standing == s {
			o.ready[i].seen = true
			return
		}
	}
	o.ready = append(o.ready, lasting{s, now, true})
}

// Facts is what follows from all that was seen, at now.
func (o *Observer) Facts(now time.Duration) Facts {
	var f Facts
	var due soonest
	f.Phase, due.left = o.watchman.state(now, &o.cfg)
	f.Probed = o.watchman.version
	for _, r := range o.ready {
		if left := r.since + o.cfg.GiveBack - now; left > 0 {
			due.in(left)
		} else {
			f.Steady = append(f.Steady, r.Slice)
		}
	}
	for i := range o.signs {
		o.judge(now, &o.signs[i], &f, &due)
	}
	if left := o.rival.since + o.cfg.Gap - now; o.rival.holder != "" && left > 0 {
		f.Rival, f.Rivalry = o.rival.holder, o.rival.renews
		due.in(left)
	}
	f.Due = due.left
	return f
}

// judge says whether the node of an agent's Lease is late, or gives no sign.
func (o *Observer) judge(now time.Duration, agent *sign, f *Facts, due *soonest) {
	if agent.role != Agent || agent.node == o.self.Node {
		return
	}
	silent := min(now-agent.changed, o.agents.unbroken(now, o.cfg.Gap))
	if silent <= o.cfg.Gap {
		due.in(o.cfg.Gap - silent + 1)
	} else {
		f.Quiet = append(f.Quiet, Silence{agent.node, agent.name, agent.token})
	}
	identity := o.sign(Identity, agent.identity)
	if agent.identity == "" || identity == nil {
		return
	}
	silent = min(silent, now-identity.changed, o.identities.unbroken(now, o.cfg.Gap))
	// An endpoint that turned ready is a sign of life too: its owner may be back
	// before either Lease is renewed.
	var ready []Standing
	for _, r := range o.ready {
		if r.Slice == SliceName(agent.node, IPv4) || r.Slice == SliceName(agent.node, IPv6) {
			ready, silent = append(ready, r.Standing), min(silent, now-r.since)
		}
	}
	if silent < o.cfg.Lapse {
		due.in(o.cfg.Lapse - silent)
		return
	}
	f.Lapsed = append(f.Lapsed, Lapse{
		Node: agent.node, Ready: ready, Agent: agent.name, AgentToken: agent.token,
		Identity: identity.name, IdentityToken: identity.token, For: silent,
	})
}

// soonest keeps the least of several times to come; 0 is none.
type soonest struct{ left time.Duration }

func (s *soonest) in(d time.Duration) {
	if s.left == 0 || d < s.left {
		s.left = d
	}
}

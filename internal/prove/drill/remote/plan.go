package remote

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// grace is how long after the planned heal a host waits for the controller
// before it undoes by itself: a handshake over a bad line and a retry.
const grace = 30 * time.Second

// Plan is what a drill does to hosts, as data.
type Plan struct {
	Scenario string
	Hold     time.Duration
	// DeadMan is how long after it was armed a host undoes by itself.
	DeadMan time.Duration
	Steps   []Step
	Probes  []Probe
}

// Step is what is injected together. Until is when it is undone; both count
// from the injection of the first.
type Step struct {
	Name      string
	At, Until time.Duration
	Ops       []Operation
}

// Operation is one change on one host. ID is its number in the plan, from 1.
type Operation struct {
	ID   int
	Host string
	// Cut or Slow, when set, is an nft table, Slow with a queueing discipline; else
	// Verb (kill, stop, pause) strikes Unit.
	Cut  *HostCut
	Slow *HostSlow
	Verb string
	Unit string
}

// Probe is a way from one host to another that a step must break: proof that it is
// in force.
type Probe struct {
	Step     int
	From, To string
	// Port is where To listens, 0 the port of its SSH.
	Port uint16
	// State is that of the cut: of new the connection must fail and one that is
	// older live on, of established the other way round.
	State string
	// Slower is by how much the connection must take longer instead.
	Slower time.Duration
	// Slow says that the way is slow and not cut.
	Slow bool
	// Proto is set where nothing over TCP is cut: the packets that the rule took
	// are counted then.
	Proto string
}

// Build turns a case into operations on the hosts of inv. What a real host cannot
// do is an error that names the fault.
func Build(c *scenario.Case, inv *Inventory, hold time.Duration) (*Plan, error) {
	if hold == 0 {
		hold = c.Phases.Hold
	}
	p := &Plan{Scenario: c.Scenario, Hold: hold, DeadMan: hold + grace}
	b := builder{plan: p, inv: inv}
	for _, f := range c.Faults {
		if err := b.fault(f); err != nil {
			return nil, fmt.Errorf("scenario %s, fault %s: %w", c.Scenario, f.Name, err)
		}
	}
	if len(p.Steps) == 0 {
		return nil, fmt.Errorf("scenario %s: no fault begins within the hold of %v; give a longer --hold", c.Scenario, hold)
	}
	return p, nil
}

type builder struct {
	plan *Plan
	inv  *Inventory
	next int
}

func (b *builder) fault(f scenario.Step) error {
	if err := possible(f); err != nil {
		return err
	}
	end := b.plan.Hold
	if f.For > 0 {
		end = min(end, f.At+f.For)
	}
	if f.At >= b.plan.Hold {
		return nil
	}
	s := Step{Name: f.Name, At: f.At, Until: end}
	for _, c := range f.Cuts {
		if err := b.cut(&s, c); err != nil {
			return err
		}
	}
	for _, sl := range f.Slow {
		if err := b.slow(&s, sl); err != nil {
			return err
		}
	}
	for _, v := range []struct {
		verb    string
		targets []string
	}{{"kill", f.Kill}, {"stop", f.Stop}, {"pause", f.Pause}} {
		for _, t := range v.targets {
			if err := b.strike(&s, v.verb, t); err != nil {
				return err
			}
		}
	}
	b.plan.Steps = append(b.plan.Steps, s)
	return nil
}

// possible refuses what only a lab can do.
func possible(f scenario.Step) error {
	for _, x := range []struct {
		what string
		has  bool
	}{
		{"unready", len(f.Unready) > 0},
		{"off", len(f.Off) > 0},
		{"release", len(f.Release) > 0},
		{"drain", len(f.Drain) > 0},
		{"slowDisk", len(f.SlowDisk) > 0},
		{"claim", len(f.Claim) > 0},
		{"giveUp", len(f.GiveUp) > 0},
		{"freeze", len(f.Freeze) > 0},
		{"delete", len(f.Delete) > 0},
		{"every", f.Every > 0},
	} {
		if x.has {
			return fmt.Errorf("%s: cannot be done to real hosts; drill it in the lab (leave out --inventory), or by hand with --observe-only", x.what)
		}
	}
	return nil
}

// ends are the hosts on both sides of a cut; without To the other side is every
// other host of the inventory.
func (b *builder) ends(c scenario.Cut) (from, to []Host, err error) {
	if from = b.inv.at(c.From); len(from) == 0 {
		return nil, nil, b.unknown("from", c.From)
	}
	if c.To != "" {
		if to = b.inv.at(c.To); len(to) == 0 {
			return nil, nil, b.unknown("to", c.To)
		}
	}
	inside := func(h Host) bool {
		return slices.ContainsFunc(from, func(f Host) bool { return f.Name == h.Name })
	}
	if c.To == "" {
		to = slices.DeleteFunc(slices.Clone(b.inv.Hosts), inside)
	}
	if len(to) == 0 || slices.ContainsFunc(to, inside) {
		return nil, nil, fmt.Errorf("cut from %q to %q: nothing lies between them in the inventory; name two different places", c.From, c.To)
	}
	return from, to, nil
}

func (b *builder) unknown(field, name string) error {
	var known []string
	for _, h := range b.inv.Hosts {
		known = append(known, h.Site, h.Name)
	}
	slices.Sort(known)
	return fmt.Errorf("cuts.%s: %q is no site or host of the inventory; it has %s", field, name, strings.Join(slices.Compact(known), ", "))
}

// cut puts its rules on the hosts of both ends: either alone would do, and both
// hold when a packet comes by a way that one of them does not see.
func (b *builder) cut(s *Step, c scenario.Cut) error {
	if c.State == "established" && c.Proto != "tcp" {
		return fmt.Errorf("cuts.state: on a host nothing tells datagrams that are older than the drill from new ones; add proto: tcp to established")
	}
	if c.Via != "" {
		return fmt.Errorf("cuts.via: a detour is made by routers, which are no hosts of the inventory; drill it in the lab, or by hand with --observe-only")
	}
	from, to, err := b.ends(c)
	if err != nil {
		return err
	}
	for _, h := range from {
		b.add(s, Operation{Host: h.Name, Cut: hostCut(c, to, true, !c.OneWay)})
	}
	for _, h := range to {
		b.add(s, Operation{Host: h.Name, Cut: hostCut(c, from, !c.OneWay, true)})
	}
	b.probe(from[0], to[0], c)
	return nil
}

// slow puts its rules on the hosts of both ends, each for what it sends and what it
// gets. A device takes one discipline of ours at a time.
func (b *builder) slow(s *Step, sl scenario.Slow) error {
	from, to, err := b.ends(scenario.Cut{From: sl.From, To: sl.To})
	if err != nil {
		return err
	}
	for _, side := range []struct{ at, peers []Host }{{from, to}, {to, from}} {
		for _, h := range side.at {
			if err := b.queues(s, h.Name); err != nil {
				return err
			}
			b.add(s, Operation{Host: h.Name, Slow: hostSlow(sl, side.peers)})
		}
	}
	b.plan.Probes = append(b.plan.Probes, Probe{Step: len(b.plan.Steps), From: from[0].Name, To: to[0].Name, Slow: true, Slower: 2 * sl.Delay})
	return nil
}

// queues refuses a second slow way on a host while the first is in force.
func (b *builder) queues(s *Step, host string) error {
	for _, o := range append(slices.Clone(b.plan.Steps), *s) {
		together := o.At < s.Until && s.At < o.Until
		if together && slices.ContainsFunc(o.on(host), func(op Operation) bool { return op.Slow != nil }) {
			return fmt.Errorf("slow: host %s is an end of two slow ways at once (also of %s); let them follow each other with at and for", host, o.Name)
		}
	}
	return nil
}

// probe adds what shows that the cut is in force.
func (b *builder) probe(from, to Host, c scenario.Cut) {
	p := Probe{Step: len(b.plan.Steps), From: from.Name, To: to.Name, State: c.State}
	if c.Proto == "udp" || c.Proto == "vxlan" {
		p.Proto = c.Proto
	}
	if len(c.Ports) > 0 {
		p.Port = c.Ports[0]
	}
	b.plan.Probes = append(b.plan.Probes, p)
}

// strike resolves "b", "main/b", "apiserver/b", "agent:balance/b" and a host's
// name to units.
func (b *builder) strike(s *Step, verb, target string) error {
	rest, _ := strings.CutPrefix(target, "agent:")
	group, place, one := strings.Cut(rest, "/")
	if !one {
		group, place = "", rest
	}
	hosts := b.inv.at(place)
	if len(hosts) == 0 {
		return b.unknown(verb, place)
	}
	found := 0
	for _, h := range hosts {
		var units []string
		for what, unit := range h.Units {
			if group == "" || what == group {
				units = append(units, unit)
			}
		}
		slices.Sort(units)
		for _, unit := range slices.Compact(units) {
			b.add(s, Operation{Host: h.Name, Verb: verb, Unit: unit})
			found++
		}
	}
	if found == 0 {
		return fmt.Errorf("%s %q: no host there has such a unit; add units.%s to the inventory", verb, target, orAny(group))
	}
	return nil
}

func orAny(group string) string {
	if group == "" {
		return "NAME"
	}
	return group
}

func (b *builder) add(s *Step, op Operation) {
	b.next++
	op.ID = b.next
	s.Ops = append(s.Ops, op)
}

// hosts lists those that the plan touches, in inventory order.
func (p *Plan) hosts(inv *Inventory) []Host {
	var out []Host
	for _, h := range inv.Hosts {
		if len(p.of(h.Name)) > 0 {
			out = append(out, h)
		}
	}
	return out
}

// of lists the operations on a host.
func (p *Plan) of(host string) []Operation {
	var out []Operation
	for _, s := range p.Steps {
		for _, op := range s.Ops {
			if op.Host == host {
				out = append(out, op)
			}
		}
	}
	return out
}

// on lists the operations of a step on a host.
func (s Step) on(host string) []Operation {
	return slices.DeleteFunc(slices.Clone(s.Ops), func(op Operation) bool { return op.Host != host })
}

// event is a step that begins, or ends before the hold does.
type event struct {
	at   time.Duration
	step int
	heal bool
}

// events lists what happens during the hold; of two at one time the heal is first.
func (p *Plan) events() []event {
	var out []event
	for i, s := range p.Steps {
		if s.Until < p.Hold {
			out = append(out, event{at: s.Until, step: i, heal: true})
		}
	}
	for i, s := range p.Steps {
		out = append(out, event{at: s.At, step: i})
	}
	slices.SortStableFunc(out, func(a, b event) int { return int(a.at - b.at) })
	return out
}

package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// act is what goes wrong, or is mended.
type act uint8

const (
	KillEtcd act = iota
	KillAgent
	// Dark takes the power of a site, Light gives it back.
	Dark
	Light
	// FreezeEtcd and FreezeAgent have a process stand still For some time.
	FreezeEtcd
	FreezeAgent
	// Cut and Join are of the link from A to the other site.
	Cut
	Join
	// Arbiter sets what comes of requests to it from A; -1: from everybody.
	Arbiter
	// Fuse has the agent of A die after N steps of its actions; All: and its etcd.
	Fuse
	// Hold, Free and Force are a person's changes of the record.
	Hold
	Free
	Force
	// Remove has a person take the other member out through a pair's cluster.
	Remove
	// Lose takes a disk away, where the other member has all that was acknowledged.
	Lose
	// Back restores a backup of the arbiter, once both sites have seen more;
	// Forth has a person put it right.
	Back
	Forth
	// Damage makes a directory one that cannot be read.
	Damage
	Blind
	See
	Full
	Space
	// Burst has clients write fast.
	Burst
)

// Fault is one event of a schedule.
type Fault struct {
	Do  act
	A   int
	For time.Duration
	N   int
	All bool
	Way way
}

// Inject has a fault happen at a time.
func (w *World) Inject(at time.Duration, f Fault) {
	w.faults = append(w.faults, f)
	w.again(max(at, w.now), event{what: evFault, x: int32(len(w.faults) - 1)})
}

func (w *World) apply(f Fault) {
	if f.Do != Burst {
		w.trace("fault: %s", f.describe())
	}
	if w.applyToSite(f) {
		return
	}
	switch f.Do {
	case Cut:
		w.open[f.A][1-f.A] = false
	case Join:
		w.open[f.A][1-f.A] = true
	case Arbiter:
		if f.A < 0 {
			w.arbiter = f.Way
		} else {
			w.sites[f.A].arbiter = f.Way
		}
	case Hold, Free, Force:
		w.person(f)
	case Back:
		w.back()
	case Forth:
		w.forth()
	case Burst:
		w.handle(event{what: evBurst, x: int32(f.N)})
	}
}

func (w *World) applyToSite(f Fault) bool {
	if f.A < 0 {
		return false
	}
	s, m, a := &w.sites[f.A], &w.members[f.A], &w.agents[f.A]
	switch f.Do {
	case KillEtcd:
		w.exit(m, 0)
	case KillAgent:
		w.handle(event{what: evDie, a: int8(f.A)})
	case Dark:
		s.dark = true
		a.kill()
		w.exit(m, 0)
	case Light:
		s.dark = false
		w.after(w.between(0, 3*time.Second), event{what: evAgent, a: int8(f.A)})
	case FreezeEtcd:
		m.frozen = w.now + f.For
	case FreezeAgent:
		a.frozen = w.now + f.For
	case Fuse:
		s.fuse, s.fuseAll = f.N, f.All
	case Lose:
		w.lose(f.A)
	case Remove:
		if m.booted && m.conf.count() == 2 && w.record.State == arbiter.Paired && !w.sites[0].lost && !w.sites[1].lost {
			w.judge.byHand = true
			w.request(m, entry{kind: remove, arg: m.conf.other(m.d.id)})
		}
	case Damage:
		w.damage(f.A)
	case Blind:
		s.blind = "no client is reached"
	case See:
		s.blind = ""
	case Full:
		s.full = true
	case Space:
		s.full = false
	default:
		return false
	}
	return true
}

var actNames = [...]string{
	"etcd killed", "agent killed", "power lost", "power back", "etcd stands still", "agent stands still", "link cut", "link joined",
	"way to the arbiter", "agent will die", "held", "released", "forced", "the other one removed", "disk lost", "arbiter restored from a backup", "arbiter put right", "directory damaged", "blind", "sees", "disk full", "space", "burst",
}

var wayNames = [...]string{"open", "hangs", "refuses", "denies", "is slow"}

func (f Fault) describe() string {
	text := actNames[f.Do] + " at both"
	if f.A >= 0 {
		text = actNames[f.Do] + " at " + names[f.A]
	}
	if f.For > 0 {
		text += " for " + f.For.String()
	}
	if f.Do == Arbiter {
		text += ": " + wayNames[f.Way]
	}
	return text
}

// lose replaces a disk by an empty one, if nothing is lost with it: both are
// voters, and the other member has all that was acknowledged.
func (w *World) lose(site int) {
	s, other := &w.sites[site], &w.members[1-site]
	r := w.record
	whole := other.booted && other.conf.count() == 2 && other.commit == len(w.judge.truth) && other.d.epoch == w.judge.epoch
	if r.State != arbiter.Paired || !whole || w.judge.byHand || w.newest.Generation > 0 || w.sites[1-site].full {
		return
	}
	w.agents[site].kill()
	w.exit(&w.members[site], 0)
	s.dir, s.seen, s.lost = nil, arbiter.Record{}, true
	w.after(w.between(time.Second, 10*time.Second), event{what: evAgent, a: int8(site)})
}

// damage has a directory found damaged after etcd died, if the other one's log has
// all that was acknowledged and says that it is a voter's: nobody has served alone
// since both were voters, and the other one can survive.
func (w *World) damage(site int) {
	s, other := &w.sites[site], w.sites[1-site].dir
	r, j := w.record, &w.judge
	both := s.dir != nil && other != nil && j.conf.votes(s.dir.id) && j.conf.votes(other.id) && s.dir.epoch == j.epoch && other.epoch == j.epoch
	if !both || w.judge.byHand || r.Generation == 0 || r.Forced || r.SoloOf(names[1-site]) || other.damaged || other.half || !other.examine().selfVotes || w.sites[1-site].full {
		return
	}
	w.exit(&w.members[site], 0)
	s.dir.damaged, s.lost = true, true
}

// person changes the record: a claim that is held, its end, or one in place of
// the survivor.
func (w *World) person(f Fault) {
	r := w.record
	if r.Generation == 0 || w.newest.Generation > 0 {
		return
	}
	name := names[f.A]
	switch {
	case f.Do == Hold && (r.State == arbiter.Paired || r.SoloOf(name)) && !r.Held:
		r.State, r.Survivor, r.Held = arbiter.Solo, name, true
	case f.Do == Free && r.Held:
		r.Held = false
	case f.Do == Force && r.State == arbiter.Solo && !r.SoloOf(name):
		r.Survivor, r.Held, r.Forced = name, false, true
		w.judge.forced = f.A
		if m := &w.members[f.A]; m.booted && m.conf.count() == 1 && m.conf.votes(m.d.id) {
			w.judge.adopt(w, m) // it never stopped
		}
	default:
		return
	}
	r.Generation++
	r.Nonce = arbiter.NewNonce()
	w.past = w.record
	w.put(r)
}

// put has the arbiter say something, by a person's hand.
func (w *World) put(r arbiter.Record) {
	w.trace("the record: %s %s, generation %d, held %v, forced %v, by a person", r.State, r.Survivor, r.Generation, r.Held, r.Forced)
	w.object, _ = r.Encode() // it is valid
	w.record = r
	w.writes++
}

// back restores what the arbiter said before, if both sites know more: one that
// does not cannot tell.
func (w *World) back() {
	g := w.record.Generation
	if w.newest.Generation > 0 || w.past.Generation == 0 || w.sites[0].seen.Generation < g || w.sites[1].seen.Generation < g {
		return
	}
	w.newest = w.record
	w.put(w.past)
}

// forth makes the newest record that was seen the arbiter's again, in a new
// generation.
func (w *World) forth() {
	r := w.newest
	if r.Generation == 0 {
		return
	}
	w.newest = arbiter.Record{}
	r.Generation++
	r.Nonce = arbiter.NewNonce()
	w.put(r)
}

// heal mends everything; what was still to go wrong does not.
func (w *World) heal() {
	w.over = len(w.faults)
	w.open = [2][2]bool{{true, true}, {true, true}}
	w.arbiter = open
	w.forth()
	for i := range w.sites {
		s := &w.sites[i]
		s.dark, s.full, s.blind, s.arbiter, s.fuse = false, false, "", open, 0
		w.members[i].frozen, w.agents[i].frozen = 0, 0
		w.after(w.between(0, time.Second), event{what: evAgent, a: int8(i)})
	}
	w.shape.Torn = 0
}

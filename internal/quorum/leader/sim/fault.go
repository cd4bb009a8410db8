package sim

import "time"

// Action is what a Fault does.
type Action uint8

const (
	Cut        Action = iota // drop packets between A and B, both ways
	CutOne                   // drop packets from A to B
	Heal                     // undo cuts, blocks and losses between A and B
	Block                    // A cannot open connections to B
	Lossy                    // lose share P of the round trips between A and B
	Isolate                  // cut A from everybody
	Rejoin                   // heal A with everybody
	Crash                    // kill A's etcd
	Start                    // start A's etcd
	Fail                     // kill A's machine: etcd and agent
	Recover                  // start A's machine
	KillAgent                // kill A's agent
	StartAgent               // start A's agent
	Freeze                   // stop A's machine for For; P != 0 stops its clock too
	Defrag                   // A's etcd answers no Status for For
	Served                   // end of Defrag
	Slow                     // A takes long to catch up
	Stall                    // A's disk is slow
	Alarm                    // NOSPACE at A
	Cure                     // undo Slow, Stall, Alarm, Expire and Mute of A
	Expire                   // A's agent has an expired certificate for probes
	Mute                     // A's agent publishes nothing
	Remove                   // A leaves the cluster
	Promote                  // A, a learner, becomes a voter
)

var actionNames = [...]string{
	"cut", "cut-one", "heal", "block", "lossy", "isolate", "rejoin", "crash", "start", "fail", "recover", "kill-agent",
	"start-agent", "freeze", "defrag", "served", "slow", "stall", "alarm", "cure", "expire", "mute", "remove", "promote",
}

func (a Action) String() string { return actionNames[a] }

// Fault is something done to the world.
type Fault struct {
	Do   Action
	A, B int
	For  time.Duration
	P    float64
}

// Inject does f after d.
func (w *World) Inject(d time.Duration, f Fault) {
	w.faults = append(w.faults, f)
	w.after(d, event{kind: evFault, x: int32(len(w.faults) - 1)})
}

// apply does f now.
func (w *World) apply(f Fault) {
	if w.Trace != nil {
		w.traceFault(f)
	}
	w.truth.stable = w.now
	switch {
	case f.Do <= Rejoin:
		w.applyNetwork(f)
	case f.Do <= StartAgent:
		w.applyProcess(f)
	default:
		w.applyState(f)
	}
	w.refresh()
}

func (w *World) traceFault(f Fault) {
	switch {
	case f.Do <= Lossy:
		w.trace("· %s %s-%s", f.Do, w.name(f.A), w.name(f.B))
	case f.For > 0:
		w.trace("· %s %s for %s", f.Do, w.name(f.A), f.For)
	default:
		w.trace("· %s %s", f.Do, w.name(f.A))
	}
}

func (w *World) applyNetwork(f Fault) {
	n := &w.net
	switch f.Do {
	case Cut:
		n.cut[f.A][f.B], n.cut[f.B][f.A] = true, true
	case CutOne:
		n.cut[f.A][f.B] = true
	case Block:
		n.blocked[f.A][f.B] = true
	case Lossy:
		n.loss[f.A][f.B], n.loss[f.B][f.A] = f.P, f.P
	case Heal:
		w.heal(f.A, f.B)
	case Isolate, Rejoin:
		for j := range w.n {
			if j == f.A {
				continue
			}
			if f.Do == Rejoin {
				w.heal(f.A, j)
			} else {
				n.cut[f.A][j], n.cut[j][f.A] = true, true
			}
		}
	}
}

func (w *World) heal(i, j int) {
	n := &w.net
	n.cut[i][j], n.cut[j][i] = false, false
	n.blocked[i][j], n.blocked[j][i] = false, false
	n.loss[i][j], n.loss[j][i] = 0, 0
}

func (w *World) applyProcess(f Fault) {
	switch f.Do {
	case Crash:
		w.crash(f.A)
	case Start:
		w.start(f.A)
	case Fail:
		w.crash(f.A)
		w.agents[f.A].up = false
	case Recover:
		w.start(f.A)
		if !w.agents[f.A].up {
			w.bootAgent(f.A)
		}
	case KillAgent:
		w.agents[f.A].up = false
	case StartAgent:
		if !w.agents[f.A].up {
			w.bootAgent(f.A)
		}
	}
}

func (w *World) crash(i int) {
	m := &w.members[i]
	if !m.up {
		return
	}
	w.fallBehind(i)
	m.up, m.leading, m.alone, m.deaf, m.joining, m.moving, m.lead, m.serving = false, false, false, false, false, false, -1, false
	m.timer++
	m.joinGen++
	w.noticed(i)
}

func (w *World) start(i int) {
	m := &w.members[i]
	if m.up || m.removed {
		return
	}
	m.up, m.serving, m.deaf, m.deafAt, m.lostAt = true, true, true, w.now, w.now
	w.armElection(i)
	w.noticed(i)
}

func (w *World) applyState(f Fault) {
	m, a := &w.members[f.A], &w.agents[f.A]
	switch f.Do {
	case Freeze:
		w.freeze(f)
	case Defrag:
		if m.up {
			m.serving = false
			w.Inject(f.For, Fault{Do: Served, A: f.A})
		}
	case Served:
		m.serving = m.up
	case Slow:
		m.slow = true
	case Stall:
		if !m.stall {
			m.stall, m.stallAt = true, w.now
		}
	case Alarm:
		m.alarm = true
	case Cure:
		if m.stall {
			m.curedAt = w.now
		}
		m.slow, m.stall, m.alarm, a.mute, a.expired = false, false, false, false, false
	case Expire:
		a.expired = true
	case Mute:
		a.mute = true
	case Remove:
		w.remove(f.A)
	case Promote:
		m.voter = !m.removed
	}
	w.noticed(f.A)
	w.noticedAll()
}

// noticedAll lets agents see what their members learn through the log.
func (w *World) noticedAll() {
	for i := range w.n {
		w.noticed(i)
	}
}

// remove takes a follower out of the cluster, if a cluster of three remains.
func (w *World) remove(i int) {
	m := &w.members[i]
	if !m.voter || m.leading || w.voters() <= 3 || w.leaderNow() < 0 {
		return
	}
	w.crash(i)
	m.voter, m.removed, m.alarm = false, true, false
}

func (w *World) freeze(f Fault) {
	m := &w.members[f.A]
	if m.frozen {
		return
	}
	m.frozen, m.thawAt = true, w.now+f.For
	if f.P != 0 {
		w.agents[f.A].offset -= f.For
		w.agents[f.A].stopped, w.agents[f.A].stoppedAt = f.For, m.thawAt
	}
	w.after(f.For, event{kind: evThaw, a: int8(f.A)})
}

func (w *World) thaw(i int) {
	w.members[i].frozen, w.truth.stable = false, w.now
	w.trace("%s runs again", w.name(i))
	w.refresh()
}

package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/hysteresis"
	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
)

// Timers of the agent's shell.
const (
	probeEvery   = 500 * time.Millisecond
	probeTimeout = 200 * time.Millisecond
	burstSpacing = 60 * time.Millisecond
	fall, rise   = 4, 10
	pollEvery    = 250 * time.Millisecond
	publishEvery = 5 * time.Second
	readEvery    = 10 * time.Second
	// callDeadline bounds MoveLeader.
	callDeadline = 5 * time.Second
)

// row is a published row: what it said, and when that was.
type row struct {
	boot, seq  uint32
	from       int8
	sentAt     time.Duration
	reachable  bool
	lead       int8
	leaderless time.Duration
	term       uint64
	index      uint64
	learner    bool
	alarm      bool
	stall      bool
	links      [most]leader.Link
	penalty    leader.Penalty
}

// received is the newest row of a member that an agent has.
type received struct {
	row   int32 // -1: none
	at    time.Duration
	links map[leader.MemberID]leader.Link
}

// agent is the process beside one member.
type agent struct {
	up      bool
	mute    bool // publishes nothing
	expired bool // its certificate for probing
	boot    uint32
	seq     uint32
	offset  time.Duration // its monotonic clock minus the world's
	bootAt  time.Duration // by the world's clock
	// stopped is how long that clock last stood still, until stoppedAt.
	stopped, stoppedAt time.Duration

	state   leader.State
	filters [most]hysteresis.Filter
	windows [most]hysteresis.Window
	probing [most]uint32 // generation; odd while probes are scheduled
	phase   [most]time.Duration

	// What it last learned from its own member.
	reachable bool
	lead      int8
	term      uint64
	lostAt    time.Duration // by its own clock
	voters    [most]bool
	votersAt  time.Duration // by its own clock
	polling   bool

	rows      [most]received
	seen      leader.Penalty // newest record from the store
	readTerm  uint64         // term for which the record was read
	acting    bool
	move      leader.Move
	recordAt  time.Duration
	act       uint32 // generation of what is being acted
	publishes uint32
	decides   uint32
	refused   leader.Refusal

	snap leader.Snapshot
	own  map[leader.MemberID]leader.Link
}

func (a *agent) clock(w *World) time.Duration { return w.now + a.offset }

// reset empties the agent for a new schedule, keeping its maps.
func (a *agent) reset(w *World, i int) {
	rows, snap, own := a.rows, a.snap, a.own
	*a = agent{snap: snap, own: own, rows: rows}
	if a.own == nil {
		a.own = make(map[leader.MemberID]leader.Link, most)
		a.snap.Rows = make(map[leader.MemberID]leader.Row, most)
	}
	for j := range a.rows {
		if a.rows[j].links == nil {
			a.rows[j].links = make(map[leader.MemberID]leader.Link, most)
		}
	}
}

// bootAgent starts agent i afresh: it knows nothing but what it then reads.
func (w *World) bootAgent(i int) {
	a := &w.agents[i]
	boot, gens := a.boot+1, [3]uint32{a.act + 1, a.publishes + 1, a.decides + 1}
	expired, probing := a.expired, a.probing
	a.reset(w, i)
	a.up, a.boot, a.expired = true, boot, expired
	a.act, a.publishes, a.decides = gens[0], gens[1], gens[2]
	a.offset, a.bootAt = w.between(0, 24*time.Hour)-w.now, w.now
	a.lead, a.votersAt = -1, never
	for j := range w.n {
		a.filters[j] = hysteresis.Filter{Fall: fall, Rise: rise}
		a.windows[j].Length = 30 * time.Second
		a.probing[j] = (probing[j] + 2) &^ 1
		a.phase[j] = w.between(0, probeEvery)
		a.rows[j].row = -1
	}
	for j := range w.n {
		a.voters[j] = w.members[j].voter
	}
	w.after(w.between(10*time.Millisecond, 200*time.Millisecond), event{kind: evStatus, a: int8(i)})
	a.polling = true
	w.publishLater(i, 300*time.Millisecond)
	w.refreshProbes()
}

func (w *World) handleAgent(e event, i int) {
	a := &w.agents[i]
	if !a.up {
		if e.kind == evStatus {
			a.polling = false
		}
		return
	}
	if m := &w.members[i]; m.frozen {
		// What arrives while a machine stands still waits in its buffers.
		e.at = m.thawAt + w.between(0, 50*time.Millisecond)
		w.queue.push(e)
		return
	}
	switch e.kind {
	case evProbe:
		w.probe(e, i, int(e.b))
	case evStatus:
		a.polling = false
		w.poll(i)
	case evPublish:
		if e.gen == a.publishes {
			w.publish(i)
		}
	case evRow:
		w.receive(i, e.x)
	case evDecide:
		if e.gen == a.decides {
			w.decide(i)
		}
	case evSeeRecord:
		a.see(w.records[e.x])
		w.nudge(i)
	case evRead:
		w.readRecord(e, i)
	case evRecorded, evMove, evMoved:
		if e.gen == a.act {
			w.handleAct(e, i)
		}
	}
}

func (a *agent) see(p leader.Penalty) {
	if p.Seq > a.seen.Seq {
		a.seen = p
	}
}

// refreshProbes schedules probes wherever the filter may change: where the
// wire and the verdict differ, and all the time on links that lose packets.
func (w *World) refreshProbes() {
	for i := range w.n {
		if !w.agents[i].up {
			continue
		}
		for j := range w.n {
			if i != j && w.agents[i].probing[j]%2 == 0 && w.unsettled(i, j) {
				w.agents[i].probing[j]++
				w.scheduleProbe(i, j)
			}
		}
	}
}

func (w *World) unsettled(i, j int) bool {
	f := &w.agents[i].filters[j]
	good := f.Verdict() == hysteresis.Good
	return w.net.loss[i][j] > 0 || f.Doubt() || f.Verdict() == hysteresis.Undecided || good != w.probes(i, j)
}

// scheduleProbe finds when the next result of a probe of i to j is in: at its
// phase of the steady interval, or at once in a burst after a failure.
func (w *World) scheduleProbe(i, j int) {
	a := &w.agents[i]
	f := &a.filters[j]
	e := event{kind: evProbe, a: int8(i), b: int8(j), gen: a.probing[j]}
	if f.Doubt() && f.Verdict() != hysteresis.Bad {
		w.after(burstSpacing, e)
		return
	}
	wait := probeEvery - (w.now+a.phase[j])%probeEvery
	if !w.probes(i, j) && !w.opens(i, j) {
		wait += probeTimeout // silence takes its time, a refusal does not
	}
	w.after(wait, e)
}

func (w *World) probe(e event, i, j int) {
	a := &w.agents[i]
	if e.gen != a.probing[j] {
		return
	}
	f := &a.filters[j]
	ok := w.probes(i, j) && !w.chance(w.net.loss[i][j])
	a.windows[j].Observe(a.clock(w), ok)
	if f.Observe(a.clock(w), ok) {
		if f.Verdict() == hysteresis.Good {
			a.windows[j].Reset()
		}
		w.trace("agent %s: link to %s is %s", w.name(i), w.name(j), a.link(w, j).State)
		w.publishLater(i, 50*time.Millisecond)
		w.nudge(i)
	}
	if w.unsettled(i, j) {
		w.scheduleProbe(i, j)
	} else {
		a.probing[j]++
	}
}

// link is the agent's view of its link to j.
func (a *agent) link(w *World, j int) leader.Link {
	f := &a.filters[j]
	l := leader.Link{Since: f.Since(a.clock(w)), RTT: time.Duration(1+j) * time.Millisecond}
	switch f.Verdict() {
	case hysteresis.Good:
		l.State = leader.Up
		if w.net.loss[j] != ([most]float64{}) {
			l.Loss = a.windows[j].Loss(a.clock(w), 20)
		}
	case hysteresis.Bad:
		l.State, l.Doubt = leader.Down, f.Doubt()
	}
	return l
}

// noticed makes the agent of member i look at it at its next poll.
func (w *World) noticed(i int) {
	if a := &w.agents[i]; a.up && !a.polling {
		a.polling = true
		w.after(w.between(5*time.Millisecond, pollEvery), event{kind: evStatus, a: int8(i)})
	}
}

// poll reads the own member's status.
func (w *World) poll(i int) {
	a, m := &w.agents[i], &w.members[i]
	reachable := w.runs(i) && m.serving
	changed := reachable != a.reachable
	a.reachable = reachable
	if reachable {
		if m.lead < 0 && a.lead >= 0 || m.lead < 0 && changed {
			a.lostAt = a.clock(w)
		}
		changed = changed || a.lead != m.lead || a.term != m.term
		a.lead, a.term = m.lead, m.term
		w.pollVoters(i)
		if m.leading && a.readTerm != m.term {
			w.after(w.between(5*time.Millisecond, 200*time.Millisecond), event{kind: evRead, a: int8(i), gen: uint32(m.term)})
		}
	}
	if changed {
		w.publishLater(i, 50*time.Millisecond)
	}
	w.nudge(i)
}

// pollVoters reads the member list, which a cut-off member does not renew.
func (w *World) pollVoters(i int) {
	a := &w.agents[i]
	if !w.hears(i) && !w.leads(i) {
		return
	}
	for j := range w.n {
		if a.voters[j] != w.members[j].voter {
			a.voters[j], a.votersAt = w.members[j].voter, a.clock(w)
		}
	}
}

// readRecord is a linearizable read of the penalty record.
func (w *World) readRecord(e event, i int) {
	a, m := &w.agents[i], &w.members[i]
	if uint32(m.term) != e.gen || !m.leading || !m.serving || a.readTerm == m.term {
		return
	}
	if !w.leads(i) {
		w.after(500*time.Millisecond, e)
		return
	}
	a.readTerm = m.term
	a.see(w.store)
	w.nudge(i)
}

func (w *World) nudge(i int) { w.decideLater(i, 20*time.Millisecond) }

func (w *World) decideLater(i int, d time.Duration) {
	a := &w.agents[i]
	a.decides++
	w.after(d, event{kind: evDecide, a: int8(i), gen: a.decides})
}

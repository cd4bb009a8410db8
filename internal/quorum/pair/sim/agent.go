package sim

import (
	"errors"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// agent is a process of holdfast. Its decisions and its client of the arbiter are
// the real ones.
type agent struct {
	w      *World
	site   int
	up     bool
	life   uint32
	frozen time.Duration
	born   time.Duration
	rate   float64 // of its clock

	cfg     pair.Config
	state   pair.State
	view    pair.View
	held    arbiter.Held // the record in view
	client  *arbiter.Client
	within  time.Duration
	tried   time.Duration
	process uint32 // the life of etcd that the view is of
	looks   [looks]look
	tasks   [2]task
	last    pair.Plan
}

const (
	taskDecide = iota
	taskRead
)

// look is one kind of observation under way. What it brings was so when it was
// sent or when it returns, and is seen later.
type look struct {
	flying bool
	late   bool
	sent   time.Duration // by the agent's clock
	due    time.Duration
	of     uint32 // the life of etcd
	good   bool
	value  seen
}

// seen is what a look can bring.
type seen struct {
	leader   bool
	index    int // what the leader had committed
	members  pair.Members
	survivor pair.Survivor
	log      pair.Log
}

const (
	lookQuorum = iota
	lookStatus
	lookMembers
	lookPeer
	lookSurvivor
	lookLog
	looks
)

// boot starts the agent of a site; etcd may be running.
func (a *agent) boot() {
	w := a.w
	if a.up || w.sites[a.site].dark {
		return
	}
	if w.shape.Begin == Single && a.site == 1 && w.object == nil {
		// Whoever makes a pair of a single member starts the second one second.
		w.after(time.Second, event{what: evAgent, a: 1})
		return
	}
	a.up, a.born, a.frozen = true, w.now, 0
	a.life++
	a.rate = 1
	if w.rng != nil {
		a.rate = 0.99 + 0.02*w.rng.Float64()
	}
	a.cfg = w.config(a.site)
	a.state, a.view, a.held, a.last = pair.State{}, pair.View{}, arbiter.Held{}, pair.Plan{}
	a.within, a.tried = 700*time.Millisecond, 0
	a.looks = [looks]look{}
	s := &w.sites[a.site]
	a.client = arbiter.NewClient(store{a}, names[a.site], s.seen, func(r arbiter.Record) error {
		s.seen = r
		return nil
	})
	w.trace("%s: agent starts", names[a.site])
	a.restarted()
	a.spawn(taskRead, a.readLoop)
	a.spawn(taskDecide, a.decideLoop)
	w.resume(a, &a.tasks[taskRead])
	if a.up {
		w.resume(a, &a.tasks[taskDecide])
	}
}

// kill ends it at once, wherever it is.
func (a *agent) kill() {
	if !a.up {
		return
	}
	a.up = false
	a.life++
	for i := range a.tasks {
		a.tasks[i].stop()
		a.tasks[i].serial++
	}
	a.w.sites[a.site].fuse = 0
}

// clock is the agent's own, from its start; it is never 0.
func (a *agent) clock() time.Duration {
	return time.Nanosecond + time.Duration(float64(a.w.now-a.born)*a.rate)
}

func (a *agent) member() *member { return &a.w.members[a.site] }

// restarted notes that etcd was started or has ended, and forgets what the
// process before said.
func (a *agent) restarted() {
	m := a.member()
	v := &a.view
	a.process = m.life
	v.Process = pair.Process{Running: m.up, Since: a.clock()}
	v.Quorum = pair.Quorum{Confirmed: v.Quorum.Confirmed, Led: v.Quorum.Led && !m.up}
	v.Members, v.Log = pair.Members{}, pair.Log{}
	a.looks[lookLog].flying = false
}

// readLoop reads the record when that is due.
func (a *agent) readLoop() {
	for {
		arb := &a.view.Arbiter
		age := a.clock() - arb.Asked
		due := !arb.Known || arb.Trouble != pair.Readable || age >= a.within
		pause := min(a.within, 700*time.Millisecond)
		if !due {
			a.rest(max(time.Millisecond, a.within-age))
			continue
		}
		if since := a.clock() - a.tried; a.tried > 0 && since < pause {
			a.rest(pause - since + time.Microsecond)
			continue
		}
		a.tried = a.clock()
		sent := a.clock()
		held, err := a.client.Read(a.w.within(requestTimeout))
		a.learn(sent, held, err)
	}
}

func (a *agent) learn(sent time.Duration, held arbiter.Held, err error) {
	was := a.view.Arbiter
	arb := &a.view.Arbiter
	switch {
	case err == nil, errors.Is(err, arbiter.ErrAbsent):
		if sent < arb.Asked {
			return
		}
		a.held = held
		*arb = pair.Arbiter{Known: true, Record: held.Record, Asked: sent}
	case errors.Is(err, arbiter.ErrRestored), errors.Is(err, arbiter.ErrUnreadable):
		arb.Trouble, arb.Detail = pair.Wrong, err.Error()
	default:
		arb.Trouble, arb.Detail = pair.Silent, "silent"
	}
	if was.Record.Nonce != arb.Record.Nonce || was.Trouble != arb.Trouble || !was.Known || !a.view.Process.Running {
		a.wake(taskDecide)
	}
}

// decideLoop decides and acts.
func (a *agent) decideLoop() {
	for {
		a.observe()
		v := a.view
		v.Now = a.clock()
		var plan pair.Plan
		held := a.held
		a.state, plan = pair.Decide(a.cfg, a.state, v)
		if bent := a.w.bent.decide; bent != nil {
			bent(a, &v, &plan)
		}
		if a.w.Trace != nil && (plan.Do != a.last.Do || plan.Why != a.last.Why) {
			a.w.trace("%s: %s: %s", names[a.site], plan.Do, plan.Why)
		}
		a.last = plan
		if a.within != plan.Read {
			a.within = plan.Read
			a.wake(taskRead)
		}
		if plan.Do == pair.Nothing {
			a.rest(a.untilNext())
			continue
		}
		if a.act(plan, held) {
			a.rest(a.w.between(time.Millisecond, 5*time.Millisecond))
		} else {
			a.rest(a.w.between(100*time.Millisecond, time.Second))
		}
	}
}

// untilNext is when to decide again: at the agent's pace, or once it has read the
// directory of a stopped etcd.
func (a *agent) untilNext() time.Duration {
	pace := a.w.between(400*time.Millisecond, 600*time.Millisecond)
	if l := &a.looks[lookLog]; l.flying {
		pace = min(pace, max(0, l.due-a.clock())*51/50+time.Microsecond)
	}
	return pace
}

// observe takes what has come in, and looks anew.
func (a *agent) observe() {
	if m := a.member(); m.up != a.view.Process.Running || m.life != a.process {
		a.restarted()
	}
	a.view.Blind = a.w.sites[a.site].blind
	for kind := range looks {
		l := &a.looks[kind]
		if l.flying && a.clock() >= l.due {
			a.land(kind, l)
		}
		if !l.flying && a.wants(kind) {
			a.send(kind, l)
		}
	}
}

// land is the end of a look. A linearizable read ends once its member has applied
// what the leader had.
func (a *agent) land(kind int, l *look) {
	if l.late {
		l.late = false
		l.good, l.value = a.sample(kind)
	}
	waits := l.good && kind == lookQuorum && a.member().commit < l.value.index
	if waits && a.clock()-l.sent < 900*time.Millisecond && l.of == a.process {
		return
	}
	l.flying = false
	if l.good && !waits && l.of == a.process {
		a.take(kind, l)
	}
}

func (a *agent) wants(kind int) bool {
	switch kind {
	case lookPeer:
		return true
	case lookSurvivor:
		r := a.view.Arbiter.Record
		return r.State == arbiter.Solo && r.Survivor != names[a.site]
	case lookLog:
		return !a.view.Process.Running && a.view.Log.Content == pair.Unread
	}
	return a.view.Process.Running
}

func (a *agent) send(kind int, l *look) {
	w := a.w
	took := w.between(time.Millisecond, 30*time.Millisecond)
	if w.chance(w.shape.Slow) {
		took = w.between(100*time.Millisecond, time.Second)
	}
	*l = look{flying: true, late: w.chance(0.5), sent: a.clock(), due: a.clock() + took, of: a.process}
	if kind == lookLog {
		l.late = true // the directory changes by this agent alone
	}
	if !l.late {
		l.good, l.value = a.sample(kind)
	}
}

// sample is what a look would bring now.
func (a *agent) sample(kind int) (bool, seen) {
	w, m := a.w, a.member()
	other := &w.members[1-a.site]
	switch kind {
	case lookQuorum:
		if l := w.quorate(m); l != nil {
			return true, seen{leader: l == m, index: l.commit}
		}
		return false, seen{}
	case lookStatus:
		return w.runs(m), seen{leader: m.lead != 0}
	case lookMembers:
		if !w.runs(m) {
			return false, seen{}
		}
		return true, seen{members: membersOf(m)}
	case lookPeer:
		return w.linked() && w.runs(other), seen{}
	case lookSurvivor:
		if l := w.quorate(other); l == nil || !w.linked() || other.commit < l.commit {
			return false, seen{}
		}
		return true, seen{survivor: a.survivor(other)}
	}
	return true, seen{log: readLog(w.sites[a.site].dir)}
}

func (a *agent) survivor(m *member) pair.Survivor {
	s := pair.Survivor{Cluster: cluster}
	for _, one := range []id{m.conf.voters[0], m.conf.voters[1], m.conf.learner} {
		if one == 0 {
			continue
		}
		s.Members = append(s.Members, wal.ID(one))
		if a.w.siteOf(one) == a.site {
			s.Stale = wal.ID(one)
		}
	}
	return s
}

func membersOf(m *member) pair.Members {
	c := m.conf
	p := pair.Members{Known: true, Cluster: cluster, Self: wal.ID(m.d.id), Voters: c.count(), SelfVoter: c.votes(m.d.id)}
	if p.Voters == 2 {
		p.Peer = wal.ID(c.other(m.d.id))
	}
	if c.learner != m.d.id {
		p.Learner = wal.ID(c.learner)
	}
	return p
}

// take puts what a look brought into the view.
func (a *agent) take(kind int, l *look) {
	v := &a.view
	switch kind {
	case lookQuorum:
		v.Quorum.Confirmed, v.Quorum.Led = l.sent, l.value.leader
	case lookStatus:
		v.Quorum.Answers, v.Quorum.Leader = l.sent, l.value.leader
	case lookMembers:
		v.Members = l.value.members
	case lookPeer:
		v.PeerSeen = l.sent
	case lookSurvivor:
		v.Survivor = l.value.survivor
		v.Survivor.Answered = l.sent
	case lookLog:
		v.Log = l.value.log
	}
}

// readLog is what the agent makes of package wal's verdict.
func readLog(d *dir) pair.Log {
	switch {
	case d == nil:
		return pair.Log{Content: pair.Empty}
	case d.half:
		return pair.Log{Content: pair.Unfit, Detail: "half of the directory is missing"}
	case d.damaged:
		return pair.Log{Content: pair.Unfit, Detail: "a sum is wrong"}
	case d.base.count() == 0:
		// So package wal says of a learner that has received nothing yet.
		return pair.Log{Content: pair.Unfit, Detail: "the log does not go back to the first entry"}
	}
	log := pair.Log{Cluster: cluster, Self: wal.ID(d.id)}
	v := d.examine()
	log.Learner = !v.end.votes(d.id) && v.end.learner == d.id
	alone := v.end.count() == 1 && v.voters == 1
	switch {
	case log.Learner, v.end.votes(d.id) && !alone:
		log.Content = pair.Two
	case v.end.votes(d.id):
		log.Content = pair.Alone
	default:
		log.Content, log.Detail = pair.Unfit, "this member was removed"
	}
	return log
}

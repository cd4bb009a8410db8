package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// act does what a plan says, with a point to die at before and after everything
// that shows outside. false: it failed.
func (a *agent) act(p pair.Plan, held arbiter.Held) bool {
	if a.w.chance(a.w.shape.Slow / 4) {
		a.step(0, 700*time.Millisecond) // others have the processor
	}
	a.step(0, 2*time.Millisecond)
	switch p.Do {
	case pair.Start:
		return a.start(false)
	case pair.Stop:
		return a.halt()
	case pair.Create:
		return (!p.Barrier || a.barrier()) && a.write(p, held)
	case pair.Pair:
		return (a.w.bent.noBarrier || a.barrier()) && a.write(p, held)
	case pair.Claim, pair.GiveBack:
		return a.write(p, held)
	case pair.Edit:
		return a.edit()
	case pair.Expel:
		return a.expel()
	case pair.Promote:
		return a.promote()
	case pair.SetAside:
		return a.setAside()
	case pair.Join:
		return a.join()
	}
	a.w.breach("%s: no such action %q", names[a.site], p.Do)
	return false
}

func (a *agent) start(join bool) bool {
	a.w.start(a.site, join)
	a.step(0, 50*time.Millisecond)
	a.restarted()
	return true
}

// halt is a stop: a signal, then a kill.
func (a *agent) halt() bool {
	w, m := a.w, a.member()
	w.judge.stops(w, m)
	w.trace("%s: stops etcd", names[a.site])
	life := m.life
	if m.frozen <= w.now {
		w.exit(m, w.between(time.Millisecond, 500*time.Millisecond))
	}
	a.step(0, 300*time.Millisecond)
	if m.up && m.life == life {
		w.gone(m)
	}
	a.step(0, time.Millisecond)
	a.restarted()
	return true
}

// write changes the record that the decision saw.
func (a *agent) write(p pair.Plan, held arbiter.Held) bool {
	if a.w.bent.newest {
		held = a.held
	}
	next, err := a.client.Change(a.w.within(requestTimeout), held, p.Next)
	a.step(0, 2*time.Millisecond)
	if err != nil {
		a.w.trace("%s: %s: not known to be done", names[a.site], p.Do)
		a.within, a.tried = time.Millisecond, 0
		a.wake(taskRead)
		return false
	}
	if p.Do == pair.Claim {
		a.state.Licence, a.state.FromPaired = next.Nonce, held.State == arbiter.Paired
	}
	a.held = next
	a.view.Arbiter = pair.Arbiter{Known: true, Record: next.Record, Asked: a.view.Arbiter.Asked}
	return true
}

// edit makes self the only member of the stopped directory.
func (a *agent) edit() bool {
	w, s := a.w, &a.w.sites[a.site]
	a.step(time.Millisecond, 80*time.Millisecond)
	d := s.dir
	refused := ""
	switch v := d.verdict(); {
	case s.full:
		refused, a.state.RefusedUntil = "no space", a.clock()+30*time.Second
	case d == nil || d.half || d.damaged || !v.selfVotes || v.voters > 2:
		refused, a.state.RefusedUntil = "not the directory of a voter of a pair", 1<<63-1
	}
	if refused != "" {
		a.state.Refusal = refused
		return false
	}
	w.judge.edits(w, a)
	if w.bent.truncate {
		d.log = d.log[:d.commit]
	}
	for _, other := range d.verdict().others {
		w.uids++
		d.log = append(d.log, entry{kind: remove, term: max(d.term, d.lastTerm()) + 1, uid: w.uids, arg: other})
	}
	if w.chance(w.shape.Torn) {
		// The removal is on the disk, and not the hard state.
		d.synced = len(d.log)
		w.after(0, event{what: evDie, a: int8(a.site)})
	}
	a.step(0, 0)
	d.term = max(d.term+1, d.lastTerm())
	d.vote, d.commit, d.synced = d.id, len(d.log), len(d.log)
	w.trace("%s: its log of %d entries is edited", names[a.site], len(d.log))
	a.step(0, 5*time.Millisecond)
	a.state.Licence, a.state.FromPaired = "", false
	a.view.Log = pair.Log{}
	return true
}

func (d *dir) verdict() verdict {
	if d == nil {
		return verdict{}
	}
	return d.examine()
}

// client calls a member, which applies a change; false: not known to be done.
func (a *agent) call(m *member, e entry, timeout time.Duration) bool {
	w := a.w
	near := func() bool { return m.site == a.site || w.linked() }
	a.step(time.Millisecond, 10*time.Millisecond)
	uid := uint32(0)
	if near() {
		uid = w.request(m, e)
	}
	if uid == 0 {
		return false
	}
	life := m.life
	for end := w.now + timeout; w.now < end; {
		a.pause(20 * time.Millisecond)
		if m.life != life || !m.up {
			return false
		}
		if m.applied(uid) {
			a.step(0, 5*time.Millisecond)
			return near()
		}
	}
	return false
}

// barrier is a write that both have to acknowledge: the members are the same
// two before and after.
func (a *agent) barrier() bool {
	m := a.member()
	two := func() (conf, bool) {
		for range 20 {
			a.pause(a.w.between(time.Millisecond, 10*time.Millisecond))
			if l := a.w.quorate(m); l != nil && m.commit >= l.commit {
				return m.conf, m.conf.count() == 2 && m.conf.votes(m.d.id)
			}
		}
		return conf{}, false
	}
	if a.w.bent.plainBarrier {
		return a.call(m, entry{kind: write}, 2*time.Second)
	}
	before, ok := two()
	if !ok || !a.call(m, entry{kind: write}, 2*time.Second) {
		return false
	}
	after, ok := two()
	return ok && before == after
}

// expel takes the peer out, as the leader.
func (a *agent) expel() bool {
	w, m := a.w, a.member()
	if !w.runs(m) {
		return false
	}
	if m.role != leader {
		if other := &w.members[1-a.site]; w.linked() && w.runs(other) && other.role == leader && other.match == len(other.d.log) {
			w.send(other, message{kind: msgNow, to: m.d.id, term: other.d.term})
		}
		a.step(time.Millisecond, 200*time.Millisecond)
		return false
	}
	peer := id(a.view.Members.Peer)
	return peer != 0 && a.call(m, entry{kind: remove, arg: peer}, 3*time.Second)
}

func (a *agent) promote() bool {
	learner := id(a.view.Members.Learner)
	return a.call(a.member(), entry{kind: promote, arg: learner}, 3*time.Second)
}

// setAside moves the directory away in two renames.
func (a *agent) setAside() bool {
	w, s := a.w, &a.w.sites[a.site]
	if s.dir == nil {
		return true
	}
	w.judge.setsAside(w, a)
	s.dir.half = true
	a.step(0, 2*time.Millisecond)
	w.trace("%s: its data is set aside", names[a.site])
	s.aside = append(s.aside, s.dir)
	s.dir = nil
	a.step(0, 2*time.Millisecond)
	a.view.Log = pair.Log{}
	return true
}

// join has the survivor take this member as a learner.
func (a *agent) join() bool {
	w := a.w
	other := &w.members[1-a.site]
	if stale := id(a.view.Survivor.Stale); stale != 0 {
		if !a.call(other, entry{kind: remove, arg: stale}, 3*time.Second) && w.runs(other) && other.conf.has(stale) {
			return false
		}
	}
	if !a.call(other, entry{kind: addLearner, arg: w.newID(a.site)}, 3*time.Second) {
		return false
	}
	return a.start(true)
}

package sim

import (
	"slices"
	"time"
)

type role uint8

const (
	follower role = iota
	preCandidate
	candidate
	leader
)

// electionTimeout is etcd's default; a follower takes one to two of it.
const electionTimeout = time.Second

// beatEvery is five times etcd's heartbeat interval, to spare events.
const beatEvery = 500 * time.Millisecond

// member is a process of etcd.
type member struct {
	site   int
	up     bool // the process exists
	booted bool // it takes part
	ending bool
	life   uint32
	frozen time.Duration
	ended  time.Duration // when the process was last gone
	join   bool          // to be started with a cluster that exists
	d      *dir

	role   role
	lead   id
	heard  time.Duration // from the leader, or a vote given
	answer time.Duration // of the other member to this leader
	commit int
	conf   conf
	gone   []id

	match, next int           // of the other member
	snap        time.Duration // when one was sent to it
}

// msg is what a message is of.
type msg uint8

const (
	msgPreVote msg = iota
	msgPreVoteAnswer
	msgVote
	msgVoteAnswer
	msgAppend
	msgAppendAnswer
	msgBeat
	msgBeatAnswer
	msgSnap
	msgNow  // campaign at once
	msgGone // the receiver was removed
)

type message struct {
	from, to id
	entries  []entry
	base     conf
	index    int
	commit   int
	epoch    int
	term     uint32
	logTerm  uint32
	kind     msg
	reject   bool
	force    bool
}

// runs reports whether a process does something.
func (w *World) runs(m *member) bool { return m.up && m.booted && m.frozen <= w.now }

// send puts a message on the wire to the other site.
func (w *World) send(m *member, g message) {
	to := 1 - m.site
	if !w.open[m.site][to] || g.to == 0 {
		return
	}
	g.from = m.d.id
	delay := w.between(w.shape.Latency, 3*w.shape.Latency)
	if g.kind == msgSnap {
		delay += w.between(50*time.Millisecond, w.shape.Transfer)
	}
	w.messages = append(w.messages, g)
	w.after(delay, event{what: evMessage, a: int8(to), x: int32(len(w.messages) - 1)})
}

// deliver hands a message to the member at a site.
func (w *World) deliver(m *member, g *message) {
	if !w.open[1-m.site][m.site] || !w.runs(m) || m.d == nil || g.to != m.d.id {
		return
	}
	if g.kind == msgGone {
		w.trace("%s: etcd ends, it was removed", m.name())
		w.exit(m, 0)
		return
	}
	if slices.Contains(m.gone, g.from) {
		w.send(m, message{kind: msgGone, to: g.from})
		return
	}
	if !w.terms(m, g) {
		return
	}
	switch g.kind {
	case msgPreVote, msgVote:
		w.ballot(m, g)
	case msgPreVoteAnswer, msgVoteAnswer:
		w.voted(m, g)
	case msgAppend:
		m.follow(g.term, g.from, w.now)
		w.appended(m, g)
	case msgBeat:
		m.follow(g.term, g.from, w.now)
		w.commitTo(m, min(g.commit, len(m.d.log)))
		w.send(m, message{kind: msgBeatAnswer, to: g.from, term: m.d.term})
	case msgSnap:
		m.follow(g.term, g.from, w.now)
		w.installed(m, g)
	case msgAppendAnswer, msgBeatAnswer:
		w.answered(m, g)
	case msgNow:
		if m.conf.votes(m.d.id) {
			w.campaign(m, true)
		}
	}
}

// terms compares those of a message and a member; false ends it.
func (w *World) terms(m *member, g *message) bool {
	switch {
	case g.term > m.d.term:
		asks := g.kind == msgVote || g.kind == msgPreVote
		if asks && !g.force && m.lead != 0 && (m.role == leader || w.now-m.heard < electionTimeout) {
			return false
		}
		if g.kind != msgPreVote && (g.kind != msgPreVoteAnswer || g.reject) {
			m.follow(g.term, 0, w.now)
		}
	case g.term < m.d.term:
		switch g.kind {
		case msgAppend, msgBeat, msgSnap:
			w.send(m, message{kind: msgAppendAnswer, to: g.from, term: m.d.term, index: min(m.commit, m.d.synced)})
		case msgPreVote:
			w.send(m, message{kind: msgPreVoteAnswer, to: g.from, term: m.d.term, reject: true})
		}
		return false
	}
	return true
}

func (m *member) follow(term uint32, lead id, now time.Duration) {
	if term != m.d.term {
		m.d.term, m.d.vote = term, 0
	}
	m.role, m.lead = follower, lead
	if lead != 0 {
		m.heard = now
	}
}

// ballot answers a request for a vote.
func (w *World) ballot(m *member, g *message) {
	d := m.d
	free := d.vote == g.from || d.vote == 0 && m.lead == 0 || g.kind == msgPreVote && g.term > d.term
	current := g.logTerm > d.lastTerm() || g.logTerm == d.lastTerm() && g.index >= len(d.log)
	answer := message{kind: g.kind + 1, to: g.from, term: d.term, reject: true}
	if free && current {
		answer.term, answer.reject = g.term, false
		if g.kind == msgVote {
			d.vote, m.heard = g.from, w.now
		}
	}
	w.send(m, answer)
}

// voted takes an answer; of two voters one other's is enough.
func (w *World) voted(m *member, g *message) {
	switch {
	case g.reject || !m.conf.votes(g.from):
	case g.kind == msgPreVoteAnswer && m.role == preCandidate && g.term == m.d.term+1:
		w.campaign(m, false)
	case g.kind == msgVoteAnswer && m.role == candidate && g.term == m.d.term:
		w.win(m)
	}
}

// runFor asks for votes before an election.
func (w *World) runFor(m *member) {
	m.lead = 0
	if !m.conf.votes(m.d.id) {
		return
	}
	m.role = preCandidate
	if m.conf.count() == 1 {
		w.campaign(m, false)
		return
	}
	w.send(m, message{kind: msgPreVote, to: m.conf.other(m.d.id), term: m.d.term + 1, index: len(m.d.log), logTerm: m.d.lastTerm()})
}

func (w *World) campaign(m *member, force bool) {
	m.d.term++
	m.d.vote, m.role, m.lead = m.d.id, candidate, 0
	if m.conf.count() == 1 {
		w.win(m)
		return
	}
	w.send(m, message{kind: msgVote, to: m.conf.other(m.d.id), term: m.d.term, index: len(m.d.log), logTerm: m.d.lastTerm(), force: force})
}

func (w *World) win(m *member) {
	m.role, m.lead, m.answer = leader, m.d.id, w.now
	m.match, m.next, m.snap = 0, len(m.d.log)+1, 0
	w.trace("%s: leads in term %d with %d entries, %d voters", m.name(), m.d.term, len(m.d.log), m.conf.count())
	w.propose(m, entry{kind: noop})
	w.after(beatEvery, event{what: evBeat, a: int8(m.site), life: m.life, y: m.d.term})
}

// propose appends an entry at the leader.
func (w *World) propose(m *member, e entry) uint32 {
	w.uids++
	e.term, e.uid = m.d.term, w.uids
	m.d.log = append(m.d.log, e)
	w.sync(m)
	w.sendAppend(m)
	return e.uid
}

// sync has the disk take the log as it is.
func (w *World) sync(m *member) {
	took := w.between(100*time.Microsecond, w.shape.Sync)
	w.after(took, event{what: evSync, a: int8(m.site), life: m.life, x: int32(len(m.d.log)), y: m.d.lastTerm()})
}

func (w *World) synced(m *member, x int, term uint32) {
	d := m.d
	if x > len(d.log) || d.termAt(x) != term {
		return
	}
	d.synced = max(d.synced, x)
	d.commit = max(d.commit, min(m.commit, d.synced))
	switch {
	case m.role == leader:
		w.mayCommit(m)
	case m.lead != 0:
		w.send(m, message{kind: msgAppendAnswer, to: m.lead, term: d.term, index: x})
	}
}

func (w *World) mayCommit(m *member) {
	n := m.d.synced
	if m.conf.count() == 2 {
		n = min(n, m.match)
	}
	if !m.conf.votes(m.d.id) || n <= m.commit || m.d.termAt(n) != m.d.term {
		return
	}
	w.commitTo(m, n)
	if m.up && m.role == leader {
		w.sendAppend(m) // by which the other one learns of it
	}
}

// commitTo applies entries. Who committed them is the membership that was in
// force when it did: one that has just started may commit alone what stands behind
// the promotion of another.
func (w *World) commitTo(m *member, n int) {
	both := m.conf.count() == 2
	for i := m.commit; i < n; i++ {
		e := m.d.log[i]
		w.judge.committed(w, m, i, e, both)
		m.commit = i + 1
		if e.kind < remove {
			continue
		}
		m.conf = m.conf.apply(e)
		w.trace("%s: applies %s", m.name(), w.change(e))
		if e.kind == remove {
			m.gone = append(m.gone, e.arg)
		}
		if e.kind == addLearner && m.role == leader {
			m.match, m.next, m.snap = 0, i+1, 0
		}
		w.judge.alone(w, m)
		w.judge.look(w)
		if e.kind == remove && e.arg == m.d.id {
			w.exit(m, w.between(0, 100*time.Millisecond))
			return
		}
	}
}

func (w *World) sendAppend(m *member) {
	to := m.conf.other(m.d.id)
	if to == 0 {
		return
	}
	d := m.d
	if m.conf.learner == to && m.match == 0 && m.next <= 1 {
		w.sendSnap(m, to)
		return
	}
	prev := min(m.next-1, len(d.log))
	from := len(w.arena)
	w.arena = append(w.arena, d.log[prev:]...)
	w.send(m, message{
		kind: msgAppend, to: to, term: d.term, index: prev, logTerm: d.termAt(prev), commit: m.commit,
		entries: w.arena[from:len(w.arena):len(w.arena)],
	})
	m.next = len(d.log) + 1
}

func (w *World) sendSnap(m *member, to id) {
	if m.snap != 0 && w.now-m.snap < 10*time.Second {
		return
	}
	m.snap = w.now
	from := len(w.arena)
	w.arena = append(w.arena, m.d.log[:m.commit]...)
	w.send(m, message{
		kind: msgSnap, to: to, term: m.d.term, base: m.d.base, epoch: m.d.epoch, index: m.commit,
		entries: w.arena[from:len(w.arena):len(w.arena)],
	})
}

// appended takes entries from the leader, and answers after the sync.
func (w *World) appended(m *member, g *message) {
	d := m.d
	if g.index < m.commit {
		w.send(m, message{kind: msgAppendAnswer, to: g.from, term: d.term, index: min(m.commit, m.d.synced)})
		return
	}
	if g.index > len(d.log) || d.termAt(g.index) != g.logTerm || d.base.count() == 0 {
		w.send(m, message{kind: msgAppendAnswer, to: g.from, term: d.term, index: g.index, reject: true, commit: min(g.index, len(d.log))})
		return
	}
	last := g.index
	for _, e := range g.entries {
		last++
		if last <= len(d.log) {
			if d.termAt(last) == e.term {
				continue
			}
			if last <= m.commit {
				w.breach("%s overwrites entry %d, which is committed", m.name(), last)
			}
			d.log = d.log[:last-1]
			d.synced = min(d.synced, last-1)
		}
		d.log = append(d.log, e)
	}
	if last <= d.synced {
		w.send(m, message{kind: msgAppendAnswer, to: g.from, term: d.term, index: last})
	} else {
		w.sync(m)
	}
	w.commitTo(m, min(g.commit, last))
}

func (w *World) installed(m *member, g *message) {
	d := m.d
	switch {
	case g.index <= m.commit:
	case d.base.count() > 0 && g.index <= len(d.log) && d.termAt(g.index) == g.entries[g.index-1].term:
		w.commitTo(m, g.index) // it has them, and perhaps more
	default:
		d.base, d.epoch = g.base, g.epoch
		d.log = append(d.log[:0], g.entries...)
		d.synced, d.commit, m.commit = g.index, g.index, g.index
		m.conf, m.gone = d.confAt(g.index), d.gone(g.index, m.gone[:0])
		w.trace("%s: has a snapshot up to entry %d", m.name(), g.index)
	}
	w.send(m, message{kind: msgAppendAnswer, to: g.from, term: d.term, index: min(m.commit, m.d.synced)})
}

// answered takes the other member's answer at the leader.
func (w *World) answered(m *member, g *message) {
	if m.role != leader || g.from != m.conf.other(m.d.id) {
		return
	}
	m.answer = w.now
	switch {
	case g.kind == msgBeatAnswer:
		if m.match < len(m.d.log) {
			m.next = m.match + 1
			w.sendAppend(m)
		}
	case g.reject:
		if m.next = min(g.commit, len(m.d.log)) + 1; m.next <= m.match {
			m.next = m.match + 1
		}
		w.sendAppend(m)
	default:
		m.match = max(m.match, min(g.index, len(m.d.log)))
		m.next = max(m.next, m.match+1)
		w.mayCommit(m)
	}
}

// elect is the end of an election timeout.
func (w *World) elect(m *member) {
	next := w.between(electionTimeout, 2*electionTimeout)
	switch {
	case m.role == leader:
		if next = electionTimeout; m.conf.count() == 2 && w.now-m.answer > electionTimeout {
			w.trace("%s: steps down, the other one does not answer", m.name())
			m.follow(m.d.term, 0, w.now)
		}
	case w.now-m.heard >= electionTimeout:
		w.runFor(m)
	default:
		next = m.heard + next - w.now
	}
	w.after(next, event{what: evElect, a: int8(m.site), life: m.life})
}

func (w *World) beat(m *member, term uint32) {
	if m.role != leader || m.d.term != term {
		return
	}
	if to := m.conf.other(m.d.id); to != 0 {
		w.send(m, message{kind: msgBeat, to: to, term: m.d.term, commit: min(m.match, m.commit)})
		if m.conf.learner == to && m.match == 0 {
			w.sendAppend(m)
		}
	}
	w.after(beatEvery, event{what: evBeat, a: int8(m.site), life: m.life, y: term})
}

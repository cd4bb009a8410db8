package sim

import "time"

// member is one etcd: its process and what its raft believes.
type member struct {
	up      bool
	frozen  bool // the whole machine stands still
	voter   bool
	removed bool
	serving bool // answers Status; false while it defragments

	leading bool
	lead    int8 // whom it follows, itself when leading, -1 none
	term    uint64
	// lostAt is when it last came to have no leader.
	lostAt time.Duration
	// synced says that it has the whole log; otherwise entries counts what it has.
	synced  bool
	entries uint64

	slow  bool // takes long to catch up
	stall bool // slow disk, since stallAt
	// stallAt is when it became slow for the last time, curedAt when it ceased to be.
	stallAt, curedAt time.Duration
	alarm            bool

	// deaf says that its leader is silent since deafAt and its timer runs.
	deaf   bool
	deafAt time.Duration
	// alone says that it leads without a quorum and CheckQuorum will see it.
	alone   bool
	joining bool
	moving  bool          // a leader that has told a transferee to campaign
	movedAt time.Duration // when that began
	timer   uint32
	sync    uint32
	joinGen uint32
	thawAt  time.Duration
}

// progress is the log of the cluster: how many entries stand at a time.
type progress struct {
	entries float64
	at      time.Duration
}

func (w *World) committed() uint64 {
	return 1000 + uint64(w.log.entries+w.shape.Rate*(w.now-w.log.at).Seconds())
}

// entriesOf is how much of the log member i has.
func (w *World) entriesOf(i int) uint64 {
	if w.members[i].synced {
		return w.committed()
	}
	return w.members[i].entries
}

func (w *World) runs(i int) bool { return w.members[i].up && !w.members[i].frozen }

func (w *World) voters() int {
	n := 0
	for i := range w.n {
		if w.members[i].voter {
			n++
		}
	}
	return n
}

// reach counts the voters that i has raft with, itself included.
func (w *World) reach(i int) int {
	n := 0
	for j := range w.n {
		if w.members[j].voter && w.works(i, j) {
			n++
		}
	}
	return n
}

func (w *World) quorate(i int) bool { return w.reach(i) > w.voters()/2 }

// leads says that i leads with a quorum that knows no later term: what a
// committed write proves.
func (w *World) leads(i int) bool {
	n := 0
	for j := range w.n {
		if w.members[j].voter && w.works(i, j) && w.members[j].term <= w.members[i].term {
			n++
		}
	}
	return w.members[i].leading && w.runs(i) && n > w.voters()/2
}

// leaderNow is the true leader, of the highest term, or -1.
func (w *World) leaderNow() int {
	best := -1
	for i := range w.n {
		if m := &w.members[i]; m.leading && w.runs(i) && (best < 0 || m.term > w.members[best].term) {
			best = i
		}
	}
	return best
}

// refresh brings every member in line after the network or a process changed.
func (w *World) refresh() {
	w.connect()
	for i := range w.n {
		if !w.runs(i) {
			continue
		}
		if w.members[i].leading {
			w.refreshLeader(i)
		} else {
			w.refreshFollower(i)
		}
		w.refreshJoin(i)
	}
	w.truth.look(w)
	w.refreshProbes()
}

func (w *World) refreshLeader(i int) {
	m := &w.members[i]
	switch alone := !w.quorate(i); {
	case alone && !m.alone:
		m.alone = true
		m.timer++
		w.after(w.between(electionTimeout, 2*electionTimeout), event{kind: evStepDown, a: int8(i), gen: m.timer})
	case !alone && m.alone:
		m.alone = false
		m.timer++
	}
}

// hears says that i's leader reaches it.
func (w *World) hears(i int) bool {
	m := &w.members[i]
	if m.lead < 0 {
		return false
	}
	l := &w.members[m.lead]
	return l.leading && l.term == m.term && w.works(i, int(m.lead))
}

func (w *World) refreshFollower(i int) {
	m := &w.members[i]
	switch hears := w.hears(i); {
	case !hears && !m.deaf:
		w.fallBehind(i)
		m.deaf, m.deafAt = true, w.now
		w.armElection(i)
	case hears && m.deaf:
		m.deaf = false
		m.timer++
		w.catchUp(i)
	}
}

func (w *World) armElection(i int) {
	m := &w.members[i]
	m.timer++
	w.after(w.between(electionTimeout, 2*electionTimeout), event{kind: evElection, a: int8(i), gen: m.timer})
}

func (w *World) fallBehind(i int) {
	m := &w.members[i]
	if m.synced {
		m.synced, m.entries = false, w.committed()
	}
	m.sync++
}

func (w *World) catchUp(i int) {
	m := &w.members[i]
	if m.synced {
		return
	}
	m.sync++
	delay := w.between(20*time.Millisecond, time.Second)
	if m.slow {
		delay = w.between(5*time.Second, 30*time.Second)
	}
	w.after(delay, event{kind: evCatchUp, a: int8(i), gen: m.sync})
}

// refreshJoin lets i hear from a leader of a later term, or of its own when it
// follows nobody: after a heartbeat, and after the dialling that goes before.
func (w *World) refreshJoin(i int) {
	m := &w.members[i]
	if m.joining {
		return
	}
	for l := range w.n {
		if !w.heralds(l, i) {
			continue
		}
		m.joining = true
		m.joinGen++
		// Dialling is given up after 2 s and begun anew, so after a cut it may
		// take that long.
		delay := w.between(50*time.Millisecond, 2*time.Second)
		// Over streams that stand, the next heartbeat does.
		if m.lead >= 0 || w.now-m.lostAt < 100*time.Millisecond || w.now-w.net.dialled[i][l] > 2*time.Second {
			delay = w.between(10*time.Millisecond, 500*time.Millisecond)
		}
		w.after(delay, event{kind: evJoin, a: int8(i), b: int8(l), gen: m.joinGen})
		return
	}
}

// heralds says that leader l has something to tell i.
func (w *World) heralds(l, i int) bool {
	a, m := &w.members[l], &w.members[i]
	return l != i && a.leading && w.works(l, i) && !m.removed &&
		(a.term > m.term || a.term == m.term && m.lead < 0)
}

func (w *World) handleRaft(e event, i int) {
	m := &w.members[i]
	if m.frozen && e.kind != evThaw {
		e.at = m.thawAt + w.between(0, 50*time.Millisecond)
		w.queue.push(e)
		return
	}
	switch e.kind {
	case evElection:
		if e.gen == m.timer && m.up {
			w.electionTimeout(i)
		}
	case evStepDown:
		if e.gen == m.timer && m.up && m.leading {
			w.stepDown(i)
			w.refresh()
		}
	case evJoin:
		w.join(e, i, int(e.b))
	case evCatchUp:
		if e.gen == m.sync && m.up {
			m.synced = true
			w.noticed(i)
		}
	case evTransfer:
		w.transfer(e, i, int(e.b))
	case evThaw:
		if m.frozen && w.now >= m.thawAt {
			w.thaw(i)
		}
	}
}

func (w *World) join(e event, i, l int) {
	m := &w.members[i]
	if e.gen != m.joinGen {
		return
	}
	m.joining = false
	if w.runs(i) && w.heralds(l, i) {
		w.follow(i, l)
	}
	w.refresh()
}

// follow makes i a follower of l in l's term.
func (w *World) follow(i, l int) {
	m := &w.members[i]
	if m.leading {
		w.fallBehind(i)
	}
	m.leading, m.alone, m.deaf, m.moving = false, false, false, false
	m.lead, m.term = int8(l), w.members[l].term
	m.timer++
	w.catchUp(i)
	w.noticed(i)
	w.trace("%s follows %s in term %d", w.name(i), w.name(l), m.term)
}

func (w *World) stepDown(i int) {
	m := &w.members[i]
	m.leading, m.alone, m.moving = false, false, false
	w.fallBehind(i)
	w.loseLeader(i)
	m.deaf = true
	w.armElection(i)
	w.trace("%s has no quorum and steps down", w.name(i))
}

func (w *World) loseLeader(i int) {
	m := &w.members[i]
	m.lead, m.lostAt = -1, w.now
	w.noticed(i)
}

// electionTimeout is a follower whose timer ran out: it has no leader from
// here on, and asks for votes once per timeout.
func (w *World) electionTimeout(i int) {
	m := &w.members[i]
	if m.lead >= 0 {
		w.loseLeader(i)
		w.trace("%s has no leader", w.name(i))
		w.truth.look(w)
	}
	if m.voter && w.grants(i, false) > w.voters()/2 {
		w.elect(i)
		return
	}
	w.armElection(i)
	w.refreshJoin(i)
}

// grants counts the votes for i. A voter that hears a leader ignores PreVote
// for an election timeout after it last did; a transfer goes around that.
func (w *World) grants(i int, transfer bool) int {
	n := 0
	for j := range w.n {
		v := &w.members[j]
		if !v.voter || !w.works(i, j) || w.entriesOf(j) > w.entriesOf(i) {
			continue
		}
		lease := v.leading || v.lead >= 0 && (!v.deaf || w.now-v.deafAt < electionTimeout)
		if j == i || transfer || !lease {
			n++
		}
	}
	return n
}

// elect makes i leader of a new term, and all it reaches its followers.
func (w *World) elect(i int) {
	term := w.members[i].term
	for j := range w.n {
		if w.works(i, j) {
			term = max(term, w.members[j].term)
		}
	}
	m := &w.members[i]
	m.leading, m.lead, m.term, m.deaf, m.alone = true, int8(i), term+1, false, false
	m.timer++
	m.sync++
	w.settleLog(i)
	w.trace("%s leads in term %d", w.name(i), m.term)
	w.noticed(i)
	for j := range w.n {
		if j != i && w.works(i, j) && !w.members[j].removed {
			w.follow(j, i)
		}
	}
	w.refresh()
}

// settleLog makes i's log the log: what it lacks was never committed.
func (w *World) settleLog(i int) {
	m := &w.members[i]
	if m.synced {
		return
	}
	has := max(m.entries, 1000)
	w.log.entries, w.log.at = float64(has-1000), w.now
	for j := range w.n {
		if o := &w.members[j]; o.synced {
			o.synced, o.entries = false, has
		} else {
			o.entries = min(o.entries, has)
		}
	}
	m.synced = true
}

// transfer is the end of a MoveLeader: the target campaigns.
func (w *World) transfer(e event, l, t int) {
	m := &w.members[l]
	if e.gen != uint32(m.term) || !m.leading {
		return
	}
	m.moving = false
	if !w.works(l, t) || w.members[t].term > m.term || !w.members[t].voter || !w.members[t].synced {
		return
	}
	if w.grants(t, true) <= w.voters()/2 {
		w.stepDown(l) // the target's later term deposes it, and nobody wins
		w.refresh()
		return
	}
	w.truth.moved(w, l, t, m.movedAt)
	w.elect(t)
}

package sim

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
)

func (w *World) publishLater(i int, d time.Duration) {
	a := &w.agents[i]
	a.publishes++
	w.after(d, event{kind: evPublish, a: int8(i), gen: a.publishes})
}

// publish sends agent i's row to every other agent it has a route to.
func (w *World) publish(i int) {
	a := &w.agents[i]
	if a.reachable && a.lead < 0 {
		w.publishLater(i, w.shape.Config.LostFor)
	} else {
		w.publishLater(i, publishEvery)
	}
	if a.mute {
		return
	}
	x := w.writeRow(i)
	hops := w.hops(i)
	viaStore := w.storeFrom(i)
	for j := range w.n {
		if j == i || !w.agents[j].up || w.chance(w.shape.Lost) {
			continue
		}
		delay := time.Duration(0)
		switch {
		case viaStore && w.storeTo(j):
			delay = w.between(20*time.Millisecond, 250*time.Millisecond)
		case hops[j] > 0:
			delay = time.Duration(hops[j]) * w.between(20*time.Millisecond, 400*time.Millisecond)
		default:
			continue
		}
		if w.chance(w.shape.Late) {
			delay += w.between(0, 4*time.Second)
		}
		w.after(delay, event{kind: evRow, a: int8(j), x: x})
	}
}

// writeRow takes down what agent i knows now.
func (w *World) writeRow(i int) int32 {
	a, m := &w.agents[i], &w.members[i]
	a.seq++
	r := row{
		boot: a.boot, seq: a.seq, from: int8(i), sentAt: w.now, reachable: a.reachable, lead: a.lead, term: a.term,
		index: w.entriesOf(i), learner: !m.voter, alarm: m.alarm, stall: m.stall, penalty: a.state.Record(),
	}
	if a.lead < 0 && a.reachable {
		r.leaderless = a.clock(w) - a.lostAt
	}
	for j := range w.n {
		if j != i {
			r.links[j] = a.link(w, j)
			r.links[j].Doubt = false
		}
	}
	w.rows = append(w.rows, r)
	return int32(len(w.rows) - 1)
}

// storeFrom says that agent i can write to etcd: through some member that has
// a leader with a quorum.
func (w *World) storeFrom(i int) bool { return !w.full() && w.storeTo(i) }

// storeTo says that agent i can read what is written to etcd.
func (w *World) storeTo(i int) bool {
	for y := range w.n {
		if y != i && (w.shape.NoClients || !w.opens(i, y)) {
			continue
		}
		if w.runs(y) && w.members[y].serving && (w.leads(y) || w.hears(y) && w.leads(int(w.members[y].lead))) {
			return true
		}
	}
	return false
}

// full says that a NOSPACE alarm keeps etcd from taking writes.
func (w *World) full() bool {
	for i := range w.n {
		if w.members[i].alarm && !w.members[i].removed {
			return true
		}
	}
	return false
}

// hops counts how many relays a row of agent i takes to each other; 0 is none.
func (w *World) hops(i int) [most]int {
	var hops [most]int
	if w.shape.NoMesh {
		return hops
	}
	var seen [most]bool
	seen[i] = true
	for depth, more := 1, true; more; depth++ {
		more = false
		was := seen
		for k := range w.n {
			for j := range w.n {
				if was[k] && !seen[j] && w.handsOn(k, j) {
					seen[j], hops[j], more = true, depth, true
				}
			}
		}
	}
	return hops
}

// handsOn says that agent k reaches agent j with a row: either may dial.
func (w *World) handsOn(k, j int) bool {
	return w.agents[k].up && w.agents[j].up && !w.members[k].frozen && !w.members[j].frozen &&
		(w.opens(k, j) || w.opens(j, k))
}

// receive takes a row that arrived at agent i, unless it has a newer one.
func (w *World) receive(i int, x int32) {
	a, r := &w.agents[i], &w.rows[x]
	have := &a.rows[r.from]
	if have.row >= 0 {
		if old := &w.rows[have.row]; old.boot > r.boot || old.boot == r.boot && old.seq >= r.seq {
			return
		}
	}
	have.row, have.at = x, a.clock(w)
	a.see(r.penalty)
	w.nudge(i)
}

// arrange fills agent i's snapshot. Beside a follower only the record counts,
// so the rest is spared there.
func (w *World) arrange(i int) leader.Snapshot {
	a, m := &w.agents[i], &w.members[i]
	s := &a.snap
	s.Now, s.Self = a.clock(w), id(i)
	s.Penalty, s.PenaltyKnown = a.seen, a.readTerm == a.term && a.term != 0
	s.Unrecorded, s.QuietFor, s.SlowFor = w.full(), time.Minute, w.slowFor(i)
	s.Own = leader.Row{
		Member: id(i), Cluster: clusterA, Name: w.name(i), Zone: w.zone(i), Reachable: a.reachable && m.serving,
		Term: a.term, Index: w.entriesOf(i), Applied: w.entriesOf(i), Learner: !m.voter, Links: a.own, Fsync: w.fsync(m.stall),
	}
	clear(s.Rows)
	if a.lead >= 0 {
		s.Own.Leader = id(int(a.lead))
	} else if a.reachable {
		s.Own.LeaderlessFor = s.Now - a.lostAt
	}
	if a.lead == int8(i) || w.Trace != nil {
		w.arrangeOthers(i, s)
	}
	return *s
}

// arrangeOthers fills in what the leader's agent decides by.
func (w *World) arrangeOthers(i int, s *leader.Snapshot) {
	a := &w.agents[i]
	s.Voters = s.Voters[:0]
	for j := range w.n {
		if a.voters[j] {
			s.Voters = append(s.Voters, leader.Voter{ID: id(j), Name: w.name(j)})
		}
		if j != i {
			a.own[id(j)] = a.link(w, j)
		}
	}
	s.VotersChanged = s.Now - a.votersAt
	for j := range w.n {
		if r := &a.rows[j]; j != i && r.row >= 0 {
			s.Rows[id(j)] = w.open(r, s.Now)
		}
	}
}

func (w *World) zone(i int) string {
	if i < len(w.shape.Zones) {
		return w.shape.Zones[i]
	}
	return ""
}

// open turns a received row into what Decide reads, with its age added.
func (w *World) open(have *received, now time.Duration) leader.Row {
	r := &w.rows[have.row]
	age := now - have.at
	j := int(r.from)
	out := leader.Row{
		Member: id(j), Cluster: clusterA, Name: w.name(j), Zone: w.zone(j), Seq: uint64(r.seq), Age: age,
		Reachable: r.reachable, Term: r.term, Index: r.index, Applied: r.index, Learner: r.learner,
		Links: have.links, Penalty: r.penalty,
	}
	if r.lead >= 0 {
		out.Leader = id(int(r.lead))
	} else if r.reachable {
		out.LeaderlessFor = r.leaderless + age
	}
	if r.alarm {
		out.Alarms = noSpace
	}
	out.Fsync = w.fsync(r.stall)
	for k := range w.n {
		if k != j {
			l := r.links[k]
			l.Since += age
			have.links[id(k)] = l
		}
	}
	return out
}

// fsync is what a reading says of a disk.
func (w *World) fsync(stall bool) time.Duration {
	switch {
	case w.shape.NoMetrics:
		return 0
	case stall:
		return time.Second
	}
	return time.Millisecond
}

// slowFor is how long readings in a row have told agent i that its disk is slow.
// They come every ten seconds from its start on, so they begin in the middle of what
// they tell of.
func (w *World) slowFor(i int) time.Duration {
	a, m := &w.agents[i], &w.members[i]
	if !m.stall || !m.up || w.shape.NoMetrics {
		return 0
	}
	first := (max(m.stallAt, a.bootAt) - a.bootAt + readEvery - 1) / readEvery
	last := (w.now - a.bootAt) / readEvery
	return max(0, last-max(first, 1)) * readEvery
}

var noSpace = []string{"NOSPACE"}

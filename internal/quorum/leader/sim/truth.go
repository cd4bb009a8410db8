package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/hysteresis"
	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
)

// detection is how long agents may go on acting on what is no longer so: a
// fresh row's 8 s, its transit of up to 4.3 s, 5 s until a healed link counts
// as up, and 2 s to write the record and call.
const detection = 20 * time.Second

// truth is what the world knows and no agent does, and the judge of moves.
type truth struct {
	// better[l][c]: c reaches strictly more voters than l, and among them one
	// that runs, has no leader, and has no route to l.
	better spell
	// level[l][c]: c reaches no fewer voters than l.
	level spell
	// severed[l][l]: some voter is stranded from l.
	severed spell
	// whole[l][c]: c reaches every voter.
	whole   spell
	stable  time.Duration // when the world last changed
	penalty float64       // by the true times of moves
	last    time.Duration
	Moves   int
	Calls   int
	// Idle counts calls that had a cause but improved nothing: the network
	// changed while reports of it were on their way.
	Idle int
	// Broken is the first invariant that was broken, in words.
	Broken string
}

// spell keeps when something last held for each pair of members.
type spell struct {
	holds [most][most]bool
	until [most][most]time.Duration
}

func (s *spell) note(now time.Duration, i, j int, holds bool) {
	if s.holds[i][j] {
		s.until[i][j] = now
	}
	s.holds[i][j] = holds
}

func (s *spell) last(now time.Duration, i, j int) time.Duration {
	if s.holds[i][j] {
		return now
	}
	return s.until[i][j]
}

func (s *spell) reset() {
	*s = spell{}
	for i := range most {
		for j := range most {
			s.until[i][j] = never
		}
	}
}

func (t *truth) reset() {
	*t = truth{last: never}
	t.better.reset()
	t.level.reset()
	t.severed.reset()
	t.whole.reset()
}

func (w *World) breach(format string, args ...any) {
	if w.truth.Broken == "" {
		w.truth.Broken = fmt.Sprintf("at %s: ", w.now) + fmt.Sprintf(format, args...)
		w.trace("BROKEN: %s", w.truth.Broken)
		if l := w.leaderNow(); l >= 0 && w.Trace != nil {
			for _, line := range w.Explain(l) {
				w.trace("  | %s", line)
			}
		}
	}
}

// look takes in the world after a change.
func (t *truth) look(w *World) {
	var reach [most]int
	for i := range w.n {
		reach[i] = w.reach(i)
	}
	for l := range w.n {
		severed := w.severed(l)
		t.severed.note(w.now, l, l, severed)
		for c := range w.n {
			t.whole.note(w.now, l, c, reach[c] == w.voters())
			t.level.note(w.now, l, c, reach[c] >= reach[l])
			t.better.note(w.now, l, c, severed && reach[c] > reach[l] && w.rescues(l, c))
		}
	}
}

// stranded says that x is a voter that runs without a leader and has no route
// to l.
func (w *World) stranded(l, x int) bool {
	m := &w.members[x]
	return m.voter && w.runs(x) && m.lead < 0 && !w.route(l, x)
}

func (w *World) severed(l int) bool {
	for x := range w.n {
		if w.stranded(l, x) {
			return true
		}
	}
	return false
}

// rescues says that c reaches a voter that is stranded from l.
func (w *World) rescues(l, c int) bool {
	for x := range w.n {
		if w.stranded(l, x) && w.works(c, x) {
			return true
		}
	}
	return false
}

// planned judges a decision by the rows it was made on, counted in the
// plainest way: the target must certainly see more than the leader may.
func (t *truth) planned(w *World, i int, move leader.Move, snap leader.Snapshot) {
	certain, possible := 0, 0
	for _, x := range snap.Voters {
		if state := paired(w.shape.Config, snap, move.Target, x.ID); state == leader.Up {
			certain++
		}
		if state := paired(w.shape.Config, snap, snap.Self, x.ID); state != leader.Down {
			possible++
		}
	}
	home := certain == len(snap.Voters) && w.prefers(index(move.Target))
	relief := certain == len(snap.Voters) && snap.SlowFor >= w.shape.Config.SlowFor && w.shape.Config.SlowFor > 0
	if certain <= possible && !home && !relief {
		w.breach("%s plans to move to %s, which sees %d voters where the leader sees %d", w.name(i), w.name(index(move.Target)), certain, possible)
	}
}

// paired is the state of a pair by either end's fresh row.
func paired(cfg leader.Config, snap leader.Snapshot, x, y leader.MemberID) leader.LinkState {
	if x == y {
		return leader.Up
	}
	state := leader.Unknown
	for _, end := range [2][2]leader.MemberID{{x, y}, {y, x}} {
		r, ok := snap.Rows[end[0]]
		if end[0] == snap.Self {
			r, ok = snap.Own, true
		}
		if !ok || r.Age > cfg.Fresh || r.Learner || !r.Reachable {
			continue
		}
		switch l := r.Links[end[1]]; {
		case l.State == leader.Up && l.Loss < cfg.MaxLoss:
			return leader.Up
		case l.State != leader.Unknown:
			state = leader.Down
		}
	}
	return state
}

// prefers says that c is in the zone that leadership returns to.
func (w *World) prefers(c int) bool {
	return w.shape.Config.Preferred != "" && w.zone(c) == w.shape.Config.Preferred
}

// called judges a call of MoveLeader by the truth of the last while: some
// voter was stranded, and the target reached no fewer than the leader. When
// nothing has changed for as long as detection takes, the target must reach
// strictly more, now. A return to the preferred zone needs a target that
// reached everybody.
func (t *truth) called(w *World, l, c int) {
	t.Calls++
	if !w.members[l].leading {
		return
	}
	allowed := detection
	if a := &w.agents[l]; a.stopped > 0 && w.now-a.stoppedAt < detection {
		allowed += a.stopped
	}
	if w.prefers(c) && w.now-t.whole.last(w.now, l, c) <= allowed {
		return
	}
	if w.now-t.whole.last(w.now, l, c) <= allowed && w.relieved(l, c, allowed) {
		return
	}
	if w.now-t.better.last(w.now, l, c) > allowed {
		t.Idle++
	}
	switch {
	case w.now-t.severed.last(w.now, l, l) > allowed:
		w.breach("%s moves to %s without a cause in the last %s", w.name(l), w.name(c), allowed)
	case w.now-t.level.last(w.now, l, c) > allowed:
		w.breach("%s moves to %s, which reached fewer throughout the last %s", w.name(l), w.name(c), allowed)
	case w.now-t.stable > allowed && w.known(c, l) <= w.known(l, l):
		w.breach("%s moves to %s, which reaches %d where the leader reaches %d, %s after the last change",
			w.name(l), w.name(c), w.known(c, l), w.known(l, l), w.now-t.stable)
	}
}

// relieved says that the disk of l has been slow for as long as the rule asks, not
// much longer ago than allowed, and that of c has been fast.
func (w *World) relieved(l, c int, allowed time.Duration) bool {
	from, to := w.members[l].stallAt, w.now
	if !w.members[l].stall {
		to = w.members[l].curedAt
	}
	long := w.shape.Config.SlowFor > 0 && from != never && to-from >= w.shape.Config.SlowFor && w.now-to <= allowed
	return long && (!w.members[c].stall || w.now-w.members[c].stallAt <= allowed)
}

// known is how many voters i reaches of those that can be known to live: they
// report, or somebody's probes reach them. One that does neither while raft
// goes on over old connections is taken for dead, and no rule can tell.
func (w *World) known(i, l int) int {
	n := 0
	for j := range w.n {
		if !w.members[j].voter || !w.works(i, j) {
			continue
		}
		for k := range w.n {
			if w.reports(j, l) || k != j && w.sighted(k, j, l) {
				n++
				break
			}
		}
	}
	return n
}

// moved judges a move that took effect by when it and the ones before began.
func (t *truth) moved(w *World, l, c int, began time.Duration) {
	cfg := w.shape.Config
	t.Moves++
	left := 0.0
	if t.last != never {
		left = hysteresis.Decayed(t.penalty, began-t.last, cfg.PenaltyHalfLife)
		inside := left >= cfg.PenaltyLimit
		if cfg.Hold > 0 {
			inside = began-t.last < cfg.Hold
		}
		if inside {
			w.breach("%s moves to %s %s after the last move, with a penalty of %.3f", w.name(l), w.name(c), began-t.last, left)
		}
	}
	t.penalty, t.last = left+1, began
}

// CheckCalm judges the end of a schedule: with a voter lost, no fit voter may
// see strictly more than the leader whose agent runs.
func (w *World) CheckCalm() {
	l := w.leaderNow()
	if l < 0 || !w.leads(l) || !w.agents[l].up || !w.members[l].serving {
		return
	}
	w.checkRelief(l)
	sees := w.counted(l)
	for c := range w.n {
		if c == l || !w.fit(l, c) || w.counted(c) <= sees {
			continue
		}
		for x := range w.n {
			if w.lostTo(l, x) && w.sighted(c, x, l) {
				w.breach("calm, and %s still leads (%s) though %s is lost to it and %s sees %d voters where it sees %d",
					w.name(l), w.agents[l].refused, w.name(x), w.name(c), w.counted(c), sees)
				return
			}
		}
	}
}

// checkRelief judges the end of a schedule: a leader with a slow disk does not go on
// leading while one with a fast disk could that sees every voter, and nobody is lost.
func (w *World) checkRelief(l int) {
	if !w.members[l].stall || w.now-w.members[l].stallAt < w.shape.Config.SlowFor+3*readEvery || w.shape.Config.SlowFor == 0 || w.shape.NoMetrics {
		return
	}
	for x := range w.n {
		if m := &w.members[x]; m.voter && w.runs(x) && m.lead < 0 {
			return
		}
	}
	for c := range w.n {
		if c != l && w.fit(l, c) && w.counted(c) == w.voters() {
			w.breach("calm, and %s still leads (%s) though its disk is slow, and that of %s is not, which sees everybody", w.name(l), w.agents[l].refused, w.name(c))
			return
		}
	}
}

// reports says that rows of agent i reach agent l.
func (w *World) reports(i, l int) bool {
	if i == l {
		return true
	}
	return w.agents[i].up && !w.agents[i].mute && (w.storeFrom(i) && w.storeTo(l) || w.hops(i)[l] > 0)
}

func (w *World) fit(l, c int) bool {
	m := &w.members[c]
	return m.voter && w.runs(c) && m.serving && m.synced && !m.alarm && !m.stall &&
		m.lead == int8(l) && w.works(l, c) && w.reports(c, l) && w.probes(c, l) && w.opens(l, c)
}

// lostTo says that x is known to be lost to l by a link that is down.
func (w *World) lostTo(l, x int) bool {
	m := &w.members[x]
	return m.voter && w.runs(x) && m.serving && m.lead < 0 && w.reports(x, l) && !w.sighted(l, x, l)
}

// sighted says that a probe between i and j succeeds, from an end whose rows
// reach l.
func (w *World) sighted(i, j, l int) bool {
	return i == j || w.vouches(i, j, l) || w.vouches(j, i, l)
}

func (w *World) vouches(i, j, l int) bool {
	return w.runs(i) && w.members[i].serving && w.probes(i, j) && w.reports(i, l)
}

// counted is how many voters i sees by the probes that the true leader's
// agent hears of. A leader sees also those that say they follow it, and may
// see those that say nothing while others reach them.
func (w *World) counted(i int) int {
	l, n := w.leaderNow(), 0
	for j := range w.n {
		if w.members[j].voter && (w.sighted(i, j, l) || i == l && w.mayFollow(j, l)) {
			n++
		}
	}
	return n
}

func (w *World) mayFollow(j, l int) bool {
	if w.runs(j) && w.members[j].serving && w.reports(j, l) {
		return w.hears(j)
	}
	for k := range w.n {
		reached := k != j && w.members[k].voter && w.sighted(k, j, l)
		blind := w.members[k].voter && w.vouches(k, l, l) && !w.probes(l, k)
		if reached || blind {
			return true
		}
	}
	return false
}

// Explain is what agent i would say of its decision now.
func (w *World) Explain(i int) []string {
	a, snap := &w.agents[i], w.arrange(i)
	state, plan := leader.Decide(w.cfg, a.state, snap)
	return leader.Explain(w.cfg, state, snap, plan)
}

package leader

import (
	"math"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/topology"
)

// view is a snapshot arranged by voter: everything indexed by position in ids.
type view struct {
	ids    []MemberID // voters, ascending
	names  []string
	rows   []Row
	fresh  []bool
	lost   []bool    // its own fresh row says its raft has no leader
	unfit  []Refusal // why it could not lead now; empty is fit
	self   int       // position of the own member, -1 if not a voter
	matrix topology.Matrix
}

// look arranges snap.
func look(cfg Config, st State, snap Snapshot) *view {
	voters := slices.Clone(snap.Voters)
	slices.SortFunc(voters, func(a, b Voter) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	n := len(voters)
	v := &view{
		ids: make([]MemberID, n), names: make([]string, n), rows: make([]Row, n),
		fresh: make([]bool, n), lost: make([]bool, n), unfit: make([]Refusal, n),
		self: -1, matrix: topology.NewMatrix(n),
	}
	for i, voter := range voters {
		v.ids[i], v.names[i] = voter.ID, voter.Name
		v.place(i, cfg, snap)
	}
	v.link(cfg)
	for i := range v.ids {
		v.lost[i] = i != v.self && v.fresh[i] && v.rows[i].Reachable && v.rows[i].Leader == 0
		v.unfit[i] = v.fitness(i, cfg, st, snap)
	}
	return v
}

// place finds the row of voter i and judges its age.
func (v *view) place(i int, cfg Config, snap Snapshot) {
	if v.ids[i] == snap.Self {
		v.self, v.rows[i], v.fresh[i] = i, snap.Own, true
		return
	}
	row, ok := snap.Rows[v.ids[i]]
	v.rows[i] = row
	v.fresh[i] = ok && row.Age <= cfg.Fresh && row.Cluster == snap.Own.Cluster && !row.Learner
}

// link joins what both ends of each pair say in rows that are fresh.
func (v *view) link(cfg Config) {
	for i := range v.ids {
		for j := range i {
			l := topology.Join(v.says(i, j), v.says(j, i))
			switch {
			case v.outdated(i, j, cfg), v.outdated(j, i, cfg), l.State == Down && (v.led(i, j) || v.led(j, i)):
				l = Link{RTT: l.RTT}
			case l.State == Up && cfg.MaxLoss > 0 && l.Loss >= cfg.MaxLoss:
				// A loss over 30 s has settled by its nature.
				l.State, l.Since = Down, max(l.Since, cfg.Settle)
			}
			v.matrix.Set(i, j, l)
		}
	}
	v.doubtSilent()
}

// doubtSilent makes the leader's link to a voter unknown where it is down by
// probes alone: the voter does not speak for itself, and another reaches it or
// the leader's probes are not to be trusted. Raft may be well between the two.
// Else a silent voter stays down: a dead member counts for no place, and must
// not keep a move from happening.
func (v *view) doubtSilent() {
	if v.self < 0 {
		return
	}
	blind := v.blind()
	for y := range v.ids {
		l := v.matrix.Pair(v.self, y)
		silent := !v.fresh[y] || !v.rows[y].Reachable
		if l.State == Down && silent && (blind || v.matrix.Certain(y, 0) > 1) {
			v.matrix.Set(v.self, y, Link{RTT: l.RTT})
		}
	}
}

// blind says that the leader's own probes fail where the other end's do not.
func (v *view) blind() bool {
	for y := range v.ids {
		if v.says(v.self, y).State == Down && v.says(y, v.self).State == Up {
			return true
		}
	}
	return false
}

// outdated says that i calls its link to j up in a row that may be from before
// j came to call it down: i may not know yet, so the pair is unknown.
func (v *view) outdated(i, j int, cfg Config) bool {
	up, down := v.says(i, j), v.says(j, i)
	transit := cfg.Transit
	if i == v.self {
		transit = 0
	}
	return up.State == Up && down.State == Down && v.rows[i].Age+transit >= down.Since
}

// led says that i is the own member, and j follows it by its own word. Raft
// reaches j then, whatever probes say (a firewall that refuses only new
// connections, an expired probe certificate): j is not to be counted as gone.
func (v *view) led(i, j int) bool {
	r := &v.rows[j]
	return i == v.self && v.fresh[j] && r.Reachable && r.Leader == v.ids[i] && r.Term == v.rows[i].Term
}

// says is i's own view of its link to j. An agent whose etcd does not answer
// may well reach the others, but they do not reach that etcd.
func (v *view) says(i, j int) Link {
	if !v.fresh[i] || !v.rows[i].Reachable {
		return Link{}
	}
	return v.rows[i].Links[v.ids[j]]
}

// fitness is why voter i could not take leadership from the own member now.
func (v *view) fitness(i int, cfg Config, st State, snap Snapshot) Refusal {
	r := &v.rows[i]
	switch {
	case i == v.self:
		return NoBetter
	case !v.fresh[i]:
		return StaleTarget
	case !r.Reachable:
		return TargetUnreachable
	case len(r.Alarms) > 0:
		return TargetAlarm
	case r.Leader != snap.Self || r.Term != snap.Own.Term:
		return TargetDisagrees
	case v.self < 0 || v.matrix.Pair(v.self, i).State != Up || v.says(i, v.self).State == Down:
		// The candidate's own word counts, for when the leader's machine has
		// slept, the others know and it does not.
		return TargetUnlinked
	case r.Index+cfg.CatchUp < st.history.at(snap.Now-r.Age, snap.Own.Index),
		r.Applied+cfg.CatchUp < r.Index:
		return TargetBehind
	case cfg.MaxFsync > 0 && r.Fsync > cfg.MaxFsync:
		return TargetSlow
	}
	return ""
}

// unsure is why nobody may decide on this view, lost voters or not.
func (v *view) unsure(cfg Config, snap Snapshot) Refusal {
	if v.self < 0 {
		return NotLeader
	}
	for i := range v.ids {
		r := &v.rows[i]
		// A deposed leader does not know it yet; a voter that follows another
		// in a later term does.
		if v.fresh[i] && r.Reachable && r.Leader != 0 && r.Term > snap.Own.Term {
			return Superseded
		}
	}
	if snap.VotersChanged < cfg.MembershipHold {
		return MembershipChanging
	}
	return ""
}

// severed says that x is lost and its link to the leader certainly down, by
// x's own word too: a voter that has just started knows nothing about its
// links yet, while the leader still remembers the outage before. While the
// leader's own probes begin to succeed again, the voter is about to be back.
func (v *view) severed(x int, held time.Duration) bool {
	gap := v.matrix.Pair(v.self, x)
	return v.lost[x] && gap.State == Down && gap.Since >= held && v.says(x, v.self).State != Unknown &&
		!v.says(v.self, x).Doubt
}

// explained says that some voter is severed from the leader.
func (v *view) explained() bool {
	for x := range v.ids {
		if v.severed(x, 0) {
			return true
		}
	}
	return false
}

// claims says that x has been severed from the leader, and seen by c, for at
// least held.
func (v *view) claims(c, x int, held time.Duration) bool {
	way := v.matrix.Pair(c, x)
	return c != x && v.severed(x, held) && way.State == Up && way.Since >= held
}

// better says that c has been better placed than the leader for at least held:
// it certainly sees strictly more voters than the leader can possibly see,
// and among them one that is lost.
func (v *view) better(c int, held time.Duration) bool {
	if c == v.self || v.lost[c] || v.matrix.Certain(c, held) <= v.matrix.Possible(v.self, held) {
		return false
	}
	for x := range v.ids {
		if v.claims(c, x, held) {
			return true
		}
	}
	return false
}

// settling is how long c still has to stay better and fit.
func (v *view) settling(c int, cfg Config, st State, now time.Duration) time.Duration {
	lostFor := time.Duration(math.MinInt64 / 2)
	for x := range v.ids {
		if v.claims(c, x, 0) {
			lostFor = max(lostFor, v.lostFor(x, cfg, st, now))
		}
	}
	wait := max(0, cfg.Settle-st.fitFor(v.ids[c], now), cfg.LostFor-lostFor)
	if v.better(c, cfg.Settle) {
		return wait
	}
	// Young links are what is missing; the oldest of them that would do is
	// the one that counts.
	held := []time.Duration{}
	for x := range v.ids {
		held = append(held, v.matrix.Pair(c, x).Since, v.matrix.Pair(v.self, x).Since)
	}
	slices.Sort(held)
	for _, h := range slices.Backward(held) {
		if h < cfg.Settle && v.better(c, h) {
			return max(wait, cfg.Settle-h)
		}
	}
	return max(wait, cfg.Settle)
}

// lostFor is how long x has been without a leader by what its row said when it
// was written: since then it may have found one. What it said before the own
// member led does not count, for x may have helped to elect it.
func (v *view) lostFor(x int, cfg Config, st State, now time.Duration) time.Duration {
	r := &v.rows[x]
	return min(r.LeaderlessFor, now-st.leadingSince-cfg.Transit) - r.Age
}

// prefer says that a is a better target than b: it sees all, then by zone,
// then by quorum latency, then the smaller id.
func (v *view) prefer(a, b int, cfg Config) bool {
	seen := v.matrix.Certain(a, 0) - v.matrix.Certain(b, 0)
	zone := cfg.Zones.Rank(v.rows[a].Zone) - cfg.Zones.Rank(v.rows[b].Zone)
	switch {
	case seen != 0:
		return seen > 0
	case zone != 0:
		return zone < 0
	}
	ra, rb := v.matrix.QuorumRTT(a), v.matrix.QuorumRTT(b)
	if ra != rb {
		return rb == 0 || ra != 0 && ra < rb
	}
	return v.ids[a] < v.ids[b]
}

// name is how people know voter i.
func (v *view) name(i int) string {
	if v.names[i] != "" {
		return v.names[i]
	}
	return v.ids[i].String()
}

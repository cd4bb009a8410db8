package leader

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Refusal says in one word why there is no move. The words are stable: they
// are label values of a metric. The empty Refusal is a move.
type Refusal string

const (
	NotLeader          Refusal = "not-leader"
	OwnUnreachable     Refusal = "own-unreachable"
	Superseded         Refusal = "superseded"
	MembershipChanging Refusal = "membership-changing"
	NobodyLost         Refusal = "nobody-lost"
	// LinkUncertain: a voter has no leader, but its link to the leader is not
	// certainly down, so another place is not known to be better.
	LinkUncertain     Refusal = "link-uncertain"
	NoBetter          Refusal = "no-better"
	StaleTarget       Refusal = "stale-target"
	TargetUnreachable Refusal = "target-unreachable"
	TargetAlarm       Refusal = "target-alarm"
	// TargetDisagrees: the target follows another leader, or another term.
	TargetDisagrees Refusal = "target-disagrees"
	// TargetUnlinked: the leader cannot hand over to a target it cannot reach.
	TargetUnlinked Refusal = "target-unlinked"
	TargetBehind   Refusal = "target-behind"
	TargetSlow     Refusal = "target-slow"
	Settling       Refusal = "settling"
	PenaltyUnknown Refusal = "penalty-unknown"
	Damped         Refusal = "damped"
	BackingOff     Refusal = "backing-off"
	// ReturnWaiting: nobody is lost, and the conditions of a return to the
	// preferred zone do not hold yet.
	ReturnWaiting Refusal = "return-waiting"
)

// Move is leadership going to Target. It is valid in Term only.
type Move struct {
	Target MemberID
	Term   uint64
	// Reason is one line for people.
	Reason string
	// Record must be durable before the move starts, where the agent of
	// Target will read it: in etcd, or acknowledged by that agent.
	Record Penalty
	// Undo replaces Record when the move certainly did not happen.
	Undo Penalty
}

// Plan is what Decide came to. Explain puts it in words.
type Plan struct {
	// Move is nil unless leadership should move now.
	Move *Move
	// Refused is why not; empty with a Move.
	Refused Refusal
	// Target is the voter that Refused is about, or that Move goes to; 0 is none.
	Target MemberID
	// Wait is how long Refused lasts if nothing else changes; 0 is unknown.
	Wait time.Duration
}

// blink is the longest time between two decisions that counts as watching
// without a break. After a longer one (a paused machine, a starved agent)
// others may have lost the leader for no other reason, so what they said
// before is not held against their links.
const blink = 2500 * time.Millisecond

// State is what Decide remembers between calls. Its zero value is a fresh
// start, and starting fresh can only delay a move.
type State struct {
	begun bool
	// term is the one the own member leads in, as first seen at leadingSince.
	term         uint64
	leadingSince time.Duration
	decided      time.Duration // when Decide last ran as the leader's
	standing     []standing
	penalty      sighting
	// unrecorded stands for the moves that a start under NOSPACE may have missed.
	unrecorded sighting
	failures   []failure
	restUntil  time.Duration
	history    history
}

// standing is since when a voter has been fit to lead without a break.
type standing struct {
	id    MemberID
	since time.Duration
}

// Decide says whether the leader should move, from what one agent sees. It is
// pure: the same arguments give the same answer, and neither st nor snap is
// changed.
//
// Only the agent beside the true leader ever gets a Move. A voter counts as
// lost when its own fresh row says that its raft has no leader, and for no
// other reason; links say why, and who would be better placed.
func Decide(cfg Config, st State, snap Snapshot) (State, Plan) {
	st = st.observe(snap)
	if refusal := notMine(snap); refusal != "" {
		st.term, st.standing = 0, nil
		return st, Plan{Refused: refusal}
	}
	v := look(cfg, st, snap)
	st = st.track(v, snap)
	if refusal := v.unsure(cfg, snap); refusal != "" {
		return st, Plan{Refused: refusal}
	}
	if !slices.Contains(v.lost, true) {
		if p := v.planRelief(cfg, st, snap); p.Target != 0 {
			return st, p
		}
		return st, v.planReturn(cfg, st, snap)
	}
	return st, v.planRescue(cfg, st, snap)
}

// Confirm looks at a move again just before it is made, on a snapshot with the
// own status and the target's row read anew. The empty Refusal is consent.
func Confirm(cfg Config, st State, snap Snapshot, m Move) Refusal {
	if refusal := notMine(snap); refusal != "" {
		return refusal
	}
	if snap.Own.Term != m.Term {
		return Superseded
	}
	v := look(cfg, st, snap)
	if refusal := v.unsure(cfg, snap); refusal != "" {
		return refusal
	}
	c := slices.Index(v.ids, m.Target)
	switch {
	case c < 0:
		return MembershipChanging
	case v.unfit[c] != "":
		return v.unfit[c]
	case v.better(c, 0):
		return ""
	case slices.Contains(v.lost, true):
		return NoBetter
	case v.relieves(c, cfg, snap), cfg.Preferred != "" && v.rows[c].Zone == cfg.Preferred:
		return ""
	}
	return NoBetter
}

// observe takes in what matters to every agent, leader or not.
func (st State) observe(snap Snapshot) State {
	if snap.Own.Reachable {
		if !st.begun && snap.Unrecorded {
			st.unrecorded = sighting{Penalty{Value: 1}, snap.Now}
		}
		st.begun = true
	}
	st.penalty = st.penalty.see(snap.Penalty, snap.Now)
	for _, r := range snap.Rows {
		st.penalty = st.penalty.see(r.Penalty, snap.Now)
	}
	if snap.Own.Reachable {
		st.history = st.history.add(snap.Now, snap.Own.Index)
	}
	return st
}

// notMine is why this agent has nothing to decide.
func notMine(snap Snapshot) Refusal {
	switch {
	case !snap.Own.Reachable:
		return OwnUnreachable
	case snap.Own.Leader != snap.Self || snap.Self == 0:
		return NotLeader
	}
	return ""
}

// track keeps since when each voter has been fit in this term.
func (st State) track(v *view, snap Snapshot) State {
	old := st.standing
	if st.term != snap.Own.Term || snap.Now-st.decided > blink {
		old = nil
		st.term, st.leadingSince = snap.Own.Term, snap.Now
	}
	st.decided = snap.Now
	st.standing = make([]standing, 0, len(v.ids))
	for i, id := range v.ids {
		if v.unfit[i] != "" {
			continue
		}
		since := snap.Now
		for _, s := range old {
			if s.id == id {
				since = s.since
			}
		}
		st.standing = append(st.standing, standing{id, since})
	}
	return st
}

func (st State) fitFor(id MemberID, now time.Duration) time.Duration {
	for _, s := range st.standing {
		if s.id == id {
			return now - s.since
		}
	}
	return 0
}

// planRescue looks for a place that reaches voters the leader has lost.
func (v *view) planRescue(cfg Config, st State, snap Snapshot) Plan {
	if !v.explained() {
		return Plan{Refused: LinkUncertain}
	}
	best := Plan{Refused: NoBetter}
	chosen := -1
	for c := range v.ids {
		if !v.better(c, 0) {
			continue
		}
		p := v.consider(c, cfg, st, snap)
		switch {
		case p.Refused == "" && (chosen < 0 || v.prefer(c, chosen, cfg)):
			chosen, best = c, p
		case chosen < 0 && nearer(p, best):
			best = p
		}
	}
	if chosen < 0 {
		return best
	}
	return v.release(chosen, cfg, cfg.PenaltyLimit, st, snap, v.rescueReason)
}

// consider says what still speaks against a candidate that is better placed.
func (v *view) consider(c int, cfg Config, st State, snap Snapshot) Plan {
	id := v.ids[c]
	p := Plan{Target: id, Refused: v.unfit[c]}
	if p.Refused != "" {
		return p
	}
	if p.Wait = v.settling(c, cfg, st, snap.Now); p.Wait > 0 {
		p.Refused = Settling
	} else if p.Wait = st.resting(id) - snap.Now; p.Wait > 0 {
		p.Refused = BackingOff
	} else {
		p.Wait = 0
	}
	return p
}

// nearer says that p came closer to a move than best: it names a target and
// an end to the wait.
func nearer(p, best Plan) bool {
	return best.Target == 0 || p.Wait > 0 && (best.Wait == 0 || p.Wait < best.Wait)
}

// release lets a chosen move go, if damping allows.
func (v *view) release(c int, cfg Config, limit float64, st State, snap Snapshot, reason func(int) string) Plan {
	p := Plan{Target: v.ids[c]}
	if !snap.PenaltyKnown {
		p.Refused = PenaltyUnknown
		return p
	}
	if p.Wait = st.damped(cfg, snap.Now, limit); p.Wait > 0 {
		p.Refused = Damped
		return p
	}
	left := st.Penalty(cfg, snap.Now)
	record := Penalty{
		Seq: st.penalty.Seq + 1, Value: left + 1,
		From: snap.Self, To: p.Target, Term: snap.Own.Term,
	}
	undo := record
	undo.Seq, undo.Value = record.Seq+1, left
	if cfg.Hold > 0 {
		undo.Value = 0 // the hold before was over, and must not begin anew
	}
	p.Move = &Move{Target: p.Target, Term: snap.Own.Term, Reason: reason(c), Record: record, Undo: undo}
	return p
}

func (v *view) rescueReason(c int) string {
	var names []string
	for x := range v.ids {
		if v.lost[x] && v.claims(c, x, 0) {
			names = append(names, v.name(x))
		}
	}
	are := "is"
	if len(names) > 1 {
		are = "are"
	}
	return fmt.Sprintf("%s %s lost to the leader %s, which sees %d of %d voters; %s sees %d",
		strings.Join(names, ", "), are, v.name(v.self), v.matrix.Possible(v.self, 0), len(v.ids), v.name(c), v.matrix.Certain(c, 0))
}

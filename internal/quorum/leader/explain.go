package leader

import (
	"fmt"
	"strings"
	"time"
)

// Explain puts plan in words, for `leader status`: the leader, each voter, and
// last the decision. Its arguments are those of Decide and what it returned.
func Explain(cfg Config, st State, snap Snapshot, plan Plan) []string {
	v := look(cfg, st, snap)
	if v.self < 0 {
		return []string{"the own member is not a voter; its agent only reports"}
	}
	if refusal := notMine(snap); refusal != "" {
		return []string{v.elsewhere(snap, refusal)}
	}
	lines := []string{fmt.Sprintf("%s leads in term %d and sees %s", v.name(v.self), snap.Own.Term, v.sight(v.self))}
	for i := range v.ids {
		if i != v.self {
			lines = append(lines, v.describe(i))
		}
	}
	return append(lines, v.verdict(plan, snap))
}

func (v *view) elsewhere(snap Snapshot, refusal Refusal) string {
	own := v.name(v.self)
	switch {
	case refusal == OwnUnreachable:
		return fmt.Sprintf("%s does not answer its own agent; nothing can be decided here", own)
	case snap.Own.Leader == 0:
		return fmt.Sprintf("%s has had no leader for %s; the agent beside the leader decides", own, seconds(snap.Own.LeaderlessFor))
	}
	lead := snap.Own.Leader.String()
	for i, id := range v.ids {
		if id == snap.Own.Leader {
			lead = v.name(i)
		}
	}
	return fmt.Sprintf("%s follows %s; the agent beside %s decides", own, lead, lead)
}

// sight counts what voter i sees: "all 3 voters", "2 of 3 voters".
func (v *view) sight(i int) string {
	seen := v.matrix.Certain(i, 0)
	if seen == len(v.ids) {
		return fmt.Sprintf("all %d voters", seen)
	}
	return fmt.Sprintf("%d of %d voters", seen, len(v.ids))
}

// describe says how voter i stands.
func (v *view) describe(i int) string {
	name, r := v.name(i), &v.rows[i]
	link := v.matrix.Pair(v.self, i)
	switch {
	case !v.fresh[i]:
		return fmt.Sprintf("%s: %s, so nothing is concluded about it; link to the leader %s", name, v.silence(i), describeLink(link))
	case !r.Reachable:
		return fmt.Sprintf("%s: its etcd does not answer its own agent; link to the leader %s", name, describeLink(link))
	case v.lost[i]:
		return fmt.Sprintf("%s is lost to the leader: its raft has had no leader for %s; link to the leader %s",
			name, seconds(r.LeaderlessFor), describeLink(link))
	case v.unfit[i] != "":
		return fmt.Sprintf("%s sees %s but could not lead: %s", name, v.sight(i), v.unfitness(i))
	}
	return fmt.Sprintf("%s sees %s and could lead", name, v.sight(i))
}

func (v *view) silence(i int) string {
	r := &v.rows[i]
	switch {
	case r.Member == 0:
		return "no report"
	case r.Learner:
		return "it reports as a learner"
	case r.Cluster != v.rows[v.self].Cluster:
		return fmt.Sprintf("its report is of another cluster, %x", r.Cluster)
	}
	return fmt.Sprintf("its last report is %s old", seconds(r.Age))
}

func (v *view) unfitness(i int) string {
	r := &v.rows[i]
	switch v.unfit[i] {
	case TargetAlarm:
		return "alarm " + strings.Join(r.Alarms, ", ")
	case TargetDisagrees:
		return fmt.Sprintf("it follows %s in term %d", r.Leader, r.Term)
	case TargetUnlinked:
		return "its link to the leader is " + describeLink(v.matrix.Pair(v.self, i))
	case TargetBehind:
		return fmt.Sprintf("it is behind, at index %d (applied %d)", r.Index, r.Applied)
	case TargetSlow:
		return fmt.Sprintf("its disk takes %s for an fsync", r.Fsync)
	}
	return string(v.unfit[i])
}

func describeLink(l Link) string {
	switch {
	case l.State == Unknown:
		return "unknown"
	case l.Loss >= 0.01:
		return fmt.Sprintf("%s for %s, %.0f %% lost", l.State, seconds(l.Since), 100*l.Loss)
	}
	return fmt.Sprintf("%s for %s", l.State, seconds(l.Since))
}

// verdict is the decision and, where it is known, how long it stands.
func (v *view) verdict(p Plan, snap Snapshot) string {
	if p.Move != nil {
		return fmt.Sprintf("moving to %s: %s", v.nameOf(p.Target), p.Move.Reason)
	}
	target, wait := v.nameOf(p.Target), seconds(p.Wait)
	switch p.Refused {
	case Settling:
		return fmt.Sprintf("%s is better placed; waiting %s of settle", target, wait)
	case Damped:
		return fmt.Sprintf("a move to %s waits %s for the penalty of earlier moves to run out", target, wait)
	case BackingOff:
		return fmt.Sprintf("a move to %s waits %s, for the last try failed", target, wait)
	case ReturnWaiting:
		return fmt.Sprintf("staying; a return to %s waits until all has been well long enough (%s)", target, wait)
	case MembershipChanging:
		return fmt.Sprintf("staying: the member list changed %s ago", seconds(snap.VotersChanged))
	}
	if text, ok := staying[p.Refused]; ok {
		return "staying: " + strings.ReplaceAll(text, "%", target)
	}
	return fmt.Sprintf("staying: %s is better placed, but not fit (%s)", target, p.Refused)
}

// staying words the refusals that need nothing but a name, for which % stands.
var staying = map[Refusal]string{
	NobodyLost:     "every voter that reports has a leader",
	LinkUncertain:  "a voter has no leader, but its link to this one is not certainly down",
	NoBetter:       "no other voter sees more",
	Superseded:     "another member leads in a later term",
	PenaltyUnknown: "% is better placed, but the record of the last move has not been read since this member became leader",
}

func (v *view) nameOf(id MemberID) string {
	for i := range v.ids {
		if v.ids[i] == id {
			return v.name(i)
		}
	}
	return id.String()
}

// seconds prints a duration for people: tenths of a second up to a minute.
func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// oldest are the versions below which leadership changes are dangerous: a
// linearizable read may be stale across one before 3.5.28 and 3.6.9
// (etcd#21375).
var oldest = map[string]int{"3.5": 28, "3.6": 9}

// Warnings lists what a person should mend, one line each with its remedy.
// None of it keeps the agent from working.
func Warnings(cfg Config, snap Snapshot) []string {
	var out []string
	out = appendVersion(out, snap.Own)
	for _, voter := range snap.Voters {
		if r, ok := snap.Rows[voter.ID]; ok && r.Age <= cfg.Fresh {
			out = appendVersion(out, r)
		}
	}
	if cfg.MaxFsync > 0 && snap.Own.Leader == snap.Self && snap.Own.Fsync > cfg.MaxFsync {
		out = append(out, fmt.Sprintf("%s leads with a disk that takes %s for an fsync: give etcd a disk of its own, or move leadership by hand",
			snap.Own.Name, snap.Own.Fsync))
	}
	return out
}

func appendVersion(out []string, r Row) []string {
	var major, minor, patch int
	if n, err := fmt.Sscanf(r.Version, "%d.%d.%d", &major, &minor, &patch); n < 3 || err != nil {
		return out
	}
	line := fmt.Sprintf("%d.%d", major, minor)
	least, known := oldest[line]
	if known && patch < least {
		return append(out, fmt.Sprintf("%s runs etcd %s, where a read may be stale across a leader change (etcd#21375): upgrade to %s.%d or later",
			r.Name, r.Version, line, least))
	}
	if major < 3 || major == 3 && minor < 5 {
		return append(out, fmt.Sprintf("%s runs etcd %s, which is not supported: upgrade to 3.5.28 or later", r.Name, r.Version))
	}
	return out
}

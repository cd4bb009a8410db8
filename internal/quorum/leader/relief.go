package leader

import (
	"fmt"
	"time"
)

// muchFaster is how many times faster than MaxFsync the disk has to be that
// leadership moves to: storage that all share is slow everywhere, and a move from
// one slow disk to another costs requests and gains nothing.
const muchFaster = 4

// planRelief looks for a disk that is fast when nobody is lost and the own one is
// slow: no write is committed before the leader's disk has it, for every client of
// the cluster, while heartbeats still go out in time and nobody elects another. As a
// return does, it wants a target that sees every voter, and waits for the penalty to
// fade: a cluster with a slow disk works. A Plan without a target is none.
func (v *view) planRelief(cfg Config, st State, snap Snapshot) Plan {
	best, chosen := Plan{}, -1
	for c := range v.ids {
		if !v.relieves(c, cfg, snap) {
			continue
		}
		// The readings took longer than any settling, and a silent own member, which
		// ends that, is a symptom here.
		p := Plan{Target: v.ids[c], Wait: max(0, st.resting(v.ids[c])-snap.Now)}
		switch {
		case p.Wait > 0:
			p.Refused = BackingOff
			if chosen < 0 && nearer(p, best) {
				best = p
			}
		case chosen < 0 || v.prefer(c, chosen, cfg):
			chosen = c
		}
	}
	if chosen < 0 {
		return best
	}
	return v.release(chosen, cfg, cfg.ReturnLimit, st, snap, v.reliefReason)
}

// relieves says that the own disk has been slow for long enough, and that c could
// lead, has a disk that is known to be fast, and sees every voter. A voter that the
// leader does not see may follow it over an old connection all the same, and would be
// lost to another.
func (v *view) relieves(c int, cfg Config, snap Snapshot) bool {
	if cfg.SlowFor <= 0 || cfg.MaxFsync <= 0 || snap.SlowFor < cfg.SlowFor || v.unfit[c] != "" {
		return false
	}
	fsync := v.rows[c].Fsync
	return fsync > 0 && fsync <= cfg.MaxFsync/muchFaster && v.matrix.Certain(c, cfg.Settle) == len(v.ids)
}

func (v *view) reliefReason(c int) string {
	return fmt.Sprintf("the disk of %s takes %s for an fsync, that of %s %s", v.name(v.self), v.rows[v.self].Fsync, v.name(c), v.rows[c].Fsync)
}

// streak is how long readings have agreed, from the first of them to the last.
type streak struct {
	on          bool
	since, last time.Duration
}

// see takes in one more reading.
func (s streak) see(now time.Duration, yes bool) streak {
	switch {
	case !yes:
		return streak{}
	case !s.on:
		return streak{true, now, now}
	}
	s.last = now
	return s
}

func (s streak) length() time.Duration { return s.last - s.since }

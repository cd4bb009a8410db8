package leader

import (
	"fmt"
	"time"
)

// planReturn looks for a way back to the preferred zone when nobody is lost.
// It never trades connectivity: the target must see every voter.
func (v *view) planReturn(cfg Config, st State, snap Snapshot) Plan {
	calm := Plan{Refused: NobodyLost}
	if cfg.Preferred == "" || v.rows[v.self].Zone == cfg.Preferred {
		return calm
	}
	target := -1
	for c := range v.ids {
		if v.rows[c].Zone == cfg.Preferred && v.unfit[c] == "" && (target < 0 || v.prefer(c, target, cfg)) {
			target = c
		}
	}
	if target < 0 {
		return calm
	}
	p := Plan{Refused: ReturnWaiting, Target: v.ids[target]}
	if p.Wait = st.resting(p.Target) - snap.Now; p.Wait > 0 {
		p.Refused = BackingOff
		return p
	}
	if p.Wait = v.unready(target, cfg, st, snap); p.Wait > 0 {
		return p
	}
	if !v.nearEnough(target, cfg) {
		p.Wait = 0
		return p
	}
	return v.release(target, cfg, cfg.ReturnLimit, st, snap, v.returnReason)
}

// unready is how long a return to c still has to wait for quiet: every voter
// fit, every link good, few proposals. A wait with no known end is ReturnAfter.
func (v *view) unready(c int, cfg Config, st State, snap Snapshot) time.Duration {
	wait := max(0, cfg.QuietWindow-snap.QuietFor)
	for i := range v.ids {
		if i != v.self {
			wait = max(wait, cfg.ReturnAfter-st.fitFor(v.ids[i], snap.Now))
		}
		for j := range i {
			l := v.matrix.Pair(i, j)
			if l.State != Up {
				return cfg.ReturnAfter
			}
			wait = max(wait, cfg.ReturnAfter-l.Since)
		}
	}
	return wait
}

// nearEnough says that c would not lead much more slowly. Unknown round trips
// forbid nothing: the operator asked for the zone.
func (v *view) nearEnough(c int, cfg Config) bool {
	now, then := v.matrix.QuorumRTT(v.self), v.matrix.QuorumRTT(c)
	if now == 0 || then == 0 {
		return true
	}
	const grain = time.Millisecond // within a site, shares mean nothing
	return then <= now+max(grain, time.Duration(cfg.LatencyBand*float64(now)))
}

func (v *view) returnReason(c int) string {
	return fmt.Sprintf("%s is in the preferred zone %q and every voter has been well", v.name(c), v.rows[c].Zone)
}

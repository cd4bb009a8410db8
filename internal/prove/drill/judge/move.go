package judge

import (
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// recovery dates the end of the disturbance: the last affected path to answer
// for good, or the end of an outage that began on a clean path before that.
// The latter are the requests that the move itself cost.
func (j *run) recovery() {
	j.out.Recovered = !j.rec.Run.Injected.IsZero()
	latest := 0.0
	for _, p := range j.out.Paths {
		if p.Role != scenario.RoleAffected {
			continue
		}
		if p.RecoveredMS == nil {
			j.out.Recovered = false
			continue
		}
		latest = max(latest, *p.RecoveredMS)
	}
	if !j.out.Recovered {
		return
	}
	until := latest
	for _, p := range j.out.Paths {
		if p.Role != scenario.RoleClean {
			continue
		}
		for _, o := range p.Outages {
			if o.ToMS > 0 && o.FromMS <= until && p.RecoveredMS != nil {
				latest = max(latest, o.ToMS)
			}
		}
	}
	j.out.RecoveryMS = ptr(latest)
}

func (j *run) moves() {
	moves := j.transfers()
	j.out.Moves = len(moves)
	if len(moves) == 0 {
		return
	}
	j.out.FirstMoveMS = ptr(j.ms(moves[0].to))
	j.out.TransferMS = ptr(millis(moves[0].to.Sub(moves[0].from)))
	j.out.Inflight = j.inflight(moves)
}

// inflight counts the requests that a move cost: in flight at some time of it,
// and failed or stalled. Paths that the fault had broken already are left out.
func (j *run) inflight(moves []move) int {
	n := 0
	for _, p := range j.rec.Case.Paths {
		if j.rec.Case.ExpectationOf(p).Role == scenario.RoleAffected {
			continue
		}
		for _, s := range j.paths[p.Name] {
			if hurt(s) && inFlight(s, p.Cluster, moves) {
				n++
			}
		}
	}
	return n
}

func hurt(s probe.Sample) bool { return !s.OK || s.Done.Sub(s.Sent) > Slow }

func inFlight(s probe.Sample, cluster string, moves []move) bool {
	for _, m := range moves {
		if (m.cluster == "" || m.cluster == cluster) && s.Sent.Before(m.to) && s.Done.After(m.from) {
			return true
		}
	}
	return false
}

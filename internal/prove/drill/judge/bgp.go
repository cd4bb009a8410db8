package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// routes are the samples that tell next hops to the address, in the order of
// time: one prober takes them, in the router.
func (j *run) routes() []probe.Sample {
	var out []probe.Sample
	for _, s := range j.rec.Samples {
		if s.Hops != nil {
			out = append(out, s)
		}
	}
	return out
}

// hops is what became of the next hops to the address.
type hops struct {
	// full is how many there were when the fault began.
	full int
	// withdrawn is when the router had fewer; nil if that never was.
	withdrawn *time.Time
	// fewest is the least number from the fault to the end of the run.
	fewest int
	// back is when all were there again, for good; nil if they were not, or were
	// never gone.
	back *time.Time
	// stale says that there was no sample for longer than a second.
	stale bool
}

// hopsStale is how long the router may not be looked at before its next hops are
// not known.
const hopsStale = time.Second

// hops follows the next hops through the run. A change is dated by the first
// answer that shows it.
func (j *run) hops() hops {
	h := hops{fewest: -1}
	last := time.Time{}
	for _, s := range j.routes() {
		n := len(s.Hops)
		if s.Done.Before(j.origin()) {
			h.full, last = n, s.Done
			continue
		}
		h.stale = h.stale || !last.IsZero() && s.Done.Sub(last) > hopsStale
		last = s.Done
		if h.fewest < 0 || n < h.fewest {
			h.fewest = n
		}
		switch {
		case n < h.full:
			h.back = nil
			if h.withdrawn == nil {
				h.withdrawn = &s.Done
			}
		case h.withdrawn != nil && h.back == nil:
			h.back = &s.Done
		}
	}
	return h
}

// ended is when the first fault was taken back.
func (j *run) ended() time.Time {
	if len(j.rec.Run.Faults) > 0 && !j.rec.Run.Faults[0].To.IsZero() {
		return j.rec.Run.Faults[0].To
	}
	return j.healed()
}

// anycast says whether next hops are watched in this run.
func (j *run) anycast() bool {
	return j.rec.Case.VIP.Anycast() && !j.rec.Run.Injected.IsZero()
}

// withdrawnBy names the window of this run for one next hop less.
func (j *run) withdrawnBy() string {
	if j.rec.Run.Agents {
		return j.rec.Case.VIP.BGP.Withdrawn
	}
	return j.rec.Case.VIP.BGP.Without
}

// early says that a next hop left sooner than the timers allow.
func (j *run) early(h hops) string {
	w, err := j.rec.Case.WindowOfHops(j.withdrawnBy())
	if err != nil || h.withdrawn == nil {
		return ""
	}
	took := h.withdrawn.Sub(j.origin())
	if took >= w.Min {
		return ""
	}
	return fmt.Sprintf("a next hop left %s after the fault, sooner than the timers allow (%s); something else took it away", secs(millis(took)), secs(millis(w.Min)))
}

// unwatched says why next hops cannot be told: nobody looked, or the router had
// not all of them before the fault.
func (j *run) unwatched() []string {
	if !j.anycast() {
		return nil
	}
	h := j.hops()
	early := j.early(h)
	switch {
	case h.fewest < 0:
		return []string{"the router's next hops were not watched"}
	case h.stale:
		return []string{fmt.Sprintf("the router's next hops were not looked at for more than %s; the machine was too busy", hopsStale)}
	case h.full != len(j.rec.Case.VIP.Nodes):
		return []string{fmt.Sprintf("the router had %s before the fault, want one for each of %d machines", count(h.full, "next hop"), len(j.rec.Case.VIP.Nodes))}
	case early != "":
		return []string{early}
	}
	return nil
}

// hopsOutOfBounds compares the next hops with what the scenario allows.
func (j *run) hopsOutOfBounds() []string {
	if !j.anycast() {
		return nil
	}
	b, h := j.rec.Case.VIP.BGP, j.hops()
	var out []string
	if reason := j.withdrawal(h, j.withdrawnBy()); reason != "" {
		out = append(out, reason)
	}
	if !j.rec.Run.Agents {
		return out
	}
	if h.fewest < b.Fewest {
		out = append(out, fmt.Sprintf("the router had %s, at least %d expected", count(h.fewest, "next hop"), b.Fewest))
	}
	if b.Back == 0 || h.withdrawn == nil {
		return out
	}
	switch {
	case h.back == nil:
		out = append(out, fmt.Sprintf("the router did not have all %s again", count(h.full, "next hop")))
	case h.back.Sub(j.ended()) > b.Back:
		out = append(out, fmt.Sprintf("the router had all %s again %s after the fault was over, allowed %s", count(h.full, "next hop"), secs(millis(h.back.Sub(j.ended()))), secs(millis(b.Back))))
	}
	return out
}

// withdrawal judges when a next hop left, by the window called name.
func (j *run) withdrawal(h hops, name string) string {
	if name == "" {
		return ""
	}
	w, err := j.rec.Case.WindowOfHops(name)
	if err != nil {
		return err.Error()
	}
	if h.withdrawn == nil {
		return fmt.Sprintf("the router kept all %s", count(h.full, "next hop"))
	}
	if took := h.withdrawn.Sub(j.origin()); took > w.Max {
		return fmt.Sprintf("a next hop left %s after the fault, allowed %s", secs(millis(took)), secs(millis(w.Max)))
	}
	return ""
}

// hopNumbers are the figures of a run whose address is announced: from the fault
// to one next hop less, how many were left, and from the end of the fault until
// all were back.
func hopNumbers(rec *record.Record) map[string]float64 {
	j := &run{rec: rec}
	if !j.anycast() {
		return nil
	}
	h := j.hops()
	out := map[string]float64{"next_hops": float64(h.full)}
	if h.fewest >= 0 {
		out["next_hops_min"] = float64(h.fewest)
	}
	if h.withdrawn != nil {
		out["withdrawn_ms"] = j.ms(*h.withdrawn)
	}
	if h.back != nil {
		out["back_ms"] = millis(h.back.Sub(j.ended()))
	}
	return out
}

package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// Thresholds of the judge.
const (
	// Slow is the latency above which an answered request counts as stalled:
	// the product promises no gap over a second to unaffected clients.
	Slow = time.Second
	// MaxLag is how late a prober may send before its samples say more about
	// the prober than about the cluster. Windows are whole seconds.
	MaxLag = 500 * time.Millisecond
	// MaxEcho is how long an echo over the prober's own loopback may take. It
	// wakes two goroutines; a read through etcd wakes four times as many
	// (client, server, raft loop, a peer and back). A machine that takes longer
	// makes healthy requests slow, and the run says nothing about the cluster.
	MaxEcho = Slow / 4
	// stableFor is how many good answers in a row make a recovery.
	stableFor = 5
)

// run is the judgement in progress.
type run struct {
	rec   *record.Record
	paths map[string][]probe.Sample
	out   report.Run
	// moved holds the indices of the leader changes that agents' moves made.
	moved map[int]bool
}

// Run judges one record.
func Run(rec *record.Record) report.Run {
	j := &run{rec: rec, paths: probe.ByPath(rec.Samples)}
	j.out = report.Run{
		Agents:  rec.Run.Agents,
		Started: rec.Run.Started,
		Phases:  j.phases(),
		Faults:  j.faults(),
		Events:  j.events(),
	}
	if rec.Case.Remedy != (scenario.Remedy{}) {
		j.out.Side = rec.Case.SideWords(rec.Run.Agents)
	}
	j.judgePaths()
	j.recovery()
	j.moves()
	j.conclude(j.doubts())
	return j.out
}

// Doubts lists what kept a run from testing anything: the reasons to run it
// again, none of which is about the cluster.
func Doubts(rec *record.Record) []string {
	j := &run{rec: rec, paths: probe.ByPath(rec.Samples)}
	return j.doubts()
}

func (j *run) judgePaths() {
	for _, p := range j.rec.Case.Paths {
		j.out.Paths = append(j.out.Paths, j.judgePath(p))
	}
	for _, name := range j.rec.Run.Controls {
		j.out.Paths = append(j.out.Paths, j.judgeControl(name))
	}
}

// conclude forms the verdict of the run from the four answers.
func (j *run) conclude(doubts []string) {
	j.out.Verdict = report.Pass
	if !j.judges() {
		doubts = append(doubts, "the scenario says of no path that it is affected or clean; nothing was judged")
	}
	if len(doubts) > 0 {
		j.out.Verdict, j.out.Reasons = report.Inconclusive, doubts
		return
	}
	notes := j.unasked()
	failed := j.reasons(report.Fail)
	if reason := j.movesOutOfBounds(); reason != "" {
		failed = append(failed, reason)
	}
	failed = slices.Concat(failed, j.balancersOutOfBounds(), j.endpointsOutOfBounds(), j.nodesOutOfBounds(), j.addressOutOfBounds(), j.hopsOutOfBounds(), j.pairOutOfBounds(), j.storesOutOfBounds())
	if len(failed) > 0 {
		j.out.Verdict, j.out.Reasons = report.Fail, append(failed, notes...)
		return
	}
	if unsure := j.reasons(report.Inconclusive); len(unsure) > 0 {
		j.out.Verdict, j.out.Reasons = report.Inconclusive, append(unsure, notes...)
		return
	}
	j.out.Reasons = notes
}

// judges says whether any path is on trial. Scenarios without one are refused,
// but records may be older than that.
func (j *run) judges() bool {
	return slices.ContainsFunc(j.out.Paths, func(p report.Path) bool {
		return p.Role == scenario.RoleAffected || p.Role == scenario.RoleClean
	})
}

// reasons lists what the paths with this verdict say, in the order of paths.
func (j *run) reasons(v report.Verdict) []string {
	var out []string
	for _, p := range j.out.Paths {
		if p.Verdict == v {
			out = append(out, p.Name+": "+p.Reason)
		}
	}
	return out
}

// movesOutOfBounds compares the moves with what the scenario allows. Without
// agents there is nobody to move.
func (j *run) movesOutOfBounds() string {
	allowed := j.rec.Case.Moves
	if !j.rec.Run.Agents {
		allowed = scenario.Moves{}
	}
	switch n := j.out.Moves; {
	case n > allowed.Max:
		return fmt.Sprintf("%s, at most %d allowed", count(n, "leadership move"), allowed.Max)
	case n < allowed.Min:
		return fmt.Sprintf("%s, at least %d expected", count(n, "leadership move"), allowed.Min)
	}
	return ""
}

// ms is the time of t in the report: milliseconds from the injection, or from
// the start when nothing was injected.
func (j *run) ms(t time.Time) float64 { return millis(t.Sub(j.origin())) }

func (j *run) origin() time.Time {
	if j.rec.Run.Injected.IsZero() {
		return j.rec.Run.Started
	}
	return j.rec.Run.Injected
}

// healed is the end of the fault; the end of the run when it was never healed.
func (j *run) healed() time.Time {
	if j.rec.Run.Healed.IsZero() {
		return j.rec.Run.Ended
	}
	return j.rec.Run.Healed
}

func (j *run) phases() []report.Phase {
	out := make([]report.Phase, 0, len(j.rec.Run.Phases))
	for _, p := range j.rec.Run.Phases {
		out = append(out, report.Phase{Name: p.Name, FromMS: j.ms(p.From), ToMS: j.ms(p.To)})
	}
	return out
}

func (j *run) faults() []report.Fault {
	out := make([]report.Fault, 0, len(j.rec.Run.Faults))
	for _, f := range j.rec.Run.Faults {
		to := f.To
		if to.IsZero() {
			to = j.rec.Run.Ended
		}
		out = append(out, report.Fault{
			Name: f.Name, Kind: f.Kind, Detail: f.Detail,
			FromMS: j.ms(f.From), ToMS: j.ms(to), Verified: f.Verified,
			Links: f.Links, Sites: f.Sites,
		})
	}
	return out
}

func (j *run) events() []report.Event {
	out := make([]report.Event, 0, len(j.rec.Events))
	for _, e := range j.rec.Events {
		out = append(out, report.Event{
			AtMS: j.ms(e.At), Source: e.Source, Kind: e.Kind, Cluster: e.Cluster,
			Message: e.Message, Keys: maps.Clone(e.Keys),
		})
	}
	return out
}

// millis rounds to a tenth of a millisecond: finer digits are noise, and
// reports are compared byte by byte.
func millis(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond).Microseconds()) / 1000
}

func ptr(v float64) *float64 { return &v }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// secs prints milliseconds for people.
func secs(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

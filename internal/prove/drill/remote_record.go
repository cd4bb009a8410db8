package drill

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/remote"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// here is the site of a path whose target has no label site.
const here = "here"

// recorder keeps what a drill of real hosts saw as one of a lab is kept, for the
// same judge and the same report.
type recorder struct {
	c     *scenario.Case
	w     *record.Writer
	clock clock
	out   string

	mu  sync.Mutex
	run record.Run
}

// newRecorder makes the directory of the report.
func (f *runFlags) newRecorder(c *scenario.Case, paths []probe.Path, timers remote.Timers) (*recorder, error) {
	if err := f.clear(); err != nil {
		return nil, err
	}
	r := &recorder{c: realCase(c, paths, timers, f.real.maxOutage), clock: newClock(), out: f.Out}
	r.run = record.Run{Agents: true, Started: r.clock.now(), Environment: map[string]string{"hosts": "real"}}
	for host, timer := range timers.Found {
		r.run.Environment[host] = timer
	}
	for _, p := range paths {
		if p.Control {
			r.run.Controls = append(r.run.Controls, p.Name)
		}
	}
	var err error
	r.w, err = record.Create(filepath.Join(f.Out, runsDir, c.Variant+"-with"), r.c)
	return r, err
}

// realCase is a case with the paths that a prober walks instead of the lab's, judged
// by --max-outage, else by what the timers that were read amount to, else not at all.
func realCase(c *scenario.Case, paths []probe.Path, timers remote.Timers, most time.Duration) *scenario.Case {
	out := *c
	out.Paths, out.Expect, out.Compare = nil, nil, nil
	out.Moves = scenario.Moves{}
	out.VIP, out.Pair, out.Slices, out.Balance = scenario.VIP{}, scenario.Pair{}, scenario.Slices{}, scenario.Balance{}
	out.NodesReady = false
	out.Clusters = slices.Clone(c.Clusters)
	for i := range out.Clusters {
		out.Clusters[i].Election = timers.Election
	}
	for _, p := range paths {
		if p.Control {
			continue
		}
		out.Paths = append(out.Paths, realPath(c, p))
	}
	etcd := []string{"put", "get", "serializable", "watch", "write"}
	unknown := "window: unknown; no timers of what serves this path were read, give --max-outage"
	if timers.Election == 0 && timers.Unknown != "" {
		unknown = "window: unknown; " + timers.Unknown + "; give --max-outage"
	}
	switch {
	case most > 0:
		out.Expect = []scenario.Expectation{{Role: scenario.RoleClean, Gap: most}}
	case timers.Election > 0:
		out.Expect = []scenario.Expectation{
			{Role: scenario.RoleAffected, Kinds: etcd, Window: "election", Unfelt: true},
			{Role: scenario.RoleInfo, Note: unknown},
		}
	default:
		out.Expect = []scenario.Expectation{{Role: scenario.RoleInfo, Note: unknown}}
	}
	return &out
}

// realPath is a prober's path as reports have it.
func realPath(c *scenario.Case, p probe.Path) scenario.Path {
	site, cluster := p.Labels["site"], p.Labels["cluster"]
	if site == "" {
		site = here
	}
	if cluster == "" && len(c.Clusters) > 0 {
		cluster = c.Clusters[0].Name
	}
	return scenario.Path{
		Name: p.Name, Site: site, Cluster: cluster, Target: p.URL.Host,
		Kind: string(p.Kind), Mode: string(p.Mode), Interval: p.Interval, Timeout: p.Timeout,
	}
}

// phase records one.
func (r *recorder) phase(name string, f func() error) error {
	from := r.clock.now()
	err := f()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.Phases = append(r.run.Phases, record.Phase{Name: name, From: from, To: r.clock.now()})
	return err
}

// note records that a fault begins, or that it was taken back.
func (r *recorder) note(name, kind, detail string, undone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.now()
	if undone {
		r.run.Healed = now
		for i := range r.run.Faults {
			if f := &r.run.Faults[i]; f.Name == name && f.To.IsZero() {
				f.To = now
			}
		}
		return
	}
	if r.run.Injected.IsZero() {
		r.run.Injected = now
	}
	r.run.Faults = append(r.run.Faults, record.Fault{Name: name, Kind: kind, Detail: detail, From: now})
}

// step is note for a step on hosts.
func (r *recorder) step(s remote.Step, undone bool) {
	var parts []string
	kind := "cut"
	for _, op := range s.Ops {
		parts = append(parts, op.Host+": "+op.String())
		kind = op.Kind()
	}
	if !undone {
		_ = r.w.Journal(r.clock.now(), "inject "+s.Name+": "+strings.Join(parts, "; "))
	} else {
		_ = r.w.Journal(r.clock.now(), "undo "+s.Name)
	}
	r.note(s.Name, kind, strings.Join(parts, "; "), undone)
}

// finish judges what was seen and writes the report.
func (r *recorder) finish(doubts []string, err error) (*report.Report, error) {
	r.mu.Lock()
	for i := range r.run.Faults {
		r.run.Faults[i].Verified = err == nil && len(doubts) == 0
	}
	r.run.Trouble = append(r.run.Trouble, doubts...)
	if err != nil {
		r.run.Trouble = append(r.run.Trouble, err.Error())
	}
	r.run.Ended = r.clock.now()
	run := r.run
	r.mu.Unlock()
	if err := r.w.Close(run); err != nil {
		return nil, err
	}
	rep, err := Judge(r.out)
	if err != nil {
		return nil, err
	}
	return rep, report.Directory{Path: r.out}.Write(rep)
}

// recorded drills with a record of all samples, and prints the report.
func (f *runFlags) recorded(ctx context.Context, c *scenario.Case, j *injection, stdout io.Writer) error {
	cfg, err := probe.LoadConfig(f.real.probe)
	if err != nil {
		return err
	}
	p, err := probe.New(cfg)
	if err != nil {
		return err
	}
	// A prober that was made must run to let go of what it holds.
	watch := func(take func(probe.Sample)) *watching { return walk(ctx, cfg, p, take) }
	timers, err := j.timers(ctx)
	if err != nil {
		watch(nil).end()
		return err
	}
	if f.Out == "" {
		f.Out = "holdfast-drill-" + f.Scenario.Name + "-" + time.Now().Format("20060102-150405")
	}
	r, err := f.newRecorder(c, p.Paths(), timers)
	if err != nil {
		watch(nil).end()
		return err
	}
	j.record(r)
	w := watch(r.w.Sample)
	doubts, err := f.course(ctx, c, j, r, w)
	w.end()
	rep, rerr := r.finish(doubts, err)
	if rerr != nil {
		return both(err, rerr)
	}
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "report: %s\n", report.Directory{Path: f.Out}.File(report.HTMLFile))
		return err
	}
	return f.tell(rep, stdout)
}

// course is baseline, hold and settle.
func (f *runFlags) course(ctx context.Context, c *scenario.Case, j *injection, r *recorder, w *watching) (doubts []string, err error) {
	err = r.phase("baseline", func() error { return wait(ctx, c.Phases.Baseline) })
	if err == nil {
		err = w.clean()
	}
	if err != nil {
		return nil, err
	}
	err = r.phase("hold", func() error {
		doubts, err = j.inject(ctx)
		return err
	})
	if err != nil {
		return doubts, err
	}
	return doubts, r.phase("settle", func() error { return wait(ctx, c.Phases.Settle) })
}

// both is one line for what happened and for a report that failed after it.
func both(err, after error) error {
	if err == nil {
		return after
	}
	return fmt.Errorf("%w; then %w", err, after)
}

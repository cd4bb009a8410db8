package drill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/matrix"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// MatrixOptions are what a person chooses for many drills.
type MatrixOptions struct {
	Scenarios []*scenario.Scenario
	// Full makes all variants and both runs with the documented holds; else the main
	// variants are drilled with holds as short as their windows allow, and with the agents
	// alone where no comparison is asked for.
	Full bool
	// Out is the directory of the matrix; Resume goes on in one that was interrupted.
	Out    string
	Resume bool
	// Room is how much may run side by side, in labs with etcd alone.
	Room int
	// Peer and Kubernetes are as in Options.
	Peer, Kubernetes string
	// Board shows how it goes.
	Board Board

	// opening is told once the directory is known to be good.
	opening string
}

// Board is told how a matrix goes. It is called from several goroutines.
type Board interface {
	// Phase tells where a run is; phase "" says that it is over.
	Phase(run matrix.Run, phase string)
	// Drilled tells the result of a scenario.
	Drilled(r *report.Report, done, of int)
	// Say is for everything else, one line.
	Say(line string)
}

// job is one run with what it needs.
type job struct {
	matrix.Run
	c *scenario.Case
	// lacks is why it cannot be made on this machine, in one line.
	lacks string
}

// name is that of its directory below runsDir.
func (j job) name() string { return j.Variant + "-" + sideOf(j.Agents) }

// table makes the runs of a matrix and keeps its result.
type table struct {
	o   MatrixOptions
	exe string
	log *slog.Logger
	// jobs by scenario, in order.
	jobs map[string][]job

	mu       sync.Mutex
	broken   map[string][]string // why runs could not be made, by scenario
	repeated map[string]map[string]int
	done     int
	err      error // ends everything
}

// RunMatrix makes all runs that are not there yet and returns the table, which is also in
// MatrixOptions.Out. It is an error that the directory cannot be used; whatever keeps a
// drill from being made is in the table. When ctx ends, what was begun is healed and left out of
// the table, which says what is missing.
func RunMatrix(ctx context.Context, o MatrixOptions, log *slog.Logger) (*report.Matrix, error) {
	jobs, err := o.plan()
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	ledger, err := o.open(jobs)
	if err != nil {
		return nil, err
	}
	t := &table{o: o, exe: exe, log: log, jobs: map[string][]job{}, broken: map[string][]string{}, repeated: map[string]map[string]int{}}
	for _, j := range jobs {
		t.jobs[j.Scenario] = append(t.jobs[j.Scenario], j)
	}
	o.Board.Say(o.opening)
	begun := time.Now()
	t.makeAll(ctx, jobs)
	t.repeat(ctx)
	ledger.LastedMS += ms(time.Since(begun))
	m, err := t.result(ledger)
	if err != nil {
		return nil, errors.Join(t.err, err)
	}
	if err := errors.Join(ledger.write(o.Out), (report.Directory{Path: o.Out}).WriteMatrix(m)); err != nil {
		return m, errors.Join(t.err, err)
	}
	return m, t.err
}

// plan lists the runs of all scenarios, in order.
func (o MatrixOptions) plan() ([]job, error) {
	var all []job
	for _, s := range o.Scenarios {
		for i, name := range s.VariantNames() {
			if i > 0 && !o.Full {
				break
			}
			c, err := s.Case(name)
			if err != nil {
				return nil, err
			}
			for _, agents := range o.sides(s, c) {
				all = append(all, o.job(c, agents))
			}
		}
	}
	return all, nil
}

// sides are the runs of a case: both in full; else the other one only where the case
// compares them.
func (o MatrixOptions) sides(s *scenario.Scenario, c *scenario.Case) []bool {
	both := Options{Scenario: s}.sides()
	if o.Full || c.Compare != nil {
		return both
	}
	return both[len(both)-1:] // with the agents
}

func (o MatrixOptions) job(c *scenario.Case, agents bool) job {
	if !o.Full {
		c = c.Quick(agents)
	}
	each := Options{Peer: o.Peer, Kubernetes: o.Kubernetes}
	j := job{c: c, Run: matrix.Run{Scenario: c.Scenario, Variant: c.Variant, Agents: agents, Cost: matrix.CostOf(c), Lasts: lasts(c)}}
	if err := each.lacking(c, agents); err != nil {
		j.lacks = err.Error()
	}
	return j
}

// Expect is about how long the matrix takes, and how many runs it has.
func (o MatrixOptions) Expect() (time.Duration, int, error) {
	jobs, err := o.plan()
	if err != nil {
		return 0, 0, err
	}
	return matrix.Lasts(matrix.Waves(runsOf(jobs), o.Room)), len(jobs), nil
}

// runsOf are the runs of jobs that this machine can make.
func runsOf(jobs []job) []matrix.Run {
	var runs []matrix.Run
	for _, j := range jobs {
		if j.lacks == "" {
			runs = append(runs, j.Run)
		}
	}
	return runs
}

// makeAll makes the runs that are not there yet, wave by wave.
func (t *table) makeAll(ctx context.Context, jobs []job) {
	var left []job
	for _, j := range jobs {
		switch {
		case j.lacks != "":
			t.breaks(j, errors.New(j.lacks))
		case !t.made(j):
			left = append(left, j)
		}
	}
	for _, s := range t.o.Scenarios {
		t.judged(s.Name) // those of an earlier sitting
	}
	for _, wave := range matrix.Waves(runsOf(left), t.o.Room) {
		if ctx.Err() != nil || t.failed() {
			return
		}
		t.wave(ctx, wave)
	}
}

// wave makes runs side by side: all labs are built before anything is measured.
func (t *table) wave(ctx context.Context, runs []matrix.Run) {
	gate := matrix.NewGate(len(runs))
	var all sync.WaitGroup
	for _, r := range runs {
		pass := gate.Pass()
		all.Go(func() {
			defer pass.Leave()
			t.makeOne(ctx, t.jobOf(r), pass.Come)
		})
	}
	all.Wait()
	// Only now: it takes a core for a second or two, and others were being measured.
	for _, s := range t.o.Scenarios {
		if slices.ContainsFunc(runs, func(r matrix.Run) bool { return r.Scenario == s.Name }) {
			t.judged(s.Name)
		}
	}
}

func (t *table) jobOf(r matrix.Run) job {
	jobs := t.jobs[r.Scenario]
	return jobs[slices.IndexFunc(jobs, func(j job) bool { return j.Run == r })]
}

// dir is where the runs of a scenario and its report are.
func (t *table) dir(scenario string) string { return filepath.Join(t.o.Out, scenario) }

func (t *table) runDir(j job) string {
	return filepath.Join(t.dir(j.Scenario), runsDir, j.name())
}

// made says whether a run is there already, from an earlier sitting.
func (t *table) made(j job) bool {
	_, err := os.Stat(filepath.Join(t.runDir(j), record.RunFile))
	return err == nil
}

// makeOne makes one run. One that was interrupted is put aside: it counts as not made.
func (t *table) makeOne(ctx context.Context, j job, ready func(context.Context) error) {
	dir := t.runDir(j)
	if err := os.RemoveAll(dir); err != nil { // begun and never finished
		t.breaks(j, err)
		return
	}
	o := Options{Peer: t.o.Peer, Kubernetes: t.o.Kubernetes, Progress: &phases{board: t.o.Board, run: j.Run}, ready: ready}
	err := o.runOnce(ctx, j.c, j.Agents, dir, t.exe, t.log.With("scenario", j.Scenario))
	t.o.Board.Phase(j.Run, "")
	switch {
	case ctx.Err() != nil:
		if err := putAside(t.dir(j.Scenario), dir, j.name()+"-interrupted"); err != nil {
			t.breaks(j, err)
		}
	case full(err):
		t.end(fmt.Errorf("--out: the disk of %s is full: free some space and go on with --resume: %w", t.o.Out, err))
	case err != nil:
		t.breaks(j, err)
	}
}

// putAside keeps a run that does not count where discard does, in place of an older one.
func putAside(out, dir, name string) error {
	if err := os.RemoveAll(filepath.Join(out, discardedDir, name)); err != nil {
		return fmt.Errorf("put run aside: %w", err)
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return discard(out, dir, name)
}

func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// end keeps what ends everything.
func (t *table) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

func (t *table) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil
}

// breaks notes why a run was not made.
func (t *table) breaks(j job, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken[j.Scenario] = append(t.broken[j.Scenario], j.Variant+", "+sideOf(j.Agents)+": "+err.Error())
}

// judged writes the report of a scenario once all of its runs are there, and tells it.
func (t *table) judged(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || len(t.missing(name)) > 0 {
		return
	}
	r, err := Judge(t.dir(name))
	if err == nil {
		err = report.Directory{Path: t.dir(name)}.Write(r)
	}
	switch {
	case full(err):
		t.err = fmt.Errorf("--out: the disk of %s is full: free some space and go on with --resume: %w", t.o.Out, err)
		return
	case err != nil:
		t.broken[name] = append(t.broken[name], err.Error())
		return
	}
	t.done++
	t.o.Board.Drilled(r, t.done, len(t.jobs))
}

// missing lists the runs of a scenario that are not there.
func (t *table) missing(name string) []job {
	var out []job
	for _, j := range t.jobs[name] {
		if !t.made(j) {
			out = append(out, j)
		}
	}
	return out
}

// repeat makes the runs once more, alone, that proved nothing or could not be made:
// beside others a machine may have been too busy.
func (t *table) repeat(ctx context.Context) {
	for _, s := range t.o.Scenarios {
		for _, j := range t.unproven(s.Name) {
			if ctx.Err() != nil || t.failed() {
				return
			}
			t.o.Board.Say(j.String() + ": proved nothing, once more alone")
			if err := putAside(t.dir(s.Name), t.runDir(j), j.name()); err != nil {
				t.end(err)
				return
			}
			t.mu.Lock()
			if t.repeated[s.Name] == nil {
				t.repeated[s.Name] = map[string]int{}
			}
			t.repeated[s.Name][j.Variant]++
			t.broken[s.Name] = nil
			t.done--
			t.mu.Unlock()
			t.makeOne(ctx, j, nil)
			t.judged(s.Name)
		}
	}
}

// unproven lists the runs of a scenario that are inconclusive, or missing though this
// machine can make them.
func (t *table) unproven(name string) []job {
	r, _ := report.Directory{Path: t.dir(name)}.Read()
	var out []job
	for _, j := range t.jobs[name] {
		switch run := runOf(r, j); {
		case j.lacks != "":
		case !t.made(j), run != nil && run.Verdict == report.Inconclusive:
			out = append(out, j)
		}
	}
	return out
}

// runOf finds a run in a report; nil when it is not there.
func runOf(r *report.Report, j job) *report.Run {
	if r == nil {
		return nil
	}
	with, without := r.With, r.Without
	for _, v := range r.Variants {
		if v.Name == j.Variant {
			with, without = v.With, v.Without
		}
	}
	if j.Agents {
		return with
	}
	return without
}

// result puts everything that is there into one table.
func (t *table) result(l *ledger) (*report.Matrix, error) {
	m := &report.Matrix{Version: report.Version, Mode: t.o.mode(), Started: l.Started, LastedMS: l.LastedMS, Environment: t.o.environment()}
	for _, s := range t.o.Scenarios {
		missing := t.missing(s.Name)
		switch why := t.broken[s.Name]; {
		case len(why) > 0:
			m.Drills = append(m.Drills, report.MatrixDrill{
				Scenario: s.Name, Variant: t.jobs[s.Name][0].Variant, Title: s.Title, Verdict: report.Inconclusive, Reasons: why, Paths: []report.MatrixPath{},
			})
		case len(missing) > 0:
			for _, j := range missing {
				m.Missing = append(m.Missing, j.String())
			}
		default:
			r, err := Judge(t.dir(s.Name))
			if err != nil {
				return nil, err
			}
			m.Add(r, s.Name, t.repeated[s.Name])
		}
	}
	m.Conclude()
	return m, nil
}

func (o MatrixOptions) environment() map[string]string {
	return map[string]string{"cores": strconv.Itoa(runtime.NumCPU()), "room": strconv.Itoa(o.Room)}
}

package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/judge"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// runsDir holds one directory per run below that of the drill.
const runsDir = "runs"

// Options are what a person chooses for a drill.
type Options struct {
	Scenario *scenario.Scenario
	// Variants are names of variants; empty means all.
	Variants []string
	// With and Without choose the runs; both false means both.
	With, Without bool
	// Out is the directory of the report. One that holds a drill already is
	// refused, or with Overwrite emptied of it.
	Out       string
	Overwrite bool
	// Peer is the etcd version of the lab, "" for the one built in.
	Peer string
	// Kubernetes is the version of the lab's Kubernetes programs, "" for the
	// lab's default.
	Kubernetes string
	// Preset and Hold replace those of the scenario when set.
	Preset string
	Hold   time.Duration
	// Tries is how often a run is made that proves nothing, because the machine
	// was too busy or the cluster not steady before the fault; 0 means 1.
	Tries int
	// Progress gets the phases.
	Progress io.Writer

	// ready, if there is one, is asked when everything is built and nothing measured
	// yet; the run goes on when it returns.
	ready func(context.Context) error
}

// Run drills every chosen variant, each in labs of its own, and returns the
// report, which is also in Options.Out. A drill that could not be run at all
// is an error; one that proves nothing is an inconclusive report.
func Run(ctx context.Context, o Options, log *slog.Logger) (*report.Report, error) {
	cases, err := o.cases()
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	if err := o.clear(); err != nil {
		return nil, err
	}
	for _, c := range cases {
		for _, agents := range o.sides() {
			if err := o.runCase(ctx, c, agents, exe, log); err != nil {
				return nil, err
			}
		}
	}
	r, err := Judge(o.Out)
	if err != nil {
		return nil, err
	}
	return r, report.Directory{Path: o.Out}.Write(r)
}

// clear makes sure that the runs in Out will be those of this drill alone.
func (o Options) clear() error {
	for _, name := range []string{runsDir, discardedDir} {
		old := filepath.Join(o.Out, name)
		if _, err := os.Stat(old); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if !o.Overwrite {
			return fmt.Errorf("--out: %s holds a drill already; choose another directory, or give --overwrite", o.Out)
		}
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("remove the old drill: %w", err)
		}
	}
	return nil
}

// cases resolves the chosen variants with the overrides of the options.
func (o Options) cases() ([]*scenario.Case, error) {
	names := o.Variants
	if len(names) == 0 {
		names = o.Scenario.VariantNames()
	}
	var cases []*scenario.Case
	for _, name := range names {
		c, err := o.Scenario.Case(name)
		if err != nil {
			return nil, err
		}
		if o.Preset != "" {
			c.Lab.Preset = o.Preset
		}
		if o.Hold != 0 {
			c.Phases.Hold = o.Hold
		}
		if err := c.Validate(); err != nil {
			return nil, fmt.Errorf("%s, variant %s: %w", o.Scenario.Name, name, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// sides lists the runs of a case: without the agents first, as a reader wants
// to see the trouble before the remedy.
func (o Options) sides() []bool {
	switch {
	case o.With == o.Without && o.Scenario.Alone:
		return []bool{true}
	case o.With == o.Without:
		return []bool{false, true}
	case o.With:
		return []bool{true}
	}
	return []bool{false}
}

// discardedDir keeps the records of runs that were made again.
const discardedDir = "discarded"

// runCase makes one run, again when it proves nothing. The record of the last
// one counts; what is put aside stays for whoever wants to know why.
func (o Options) runCase(ctx context.Context, c *scenario.Case, agents bool, exe string, log *slog.Logger) error {
	side := sideOf(agents)
	name := c.Variant + "-" + side
	dir := filepath.Join(o.Out, runsDir, name)
	for try := 1; ; try++ {
		if err := o.runOnce(ctx, c, agents, dir, exe, log); err != nil {
			return fmt.Errorf("drill %s, variant %s, %s the agents: %w", c.Scenario, c.Variant, side, err)
		}
		doubts, err := doubtsOf(dir)
		if err != nil {
			return err
		}
		if len(doubts) == 0 || try >= o.Tries {
			return nil
		}
		_, _ = fmt.Fprintf(o.Progress, "%s, %s the agents: proved nothing, trying again: %s\n", c.Scenario, side, doubts[0])
		if err := discard(o.Out, dir, fmt.Sprintf("%s-%d", name, try)); err != nil {
			return err
		}
	}
}

func (o Options) runOnce(ctx context.Context, c *scenario.Case, agents bool, dir, exe string, log *slog.Logger) error {
	w, err := record.Create(dir, c)
	if err != nil {
		return err
	}
	label := fmt.Sprintf("%s, leader %s, %s the agents", c.Scenario, leaders(c), sideOf(agents))
	e := &engine{
		c: c, agents: agents, peer: o.Peer, kubernetes: o.Kubernetes, exe: exe, w: w,
		log: log.With("variant", c.Variant, "agents", agents), show: newProgress(o.Progress, label), ready: o.ready,
	}
	defer e.show.done()
	return e.do(ctx)
}

func sideOf(agents bool) string {
	if agents {
		return "with"
	}
	return "without"
}

func doubtsOf(dir string) ([]string, error) {
	rec, err := record.Load(dir)
	if err != nil {
		return nil, err
	}
	return judge.Doubts(rec), nil
}

func discard(out, dir, name string) error {
	to := filepath.Join(out, discardedDir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("put run aside: %w", err)
	}
	if err := os.Rename(dir, to); err != nil {
		return fmt.Errorf("put run aside: %w", err)
	}
	return nil
}

// leaders names the starting leaders in words: "in a", "of main in a, of
// second in b".
func leaders(c *scenario.Case) string {
	if len(c.Clusters) == 1 {
		return "in " + c.Leaders[c.Clusters[0].Name]
	}
	var parts []string
	for _, k := range c.Clusters {
		parts = append(parts, "of "+k.Name+" in "+c.Leaders[k.Name])
	}
	return strings.Join(parts, ", ")
}

// Judge judges the runs saved in dir: the directory of a drill, or of a single
// run. It changes nothing there.
func Judge(dir string) (*report.Report, error) {
	dirs, err := runDirs(dir)
	if err != nil {
		return nil, err
	}
	var records []*record.Record
	for _, d := range dirs {
		r, err := record.Load(d)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	slices.SortStableFunc(records, func(a, b *record.Record) int { return a.Run.Started.Compare(b.Run.Started) })
	return judge.Assemble(records), nil
}

func runDirs(dir string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(dir, record.RunFile)); err == nil {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(filepath.Join(dir, runsDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("judge %s: it holds neither %s nor %s/; give the directory that `drill run --out` wrote", dir, record.RunFile, runsDir)
	}
	if err != nil {
		return nil, fmt.Errorf("judge %s: %w", dir, err)
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, runsDir, e.Name()))
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("judge %s: %s/ is empty; the drill did not finish a run", dir, runsDir)
	}
	return dirs, nil
}

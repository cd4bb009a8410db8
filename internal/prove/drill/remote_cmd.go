package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/remote"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// realFlags are those of a drill on real hosts.
type realFlags struct {
	inventory string
	dryRun    bool
	yes       bool
	observe   bool
	probe     string
	maxOutage time.Duration
}

func (f *realFlags) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.inventory, "inventory", "", "YAML `file` with real hosts: inject over SSH there instead of in a lab")
	fl.BoolVar(&f.dryRun, "dry-run", false, "with --inventory: print what would be done to whom, and connect to nobody")
	fl.BoolVar(&f.yes, "yes", false, "with --inventory: really do it")
	fl.BoolVar(&f.observe, "observe-only", false, "change nothing and connect to no host; a person breaks what the scenario says")
	fl.StringVar(&f.probe, "probe", "", "with --inventory or --observe-only: `file` as for `holdfast probe --config`, with what clients ask")
	fl.DurationVar(&f.maxOutage, "max-outage", 0, "with --probe: fail when a path was out longer for certain (default: only measure)")
}

// real says whether the drill is one on real hosts; flags that need that are an
// error without it.
func (f *realFlags) real(documents bool) (bool, error) {
	real := f.inventory != "" || f.observe
	switch {
	case f.observe && (f.dryRun || f.yes):
		return false, errors.New("--dry-run, --yes: --observe-only injects nothing; leave them out")
	case f.observe && f.inventory != "":
		return false, errors.New("--observe-only: connects to no host; leave out --inventory")
	case f.observe && f.probe == "":
		return false, errors.New("--observe-only: observes nothing without --probe; give a file as for holdfast probe --config")
	case f.inventory == "" && !f.observe && (f.dryRun || f.yes || f.probe != "" || f.maxOutage != 0):
		return false, errors.New("--dry-run, --yes, --probe, --max-outage: are for real hosts; give --inventory or --observe-only")
	case real && documents && f.probe == "":
		return false, errors.New("--out, --json: report what clients noticed; give --probe, a file as for holdfast probe --config")
	case f.maxOutage != 0 && f.probe == "":
		return false, errors.New("--max-outage: bounds the paths of --probe; give that file")
	}
	return real, nil
}

// runReal drills real hosts and turns what was seen into the exit code.
func (f *runFlags) runReal(ctx context.Context, stdout io.Writer) error {
	if f.Hold < 0 || f.Hold > time.Hour {
		return fmt.Errorf("--hold: %v is out of range; choose 1s to 1h", f.Hold)
	}
	c, err := f.Scenario.Case(f.realVariant())
	if err != nil {
		return err
	}
	if f.Hold > 0 {
		c.Phases.Hold = f.Hold
	}
	progress := stdout
	if f.json {
		progress = f.Progress // stdout gets the document alone
	}
	j, err := f.injection(c, progress)
	if err != nil || j == nil {
		return err
	}
	if f.json || f.Out != "" {
		return f.recorded(ctx, c, j, stdout)
	}
	return f.observed(ctx, c, j.inject, stdout)
}

// realVariant is the one chosen, else the main one: starting positions cannot be
// forced on a real cluster, and the variants may differ in nothing else.
func (f *runFlags) realVariant() string {
	if len(f.Variants) > 0 {
		return f.Variants[0]
	}
	return f.Scenario.VariantNames()[0]
}

// injection is what happens between baseline and settle. inject returns why the run
// proves nothing.
type injection struct {
	inject func(context.Context) ([]string, error)
	// timers reads what can be known of the hosts, record has a recorder told of faults.
	timers func(context.Context) (remote.Timers, error)
	record func(*recorder)
}

// injection is nil for a dry run.
func (f *runFlags) injection(c *scenario.Case, stdout io.Writer) (*injection, error) {
	if f.real.observe {
		return byHand(c, stdout), nil
	}
	inv, err := remote.LoadInventory(f.real.inventory)
	if err != nil {
		return nil, err
	}
	plan, err := remote.Build(c, inv, c.Phases.Hold)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(stdout, remote.Print(plan, inv)); err != nil {
		return nil, err
	}
	switch {
	case f.real.dryRun:
		return nil, nil
	case !f.real.yes:
		return nil, errors.New("--yes: missing, so nothing was done; read the plan above and give it, or --dry-run")
	}
	ctl := &remote.Controller{Inventory: inv, Plan: plan, Out: stdout}
	return &injection{
		inject: ctl.Run,
		timers: func(ctx context.Context) (remote.Timers, error) { return remote.ReadTimers(ctx, inv) },
		record: func(r *recorder) { ctl.Note = r.step },
	}, nil
}

// byHand tells a person what to break, and when to undo it.
func byHand(c *scenario.Case, stdout io.Writer) *injection {
	note := func(bool) {}
	j := &injection{
		timers: func(context.Context) (remote.Timers, error) {
			return remote.Timers{Unknown: "no host was asked for its timers"}, nil
		},
		record: func(r *recorder) {
			note = func(undone bool) { r.note("by-hand", "by hand", c.Title, undone) }
		},
	}
	j.inject = func(ctx context.Context) ([]string, error) {
		_, _ = fmt.Fprintf(stdout, "now: %s; undo it in %v\n", lowerFirst(c.Title), c.Phases.Hold)
		note(false)
		if err := wait(ctx, c.Phases.Hold); err != nil {
			return nil, err
		}
		note(true)
		_, _ = fmt.Fprintln(stdout, "now: undo it")
		return nil, nil
	}
	return j
}

// observed runs the injection with the probes around it.
func (f *runFlags) observed(ctx context.Context, c *scenario.Case, inject func(context.Context) ([]string, error), stdout io.Writer) error {
	watch, err := f.real.watch(ctx)
	if err != nil {
		return err
	}
	if watch != nil {
		err := wait(ctx, c.Phases.Baseline)
		if err == nil {
			err = watch.clean()
		}
		if err != nil {
			watch.end()
			return err
		}
	}
	doubts, err := inject(ctx)
	if watch == nil {
		return told(f.Scenario.Name, doubts, err)
	}
	if err == nil {
		err = wait(ctx, c.Phases.Settle)
	}
	watch.end()
	if werr := watch.print(stdout); err == nil {
		err = werr
	}
	if err == nil && len(doubts) == 0 {
		return watch.verdict(f.real.maxOutage)
	}
	return told(f.Scenario.Name, doubts, err)
}

// told is the end of a drill without paths to judge.
func told(name string, doubts []string, err error) error {
	if err != nil || len(doubts) == 0 {
		return err
	}
	return exit.With(exit.Unknown, fmt.Errorf("drill %s is inconclusive: %s", name, strings.Join(doubts, "; ")))
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// watching is a prober of this process that runs beside an injection.
type watching struct {
	board *probe.Board
	stop  context.CancelFunc
	done  chan struct{}
}

// watch starts the probes of --probe, nil without.
func (f *realFlags) watch(ctx context.Context) (*watching, error) {
	if f.probe == "" {
		return nil, nil
	}
	cfg, err := probe.LoadConfig(f.probe)
	if err != nil {
		return nil, err
	}
	p, err := probe.New(cfg)
	if err != nil {
		return nil, err
	}
	return walk(ctx, cfg, p, nil), nil
}

// walk runs a prober until its end; take, when set, gets every sample too.
func walk(ctx context.Context, cfg *probe.Config, p *probe.Prober, take func(probe.Sample)) *watching {
	// The prober outlives an interrupt until the injection is undone.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &watching{board: probe.NewBoard(p.Paths(), cfg.Stable), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		p.Run(ctx, func(s probe.Sample) {
			w.board.Add(s)
			if take != nil {
				take(s)
			}
		})
	}()
	return w
}

func (w *watching) end() {
	w.stop()
	<-w.done
}

// clean wants a baseline without a failed sample.
func (w *watching) clean() error {
	for _, s := range w.board.Summaries() {
		if s.Failed > 0 {
			return fmt.Errorf("baseline not clean, nothing was injected: %s failed %d of %d times", s.Path, s.Failed, s.Samples)
		}
	}
	return nil
}

func (w *watching) print(out io.Writer) error {
	for _, s := range w.board.Summaries() {
		text := "no outage"
		if s.Longest != nil {
			text = fmt.Sprintf("%d outages, the longest %v to %v", s.Outages, round(s.Longest.Lower()), round(s.Longest.Upper()))
		}
		if _, err := fmt.Fprintf(out, "%s: %d samples, %d failed, %s\n", s.Path, s.Samples, s.Failed, text); err != nil {
			return err
		}
	}
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// verdict fails a path that was out longer than most, or is not back.
func (w *watching) verdict(most time.Duration) error {
	if why := w.board.Starved(); why != "" {
		return exit.With(exit.Unknown, fmt.Errorf("could not tell: %s", why))
	}
	for _, s := range w.board.Summaries() {
		switch {
		case s.Longest == nil:
		case most > 0 && s.Longest.Lower() > most:
			return exit.With(exit.Failed, fmt.Errorf("%s was out for at least %v, over --max-outage %v", s.Path, round(s.Longest.Lower()), most))
		case s.Gaps[len(s.Gaps)-1].Open:
			return exit.With(exit.Failed, fmt.Errorf("%s is not back after the heal", s.Path))
		}
	}
	return nil
}

func undoCommand() *cobra.Command {
	var inventory string
	cmd := &cobra.Command{
		Use:   "undo --inventory FILE",
		Short: "Take back what a drill left on real hosts",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if inventory == "" {
				return errors.New("--inventory: missing; give the file of the drill")
			}
			inv, err := remote.LoadInventory(inventory)
			if err != nil {
				return err
			}
			return remote.Undo(cmd.Context(), inv, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&inventory, "inventory", "", "YAML `file` with the hosts")
	return cmd
}

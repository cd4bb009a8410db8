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
func (f *realFlags) real() (bool, error) {
	switch {
	case f.observe && (f.dryRun || f.yes):
		return false, errors.New("--dry-run, --yes: --observe-only injects nothing; leave them out")
	case f.observe && f.inventory != "":
		return false, errors.New("--observe-only: connects to no host; leave out --inventory")
	case f.observe && f.probe == "":
		return false, errors.New("--observe-only: observes nothing without --probe; give a file as for holdfast probe --config")
	case f.inventory == "" && !f.observe && (f.dryRun || f.yes || f.probe != "" || f.maxOutage != 0):
		return false, errors.New("--dry-run, --yes, --probe, --max-outage: are for real hosts; give --inventory or --observe-only")
	case f.maxOutage != 0 && f.probe == "":
		return false, errors.New("--max-outage: bounds the paths of --probe; give that file")
	}
	return f.inventory != "" || f.observe, nil
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
	inject, err := f.injection(c, stdout)
	if err != nil || inject == nil {
		return err
	}
	return f.observed(ctx, c, inject, stdout)
}

// realVariant is the one chosen, else the main one: starting positions cannot be
// forced on a real cluster, and the variants may differ in nothing else.
func (f *runFlags) realVariant() string {
	if len(f.Variants) > 0 {
		return f.Variants[0]
	}
	return f.Scenario.VariantNames()[0]
}

// injection is what happens between baseline and settle, nil for a dry run.
func (f *runFlags) injection(c *scenario.Case, stdout io.Writer) (func(context.Context) ([]string, error), error) {
	if f.real.observe {
		return func(ctx context.Context) ([]string, error) {
			_, _ = fmt.Fprintf(stdout, "now: %s; undo it in %v\n", lowerFirst(c.Title), c.Phases.Hold)
			if err := wait(ctx, c.Phases.Hold); err != nil {
				return nil, err
			}
			_, _ = fmt.Fprintln(stdout, "now: undo it")
			return nil, nil
		}, nil
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
	return ctl.Run, nil
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
	// The prober outlives an interrupt until the injection is undone.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &watching{board: probe.NewBoard(p.Paths(), cfg.Stable), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		p.Run(ctx, func(s probe.Sample) { w.board.Add(s) })
	}()
	return w, nil
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

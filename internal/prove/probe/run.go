package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// run samples until the duration, a signal or a broken output ends it, and
// reports.
func (c *command) run(ctx context.Context, cfg *Config) error {
	if err := c.checkOutput(); err != nil {
		return err
	}
	prober, err := New(cfg)
	if err != nil {
		return err
	}
	samples, closeSamples, err := c.openSamples()
	if err != nil {
		prober.close()
		return err
	}
	board := NewBoard(prober.Paths(), cfg.Stable)
	writeErr := c.sample(ctx, prober, board, samples)
	if err := errors.Join(writeErr, closeSamples()); err != nil {
		return err
	}
	if err := c.report(board); err != nil {
		return err
	}
	return c.verdict(board)
}

// sample runs the prober with the view beside it. What the view shows and what
// the file holds are the same samples in the same order.
func (c *command) sample(ctx context.Context, prober *Prober, board *Board, samples *Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.duration > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, c.duration)
		defer end()
	}
	view := c.view(board)
	defer view.close()
	var writeErr error
	take := func(s Sample) {
		if writeErr == nil {
			if writeErr = samples.Write(s); writeErr != nil {
				cancel(writeErr)
			}
		}
		view.show(board.Add(s), s)
	}
	if c.once {
		prober.Once(ctx, take)
	} else {
		prober.Run(ctx, take)
	}
	return writeErr
}

// view says where changes of state go while the prober runs: drawn over and
// over on a terminal, as lines otherwise, and never into a stdout that a
// document or the samples take.
func (c *command) view(board *Board) view {
	out := c.out
	if c.json || c.ndjson == "-" {
		out = c.err
	}
	switch {
	case c.once, c.ndjson == "-" && isTerminal(c.out):
		return noView{}
	case isTerminal(out):
		return newLive(out.(*os.File), board, c.duration)
	}
	return &lines{out}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// report prints the summary: the document on stdout, or the table there or,
// while the samples take stdout, on a terminal at stderr.
func (c *command) report(board *Board) error {
	if c.json {
		return writeDocument(c.out, board)
	}
	out := c.out
	if c.ndjson == "-" {
		if !isTerminal(c.err) {
			return nil
		}
		out = c.err
	}
	return writeTable(out, board, c.once)
}

// verdict is the exit code in the form of an error. A run that was asked only
// to measure is good whatever it measured.
func (c *command) verdict(board *Board) error {
	if !c.once && c.maxOutage == 0 {
		return nil
	}
	if why := board.Starved(); why != "" {
		return fmt.Errorf("could not tell: %s; see that lo is up and that the prober gets processor time, then repeat", why)
	}
	bad := 0
	var first Summary
	all := board.Summaries()
	for _, s := range all {
		if c.once && s.Samples == 0 {
			return context.Canceled
		}
		if c.once && s.Failed > 0 || !c.once && s.Longest != nil && s.Longest.Lower() > c.maxOutage {
			if bad++; bad == 1 {
				first = s
			}
		}
	}
	switch {
	case bad > 0 && c.once:
		return failed("%d of %d paths failed, first %s: %s", bad, len(all), first.Path, first.Longest.First)
	case bad > 0:
		return failed("%d of %d paths had an outage over %v, first %s: at least %v",
			bad, len(all), c.maxOutage, first.Path, first.Longest.Lower().Round(time.Millisecond))
	}
	return nil
}

// view shows samples as they are delivered, from one goroutine.
type view interface {
	show(*change, Sample)
	close()
}

type noView struct{}

func (noView) show(*change, Sample) {}
func (noView) close()               {}

// lines prints one line per change of state.
type lines struct{ out io.Writer }

func (l *lines) show(c *change, s Sample) {
	switch {
	case c == nil:
	case c.hops != nil: // also says whether there is a route
		_, _ = fmt.Fprintf(l.out, "%s %s %s\n", stamp(c.hops.Since), s.Path, hopsWords(c.before, *c.hops))
	case c.down != nil:
		_, _ = fmt.Fprintf(l.out, "%s %s down: %s: %s\n", stamp(s.Sent), s.Path, s.Class, s.Error)
	default:
		_, _ = fmt.Fprintf(l.out, "%s %s up again after %s, %s failed\n", stamp(s.Sent), s.Path, bounds(*c.up), plural(c.up.Failed(), "sample"))
	}
}

func (l *lines) close() {}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// bounds is a gap's duration in words.
func bounds(g Gap) string {
	if g.Open {
		return short(g.Upper()) + " so far"
	}
	return fmt.Sprintf("%s to %s", short(g.Lower()), short(g.Upper()))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// short is a duration in three or so digits.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
}

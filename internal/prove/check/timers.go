package check

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules"
	"github.com/holdfast-ha/holdfast/internal/prove/check/stack"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// timersCommand is the view of all detectors between faults and clients.
func timersCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "timers [TARGET...]",
		Short: "List every detector between a fault and a client, with its window",
		Long: `List every detector between a fault and a client, with its window.

TARGET and the flags are those of "holdfast check". For each fault and kind of client
the detectors are shown in the order in which they act, the timers that were found,
and how long the client waits by them, by the arithmetic of the drills. Then come the
paths that no detector covers, by the rules that say so, and what could not be told.

Exit code 0: all that was given could be read. 2: part of it could not, or no detector
was found.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			facts, err := o.read(cmd.Context(), args)
			if err != nil {
				return err
			}
			t := timersOf(facts, time.Now())
			if err := t.print(cmd.OutOrStdout(), o.json); err != nil {
				return err
			}
			return t.verdict()
		},
	}
	o.bindTarget(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON document")
	return cmd
}

// timers is the view, as it is printed with --json.
type timers struct {
	Version int        `json:"version"`
	Origin  string     `json:"origin"`
	Paths   []timePath `json:"paths"`
	// Uncovered are the faults that nothing ends but their own end.
	Uncovered []uncovered `json:"uncovered"`
	// NotEvaluated are the rules that could have named more of them.
	NotEvaluated []notEvaluated `json:"notEvaluated"`
	Problems     []fact.Problem `json:"problems"`
}

type timePath struct {
	Fault     string         `json:"fault"`
	Client    string         `json:"client"`
	Detectors []timeDetector `json:"detectors"`
	// MinMS and MaxMS bound how long the client waits, in milliseconds.
	MinMS int64 `json:"min_ms"`
	MaxMS int64 `json:"max_ms"`
	total scenario.Window
}

type timeDetector struct {
	Name       string   `json:"name"`
	Set        string   `json:"set"`
	At         string   `json:"at,omitempty"`
	MinMS      int64    `json:"min_ms"`
	MaxMS      int64    `json:"max_ms"`
	Derivation []string `json:"derivation"`
	window     scenario.Window
}

type uncovered struct {
	Rule  string `json:"rule"`
	Fault string `json:"fault"`
	At    string `json:"at"`
	What  string `json:"what"`
	Drill string `json:"drill"`
}

type notEvaluated struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// timersOf derives the view of facts. Now is what ends of certificates are held
// against.
func timersOf(f *fact.Facts, now time.Time) timers {
	report := audit.Evaluate(rules.All(), f, audit.Options{Now: now})
	t := timers{
		Version: 1, Origin: f.Origin, Paths: []timePath{}, Uncovered: []uncovered{}, NotEvaluated: []notEvaluated{}, Problems: report.Problems,
	}
	for _, p := range rules.Stack(f) {
		t.Paths = append(t.Paths, pathOf(p))
	}
	for _, x := range report.Findings {
		if x.Effect != nil && x.Effect.Unending {
			t.Uncovered = append(t.Uncovered, uncovered{x.Rule, x.Effect.Text, x.Location.String(), x.What, x.Drill})
		}
	}
	for _, r := range report.Rules {
		if r.Outcome == audit.NotEvaluated {
			t.NotEvaluated = append(t.NotEvaluated, notEvaluated{r.ID, r.Reason})
		}
	}
	return t
}

func pathOf(p stack.Path) timePath {
	w := p.Window()
	out := timePath{Fault: p.Fault, Client: p.Client, MinMS: w.Min.Milliseconds(), MaxMS: w.Max.Milliseconds(), total: w}
	for _, d := range p.Detectors {
		out.Detectors = append(out.Detectors, timeDetector{
			d.Name, d.Set, d.At.String(), d.Window.Min.Milliseconds(), d.Window.Max.Milliseconds(), d.Window.Why, d.Window,
		})
	}
	return out
}

func (t timers) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(t)
	}
	var b strings.Builder
	t.printPaths(&b)
	t.printUncovered(&b)
	fmt.Fprintf(&b, "%d paths with detectors, %d without; %d rules could not be evaluated and might name more\n", len(t.Paths), len(t.Uncovered), len(t.NotEvaluated))
	_, err := io.WriteString(w, b.String())
	return err
}

func (t timers) printPaths(b *strings.Builder) {
	for i, p := range t.Paths {
		if i == 0 || t.Paths[i-1].Fault != p.Fault {
			fmt.Fprintf(b, "%s\n", p.Fault)
		}
		fmt.Fprintf(b, "  %s  %s\n", rule.Span(p.total), p.Client)
		for _, d := range p.Detectors {
			fmt.Fprintf(b, "    %s  %s: %s\n      at %s\n", rule.Span(d.window), d.Name, d.Set, d.At)
		}
	}
}

// printUncovered shows a fault once, with all places it comes from.
func (t timers) printUncovered(b *strings.Builder) {
	b.WriteString("\n")
	for i, u := range t.Uncovered {
		if i == 0 {
			b.WriteString("no detector covers\n")
		}
		if i == 0 || t.Uncovered[i-1].Rule != u.Rule || t.Uncovered[i-1].Fault != u.Fault {
			fmt.Fprintf(b, "  %s  %s\n    drill: holdfast drill run %s\n", u.Rule, u.Fault, u.Drill)
		}
		fmt.Fprintf(b, "    at %s: %s\n", u.At, u.What)
	}
	if len(t.Uncovered) > 0 {
		b.WriteString("\n")
	}
}

func (t timers) verdict() error {
	switch {
	case len(t.Problems) > 0:
		return exit.With(exit.Unknown, fmt.Errorf("check timers: could not tell all: %d things could not be read, such as %s: %s", len(t.Problems), t.Problems[0].Where, t.Problems[0].What))
	case len(t.Paths)+len(t.Uncovered) == 0:
		return exit.With(exit.Unknown, fmt.Errorf("check timers: no detector in %s; is this the right target?", t.Origin))
	}
	return nil
}

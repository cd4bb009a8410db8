package drill

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// maxRoom bounds --parallel: each lab has some ten processes.
const maxRoom = 64

// matrixFlags are those of `drill matrix`.
type matrixFlags struct {
	o                          MatrixOptions
	quick, json, all, planOnly bool
	verbose                    bool
}

func matrixCommand() *cobra.Command {
	var f matrixFlags
	cmd := &cobra.Command{
		Use:   "matrix [SCENARIO…]",
		Short: "Run many drills and print one table: outage, window and verdict by scenario and path",
		Long: `Run many drills and print one table: outage, window and verdict by scenario and path.

SCENARIO is a name that "drill list" shows, a pattern such as "pair-*", or the
path of a .yaml file; left out, all that are built in. Drills that leave cores
free run side by side; what then proves nothing is made once more, alone.

--quick, the default, drills the main variants with holds as short as their
windows allow, and with the agents alone where nothing is compared. --full has
all variants, both runs and the documented holds.

The directory holds matrix.html, matrix.json, matrix.md, junit.xml and
metrics.prom, and the report of each scenario in a directory of its name. Ctrl-C
heals what is running and prints the table so far; --resume goes on.

Exit code 0: all passed. 1: one failed. 2: one is inconclusive, or wrong usage.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.quick, "quick", false, "main variants with holds as short as their windows allow (default)")
	fl.BoolVar(&f.o.Full, "full", false, "all variants, both runs, the documented holds")
	fl.StringVar(&f.o.Out, "out", "", "directory of the table (default: holdfast-matrix-TIME)")
	fl.BoolVar(&f.o.Resume, "resume", false, "go on in the directory of a matrix that was interrupted")
	fl.IntVar(&f.o.Room, "parallel", 2*runtime.NumCPU(), "labs side by side; one with apiservers counts as two, one with Kubernetes as four")
	fl.BoolVar(&f.json, "json", false, "print the table as JSON")
	fl.BoolVar(&f.all, "paths", false, "print all judged paths, not the worst of each drill")
	fl.BoolVar(&f.planOnly, "plan", false, "say what would be drilled and how long it takes; change nothing")
	fl.StringVar(&f.o.Peer, "peer", "", "etcd version of the labs: 3.5, 3.6 or 3.7 (default: the one built in)")
	fl.StringVar(&f.o.Kubernetes, "kubernetes", "", "Kubernetes version of the labs: "+strings.Join(lab.KubernetesVersions(), " or ")+" (default: the first)")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "log what the labs do")
	return cmd
}

func (f *matrixFlags) run(ctx context.Context, names []string, stdout, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	var err error
	if f.o.Scenarios, err = chosen(names); err != nil {
		return err
	}
	total, runs, err := f.o.Expect()
	if err != nil {
		return err
	}
	if f.planOnly {
		return f.plan(stdout, total, runs)
	}
	if err := lab.Preflight(); err != nil {
		return err
	}
	if f.o.Out == "" {
		f.o.Out = "holdfast-matrix-" + time.Now().Format("20060102-150405")
	}
	b := newBoard(stderr, total)
	f.o.Board = b
	f.o.opening = fmt.Sprintf("%s, %s: %d drills, %d runs, about %s", f.o.Out, f.o.mode(), len(f.o.Scenarios), runs, total.Round(time.Minute))
	level := slog.LevelError
	if f.verbose {
		level = slog.LevelInfo
	}
	m, err := RunMatrix(ctx, f.o, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})))
	b.close()
	if m != nil {
		if err := f.show(m, stdout); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return matrixVerdict(m)
}

func (f *matrixFlags) check() error {
	switch {
	case f.quick && f.o.Full:
		return fmt.Errorf("--quick, --full: they exclude one another; give one")
	case f.o.Room < 1 || f.o.Room > maxRoom:
		return fmt.Errorf("--parallel: %d is out of range; choose 1 to %d", f.o.Room, maxRoom)
	case f.o.Resume && f.o.Out == "":
		return fmt.Errorf("--resume: it needs the directory of the matrix that was interrupted; give --out")
	}
	if all := lab.KubernetesVersions(); f.o.Kubernetes != "" && !slices.Contains(all, f.o.Kubernetes) {
		return fmt.Errorf("--kubernetes: %q is unknown; choose %s", f.o.Kubernetes, strings.Join(all, " or "))
	}
	return nil
}

// chosen loads the scenarios that names and patterns stand for, each once.
func chosen(names []string) ([]*scenario.Scenario, error) {
	if len(names) == 0 {
		names = []string{"*"}
	}
	var all []*scenario.Scenario
	seen := map[string]string{}
	for _, name := range names {
		refs := []string{name}
		if strings.ContainsAny(name, "*?[") && !strings.Contains(name, "/") {
			refs = nil
			for _, known := range scenario.Names() {
				if ok, err := path.Match(name, known); err != nil {
					return nil, fmt.Errorf("scenario %q: it is no pattern; write one such as pair-*", name)
				} else if ok {
					refs = append(refs, known)
				}
			}
			if len(refs) == 0 {
				return nil, fmt.Errorf("scenario %q: it fits none; choose of %s", name, strings.Join(scenario.Names(), ", "))
			}
		}
		for _, ref := range refs {
			s, err := scenario.Load(ref)
			if err != nil {
				return nil, err
			}
			if other, ok := seen[s.Name]; ok && other != ref {
				return nil, fmt.Errorf("scenario %s: both %s and %s are called so; rename one", s.Name, other, ref)
			} else if ok {
				continue
			}
			seen[s.Name] = ref
			all = append(all, s)
		}
	}
	return all, nil
}

// plan says what would be drilled.
func (f *matrixFlags) plan(out io.Writer, total time.Duration, runs int) error {
	jobs, err := f.o.plan()
	if err != nil {
		return err
	}
	for _, j := range jobs {
		note := ""
		if j.lacks != "" {
			note = "  cannot be made here: " + j.lacks
		}
		if _, err := fmt.Fprintf(out, "%-52s hold %-8s about %s%s\n", j.Run, j.c.Phases.Hold, j.Lasts.Round(time.Second), note); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%d runs, about %s with %d side by side\n", runs, total.Round(time.Minute), f.o.Room)
	return err
}

// show prints the table.
func (f *matrixFlags) show(m *report.Matrix, stdout io.Writer) error {
	if f.json {
		return m.Encode(stdout)
	}
	if err := m.Text(stdout, terminalOf(stdout), f.all); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "\nReport: %s\n", report.Directory{Path: f.o.Out}.File(report.MatrixHTMLFile))
	return err
}

// matrixVerdict is nil for a pass, and the error with the right exit code otherwise.
func matrixVerdict(m *report.Matrix) error {
	why := "no reason is given"
	if len(m.Reasons) > 0 {
		why = m.Reasons[0]
		if n := len(m.Reasons) - 1; n > 0 {
			why += fmt.Sprintf(" (and %d more)", n)
		}
	}
	switch m.Verdict {
	case report.Pass:
		return nil
	case report.Fail:
		return exit.With(exit.Failed, fmt.Errorf("the matrix failed: %s", why))
	}
	return exit.With(exit.Unknown, fmt.Errorf("the matrix is %s: %s", m.Verdict, why))
}

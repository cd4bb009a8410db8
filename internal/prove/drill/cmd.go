package drill

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/logstore"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// Command is `holdfast drill`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Break a network on purpose and measure what clients notice",
		Long: `Break a network on purpose and measure what clients notice.

A drill builds a lab of real etcd members in network namespaces, lets clients
of every site ask them without pause, breaks something, and judges the outage
of every path against a window that is derived from the timers in force. Each
scenario runs without and with the agents, and one report shows both.

Exit code 0: passed. 1: failed. 2: inconclusive, or wrong usage.`,
	}
	cmd.AddCommand(listCommand(), planCommand(), runCommand(), matrixCommand(), judgeCommand(), reportCommand(), compareCommand(), undoCommand(), logstore.Command())
	return cmd
}

func listCommand() *cobra.Command {
	var sample, asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios that are built in",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sample {
				_, err := cmd.OutOrStdout().Write(scenario.Sample)
				return err
			}
			return list(cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON, with what each takes")
	cmd.Flags().BoolVar(&sample, "sample", false, "print a commented scenario that uses every key")
	return cmd
}

func planCommand() *cobra.Command {
	var o Options
	var variant string
	cmd := &cobra.Command{
		Use:   "plan SCENARIO",
		Short: "Say what a drill would break, whom it touches and what is allowed; change nothing",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := o.load(args[0], variant); err != nil {
				return err
			}
			cases, err := o.cases()
			if err != nil {
				return err
			}
			for _, c := range cases {
				if _, err := io.WriteString(cmd.OutOrStdout(), Plan(c)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	o.caseFlags(cmd, &variant)
	return cmd
}

// caseFlags are those that choose and change what is drilled.
func (o *Options) caseFlags(cmd *cobra.Command, variant *string) {
	f := cmd.Flags()
	f.StringVar(variant, "variant", "all", "starting position: main, all, or a name that drill list shows")
	f.StringVar(&o.Preset, "preset", "", "network of the lab: lan, rtt or one-way (default: the scenario's)")
	f.DurationVar(&o.Hold, "hold", 0, "how long the fault stays in force, such as 30s (default: the scenario's)")
}

// load reads the scenario and resolves the name of the variant.
func (o *Options) load(ref, variant string) (err error) {
	if o.Scenario, err = scenario.Load(ref); err != nil {
		return err
	}
	switch variant {
	case "all", "":
		o.Variants = nil
	case "main":
		o.Variants = o.Scenario.VariantNames()[:1]
	default:
		if _, err := o.Scenario.Case(variant); err != nil {
			return err
		}
		o.Variants = []string{variant}
	}
	return nil
}

// runFlags are those of `drill run` beyond Options.
type runFlags struct {
	Options
	variant string
	json    bool
	repeat  int
	verbose bool
	real    realFlags
}

func runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Run a drill in labs of its own, without and with the agents",
		Long: `Run a drill in labs of its own, without and with the agents.

SCENARIO is a name that "drill list" shows, or the path of a .yaml file. Needs
root and nft. The report directory holds report.html, report.json, junit.xml,
timeline.svg and, below runs/, all that each run saw, so that "drill judge" can
judge it again.

With --inventory the faults go to real hosts over SSH, with an undo script and a
dead man's timer on each; with --observe-only a person breaks things. Then the
paths of --probe are measured from here; with --out or --json the report is that
of a lab.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.caseFlags(cmd, &f.variant)
	fl := cmd.Flags()
	fl.BoolVar(&f.With, "with", false, "run only with the agents")
	fl.BoolVar(&f.Without, "without", false, "run only without the agents")
	fl.StringVar(&f.Out, "out", "", "directory of the report (default: holdfast-drill-SCENARIO-TIME)")
	fl.BoolVar(&f.Overwrite, "overwrite", false, "replace a drill that the directory holds already")
	fl.StringVar(&f.Peer, "peer", "", "etcd version of the lab: 3.5, 3.6 or 3.7 (default: the one built in)")
	fl.StringVar(&f.Kubernetes, "kubernetes", "", "Kubernetes version of the lab: "+strings.Join(lab.KubernetesVersions(), " or ")+" (default: the first)")
	fl.BoolVar(&f.json, "json", false, "print the report as JSON")
	fl.IntVar(&f.repeat, "repeat", 1, "run the drill this many times; the worst one is reported, with the median")
	fl.IntVar(&f.Tries, "tries", 3, "make a run that proves nothing (machine too busy, cluster not steady) up to this many times")
	f.real.bind(cmd)
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "log what the lab does")
	return cmd
}

func (f *runFlags) run(ctx context.Context, ref string, stdout, stderr io.Writer) error {
	if err := f.load(ref, f.variant); err != nil {
		return err
	}
	documents := !f.real.dryRun && (f.json || f.Out != "")
	if real, err := f.real.real(documents); err != nil {
		return err
	} else if real {
		f.Progress = stderr
		return f.runReal(ctx, stdout)
	}
	if f.repeat < 1 || f.repeat > 1000 {
		return fmt.Errorf("--repeat: %d is out of range; choose 1 to 1000", f.repeat)
	}
	if f.Tries < 1 || f.Tries > 10 {
		return fmt.Errorf("--tries: %d is out of range; choose 1 to 10", f.Tries)
	}
	if all := lab.KubernetesVersions(); f.Kubernetes != "" && !slices.Contains(all, f.Kubernetes) {
		return fmt.Errorf("--kubernetes: %q is unknown; choose %s", f.Kubernetes, strings.Join(all, " or "))
	}
	if _, err := f.cases(); err != nil {
		return err
	}
	if f.Out == "" {
		f.Out = "holdfast-drill-" + f.Scenario.Name + "-" + time.Now().Format("20060102-150405")
	}
	if err := f.preflight(); err != nil {
		return err
	}
	f.Progress = stderr
	level := slog.LevelError
	if f.verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	r, err := Repeat(ctx, f.Options, f.repeat, log)
	if err != nil {
		return err
	}
	return f.tell(r, stdout)
}

// preflight reports in one line what this machine lacks for the chosen cases.
func (o *Options) preflight() error {
	if err := lab.Preflight(); err != nil {
		return err
	}
	cases, err := o.cases()
	if err != nil {
		return err
	}
	for _, c := range cases {
		for _, agents := range o.sides() {
			if err := o.lacking(c, agents); err != nil {
				return fmt.Errorf("%s, variant %s: %w", c.Scenario, c.Variant, err)
			}
		}
	}
	return nil
}

// lacking is what this machine lacks for a run of a case.
func (o *Options) lacking(c *scenario.Case, agents bool) error {
	for _, a := range c.Agents {
		if _, ok := agentKinds[a]; !ok && agents && a != scenario.AgentNone {
			return fmt.Errorf("the agent %s cannot be run yet; give --without", a)
		}
	}
	if len(c.Gateway) > 0 {
		if _, err := exec.LookPath(gatewayProgram); err != nil {
			return fmt.Errorf("gateways need the program %s, which is missing: install the package %[1]s", gatewayProgram)
		}
	}
	if c.Kubernetes {
		spec, err := labSpec(c, agents, o.Peer, "")
		if err != nil {
			return err
		}
		spec.KubernetesOptions.Version = o.Kubernetes
		return spec.Preflight()
	}
	if c.APIServers {
		_, err := lab.FindAPIServer()
		return err
	}
	return nil
}

// tell prints the result and turns the verdict into the exit code.
func (f *runFlags) tell(r *report.Report, stdout io.Writer) error {
	if err := show(stdout, r, f.json); err != nil {
		return err
	}
	if f.json {
		return verdict(r)
	}
	if _, err := fmt.Fprintf(stdout, "\nReport: %s\n", report.Directory{Path: f.Out}.File(report.HTMLFile)); err != nil {
		return err
	}
	return verdict(r)
}

// verdict is nil for a pass, and the error with the right exit code otherwise.
func verdict(r *report.Report) error {
	why := "no reason is given"
	if len(r.Reasons) > 0 {
		why = r.Reasons[0]
		if n := len(r.Reasons) - 1; n > 0 {
			why += fmt.Sprintf(" (and %d more)", n)
		}
	}
	switch r.Verdict {
	case report.Pass:
		return nil
	case report.Fail:
		return exit.With(exit.Failed, fmt.Errorf("drill %s failed: %s", r.Scenario, why))
	}
	return exit.With(exit.Unknown, fmt.Errorf("drill %s is %s: %s", r.Scenario, r.Verdict, why))
}

func judgeCommand() *cobra.Command {
	var asJSON, readOnly bool
	cmd := &cobra.Command{
		Use:   "judge DIR",
		Short: "Judge a saved drill again, offline, and write its report anew",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := Judge(args[0])
			if err != nil {
				return err
			}
			if !readOnly {
				if err := (report.Directory{Path: args[0]}).Write(r); err != nil {
					return err
				}
			}
			if err := show(cmd.OutOrStdout(), r, asJSON); err != nil {
				return err
			}
			return verdict(r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "only print; leave the files of DIR as they are")
	return cmd
}

// show prints the report for people or for programs.
func show(out io.Writer, r *report.Report, asJSON bool) error {
	if asJSON {
		return report.Encode(out, r)
	}
	return report.Text(out, r, terminalOf(out))
}

func reportCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Print the report of a drill in another format",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := report.Directory{Path: args[0]}.Read()
			if err != nil {
				return err
			}
			if report.Format(format) == report.FormatText {
				return show(cmd.OutOrStdout(), r, false)
			}
			return report.Render(cmd.OutOrStdout(), r, report.Format(format))
		},
	}
	var names []string
	for _, f := range report.Formats {
		names = append(names, string(f))
	}
	cmd.Flags().StringVar(&format, "format", string(report.FormatText), strings.Join(names, ", "))
	return cmd
}

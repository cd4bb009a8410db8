package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/base/file"
	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/format"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// options are the flags of `holdfast check`.
type options struct {
	node         bool
	cluster      clusterFlags
	etcd         etcdFlags
	format       string
	json         bool
	out          string
	failOn       string
	baseline     string
	suppressions string
	only         []string
	clients      []string
	demo, live   bool
}

// Command is `holdfast check`.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "check [TARGET...]",
		Short: "Find the single points of failure that are visible beforehand",
		Long: `Find the single points of failure that are visible beforehand.

TARGET is a directory of manifests, a file of them, a bundle of "check collect",
or the directory it unpacks to. With --node it is the machine itself, whose
settings are read: kubelet, static pods, keepalived, HAProxy, FRR and others. With
--kubeconfig it is a live cluster, of which lists are read and no Secret. Several
TARGETs are parts of one cluster, such as the bundles of its machines beside the
live cluster's or its bundle.

A rule whose facts are not there is not evaluated, and says what it needs. Each
finding says what a fault will do, for how long, and which drill proves it.

Exit code 0: nothing found that counts. 1: something was. 2: part of what was
given could not be read, or wrong usage.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.demo {
				return o.showDemo(cmd, args)
			}
			if o.live {
				return errors.New("check --live: is for --lab-demo; a live cluster is read with --kubeconfig")
			}
			return o.run(cmd, args)
		},
	}
	o.bindTarget(cmd)
	o.bindReport(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&o.only, "rule", nil, "evaluate only these rules or groups")
	f.StringArrayVar(&o.clients, "client", nil, "kubeconfig of a client to look at as well; may be repeated")
	f.BoolVar(&o.demo, "lab-demo", false, "show every rule on a small cluster with its mistake, and on the healthy twin; takes no TARGET, only --json, --rule and --live")
	f.BoolVar(&o.live, "live", false, "with --lab-demo: make each mistake on a cluster that runs here, in namespaces; wants root and `make peers`, and takes minutes")
	cmd.AddCommand(explainCommand(), collectCommand(), pathCommand(), clientsCommand(), timersCommand(), maintenanceCommand())
	return cmd
}

// bindTarget adds the flags that say what is read beside an argument.
func (o *options) bindTarget(cmd *cobra.Command) {
	o.cluster.bind(cmd.Flags())
	o.etcd.bind(cmd.Flags())
	cmd.Flags().BoolVar(&o.node, "node", false, "read this machine's own files; TARGET is then the root of its file system (default /)")
}

// bindReport adds the flags of every command that prints a report.
func (o *options) bindReport(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "text", "output: "+strings.Join(format.Names(), ", "))
	f.BoolVar(&o.json, "json", false, "short for --format json")
	f.StringVarP(&o.out, "output", "o", "", "write to this file, not to standard output")
	f.StringVar(&o.failOn, "fail-on", "warning", "least severity of a finding that makes the check fail: note, warning or error")
	f.StringVar(&o.baseline, "baseline", "", "a report written with --json; what it has is known and does not count")
	f.StringVar(&o.suppressions, "suppressions", "", "file of findings that do not count, each with a reason and a last day")
}

func (o *options) run(cmd *cobra.Command, args []string) error {
	if o.json {
		o.format = "json"
	}
	write, err := format.For(o.format)
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	settings, err := o.audit()
	if err != nil {
		return err
	}
	settings.Partial = len(o.only) > 0
	facts, err := o.read(cmd.Context(), args)
	if err != nil {
		return err
	}
	if err := source.AddKubeconfigs(facts, o.clients, source.DefaultLimits()); err != nil {
		return err
	}
	report := audit.Evaluate(chosen, facts, settings)
	if err := o.print(cmd.OutOrStdout(), write, report); err != nil {
		return err
	}
	return verdict(report)
}

// verdict is the error whose code says what came of the audit.
func verdict(r *audit.Report) error {
	code := r.Code()
	switch {
	case code == exit.Good:
		return nil
	case len(r.Problems) > 0:
		return exit.With(code, fmt.Errorf("check: could not tell: %d things could not be read, such as %s: %s", len(r.Problems), r.Problems[0].Where, r.Problems[0].What))
	case code == exit.Unknown:
		return exit.With(code, errors.New("check: could not tell: no rule had the facts it needs; is this the right target?"))
	}
	return exit.With(code, fmt.Errorf("check: %s", format.Summary(r)))
}

// showDemo refuses what would have no meaning beside --lab-demo.
func (o *options) showDemo(cmd *cobra.Command, args []string) error {
	var other string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"lab-demo", "live", "rule", "json"}, f.Name) {
			other = "--" + f.Name
		}
	})
	if len(args) > 0 {
		other = args[0]
	}
	if other != "" {
		return fmt.Errorf("check --lab-demo: %s: takes neither a target nor other flags than --json, --rule and --live", other)
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	return labDemo(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), chosen, o.live, o.json)
}

func (o *options) audit() (s audit.Options, err error) {
	s.Now = time.Now()
	if s.FailOn, err = rule.ParseSeverity(o.failOn); err != nil {
		return s, fmt.Errorf("--fail-on: %w", err)
	}
	const most = 64 << 20
	if o.baseline != "" {
		data, err := file.Read(o.baseline, most)
		if err != nil {
			return s, fmt.Errorf("--baseline: %w", err)
		}
		if s.Baseline, err = audit.ReadBaseline(data, o.baseline); err != nil {
			return s, err
		}
	}
	if o.suppressions != "" {
		data, err := file.Read(o.suppressions, most)
		if err != nil {
			return s, fmt.Errorf("--suppressions: %w", err)
		}
		if s.Suppressions, err = audit.ReadSuppressions(bytes.NewReader(data), o.suppressions); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (o *options) read(ctx context.Context, args []string) (*fact.Facts, error) {
	switch {
	case o.cluster.given() && o.node:
		return nil, errors.New("check: --node: reads this machine alone; beside a live cluster give bundles of machines: holdfast check collect --node -o NODE.tgz")
	case o.cluster.given():
		return o.cluster.facts(ctx, o.etcd, args)
	case o.etcd.given() && !o.node:
		return nil, errors.New("check: --etcd-endpoints: asks living members, and TARGET is a recording; give --kubeconfig or --node")
	case o.node && len(args) > 1:
		return nil, fmt.Errorf("check: --node %s: one machine has one root; collect the others into bundles", args[1])
	case o.node:
		return nodeFacts(ctx, append(args, "/")[0], o.etcd)
	case len(args) == 0:
		return nil, errors.New("check: no target; name a directory, a file or a bundle, or give --node or --kubeconfig")
	}
	return source.OpenAll(args, source.DefaultLimits())
}

func (o *options) print(w io.Writer, write format.Writer, r *audit.Report) error {
	if o.out == "" {
		return write(w, r)
	}
	var b bytes.Buffer
	if err := write(&b, r); err != nil {
		return err
	}
	if err := os.WriteFile(o.out, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// choose picks rules by identifier or group; all of them by none.
func choose(names []string) ([]rule.Rule, error) {
	all := rules.All()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []rule.Rule
	for _, name := range names {
		before := len(chosen)
		for _, r := range all {
			if strings.EqualFold(r.ID, name) || string(r.Group) == name {
				chosen = append(chosen, r)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("--rule %q: neither a rule nor a group; groups are %v", name, rule.Groups())
		}
	}
	return slices.CompactFunc(chosen, func(a, b rule.Rule) bool { return a.ID == b.ID }), nil
}

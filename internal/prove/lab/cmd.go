package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// command holds the flags that all subcommands share.
type command struct {
	name string
	root string
}

// Command returns `holdfast lab`.
func Command() *cobra.Command {
	c := &command{}
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Build sites on this machine and break the network between them",
		Long: `Build sites on this machine and break the network between them.

Each site is a router with nodes behind it, in network namespaces without a
name; links between sites have delay, rate and loss. etcd runs with one member
per site. Several labs can be up side by side under different names.`,
		Example: `  holdfast lab up
  holdfast lab cut a-b
  holdfast lab status
  holdfast lab exec b1 -- etcdctl endpoint status
  holdfast lab kubectl get nodes
  holdfast lab heal
  holdfast lab down`,
	}
	cmd.PersistentFlags().StringVar(&c.name, "name", "default", "name of the lab")
	cmd.PersistentFlags().StringVar(&c.root, "run-dir", DefaultRoot, "where labs keep their state")
	cmd.AddCommand(c.up(), c.status(), c.exec(), c.kubectl(), c.cut(), c.heal(), c.delay(), c.down(), c.supervise())
	return cmd
}

// upFlags are the choices of `lab up`.
type upFlags struct {
	preset, spec, peer string
	clusters           []string
	disk, foreground   bool
	apiservers         bool
	kubernetes         bool
	json               bool
}

func (c *command) up() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a lab and leave it running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := c.buildSpec(f)
			if err != nil {
				return exit.With(exit.Unknown, err)
			}
			if err := spec.Preflight(); err != nil {
				return exit.With(exit.Unknown, err)
			}
			dir, err := claim(cmd.Context(), c.root, spec.Name)
			if err != nil {
				return exit.With(exit.Unknown, err)
			}
			if f.foreground {
				log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
				return supervise(cmd.Context(), dir, spec, log, func() {
					_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "lab %s is up; interrupt to end it\n", spec.Name)
				})
			}
			argv, err := c.superviseArgv(cmd, spec.Name)
			if err == nil {
				err = detach(cmd.Context(), argv, dir, spec)
			}
			if err != nil {
				return errors.Join(err, os.RemoveAll(dir))
			}
			return c.printStatus(cmd.Context(), cmd.OutOrStdout(), f.json)
		},
	}
	cmd.Flags().StringVar(&f.preset, "preset", "rtt", "delays of the default sites: "+strings.Join(Presets(), ", "))
	cmd.Flags().StringVar(&f.spec, "spec", "", "YAML file with sites, links and clusters, instead of a preset")
	cmd.Flags().StringVar(&f.peer, "etcd", "", "etcd to run: 3.5, 3.6 or 3.7 (default: holdfastd beside this program)")
	cmd.Flags().StringSliceVar(&f.clusters, "cluster", nil, "names of the etcd clusters; \"none\" for no etcd (default main)")
	cmd.Flags().BoolVar(&f.apiservers, "apiservers", false, "start a kube-apiserver in every site, on that site's etcd member")
	cmd.Flags().BoolVar(&f.kubernetes, "kubernetes", false, "make every node one of a Kubernetes cluster (implies --apiservers)")
	cmd.Flags().BoolVar(&f.disk, "disk", false, "keep etcd's data on disk, not in memory")
	cmd.Flags().BoolVar(&f.foreground, "foreground", false, "stay attached and end the lab on interrupt")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON document")
	return cmd
}

// buildSpec turns flags into a spec that has been checked.
func (c *command) buildSpec(f upFlags) (Spec, error) {
	spec, err := Default(f.preset)
	if err != nil {
		return Spec{}, err
	}
	if f.spec != "" {
		spec = Spec{}
		if err := config.Load(f.spec, &spec); err != nil {
			return Spec{}, err
		}
	}
	spec.Name = c.name
	if f.peer != "" {
		spec.Peer = f.peer
	}
	spec.Disk = spec.Disk || f.disk
	spec.APIServers = spec.APIServers || f.apiservers
	spec.Kubernetes = spec.Kubernetes || f.kubernetes
	if len(f.clusters) > 0 {
		spec.Etcd = nil
		for _, name := range f.clusters {
			if name != "none" {
				spec.Etcd = append(spec.Etcd, Cluster{Name: name})
			}
		}
	}
	return spec.complete()
}

// superviseArgv is this program with the hidden sibling of cmd.
func (c *command) superviseArgv(cmd *cobra.Command, name string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	argv := append([]string{self}, strings.Fields(cmd.Parent().CommandPath())[1:]...)
	return append(argv, "supervise", "--run-dir", c.root, "--name", name), nil
}

func (c *command) supervise() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise",
		Short:  "Own a lab; started by lab up",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var spec Spec
			if err := json.NewDecoder(cmd.InOrStdin()).Decode(&spec); err != nil {
				return fmt.Errorf("read spec from standard input: %w: this command is for lab up", err)
			}
			return superviseDetached(cmd.Context(), c.dir(), spec, cmd.ErrOrStderr())
		},
	}
}

func (c *command) dir() string { return c.root + "/" + c.name }

// reach returns the running lab's supervisor.
func (c *command) reach() (*remote, error) {
	s, err := readState(c.root, c.name)
	if err != nil {
		return nil, exit.With(exit.Unknown, err)
	}
	if !s.alive() {
		return nil, exit.With(exit.Failed, crashed(c.name))
	}
	return newRemote(c.root, c.name), nil
}

// change sends a change to the lab. A fault that did not take effect is a
// failed check; anything else is wrong usage.
func (c *command) change(ctx context.Context, path string, in any) error {
	r, err := c.reach()
	if err != nil {
		return err
	}
	err = r.call(ctx, http.MethodPost, path, in, nil)
	if errors.Is(err, ErrNotInForce) {
		return exit.With(exit.Failed, err)
	}
	return exit.With(exit.Unknown, err)
}

func (c *command) status() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Measure and show sites, links, cuts, reachability and members",
		Long: `Measure and show sites, links, cuts, reachability and members.

Exit code 1 says that the measured reachability is not the declared one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.printStatus(cmd.Context(), cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func (c *command) printStatus(ctx context.Context, out io.Writer, asJSON bool) error {
	r, err := c.reach()
	if err != nil {
		return err
	}
	var report Report
	if err := r.call(ctx, http.MethodGet, pathStatus, nil, &report); err != nil {
		return exit.With(exit.Unknown, err)
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		err = writeReport(out, report)
	}
	if err == nil && len(report.Mismatches) > 0 {
		err = exit.With(exit.Failed, fmt.Errorf("reachability is not as declared: %s%s", report.Mismatches[0], more(len(report.Mismatches)-1)))
	}
	return err
}

func (c *command) exec() *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use:   "exec NODE -- COMMAND [ARG]…",
		Short: "Run a command in a node, with ETCDCTL_* and KUBECONFIG set for its servers",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			node, argv := args[0], args[1:]
			if argv[0] == "--" {
				argv = argv[1:]
			}
			if len(argv) == 0 {
				return exit.With(exit.Unknown, fmt.Errorf("no command given for node %s: write it after --", node))
			}
			s, err := readState(c.root, c.name)
			if err == nil {
				err = execIn(s, node, cluster, argv)
			}
			return exit.With(exit.Unknown, err)
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "etcd cluster that ETCDCTL_* names (default: the first)")
	// Flags after NODE belong to the command.
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// cutFlags say what a cut takes.
type cutFlags struct {
	name                        string
	oneWay, onlyNew, onlyOld    bool
	tcp, udp, vxlan, reset, icm bool
	ports                       []uint
}

func (c *command) cut() *cobra.Command {
	var f cutFlags
	cmd := &cobra.Command{
		Use:   "cut WHERE…",
		Short: "Cut sites or nodes from one another, and verify it",
		Long: `Cut sites or nodes from one another, and verify it.

WHERE is a-b (both ways), 'a>b' or a->b (packets from a to b), a (isolate a),
or 'a>' (what a sends). Ends are sites or nodes. The command returns when the
measured reachability is the declared one; exit code 1 says that it is not.`,
		Example: `  holdfast lab cut a-b
  holdfast lab cut 'a>b' --new --tcp --reject
  holdfast lab cut a-b --port 2380 --name peers`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cuts, err := f.cuts(args)
			if err != nil {
				return exit.With(exit.Unknown, err)
			}
			return c.change(cmd.Context(), pathCut, cuts)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.name, "as", "", "name of the cut for heal (default: the cut in words)")
	fl.BoolVar(&f.oneWay, "one-way", false, "take only packets from the first end to the second")
	fl.BoolVar(&f.onlyNew, "new", false, "take only connections opened from now on")
	fl.BoolVar(&f.onlyOld, "established", false, "take only connections that exist now")
	fl.BoolVar(&f.tcp, "tcp", false, "take only TCP")
	fl.BoolVar(&f.udp, "udp", false, "take only UDP")
	fl.BoolVar(&f.vxlan, "vxlan", false, "take only VXLAN (UDP to port 4789)")
	fl.UintSliceVar(&f.ports, "port", nil, "take only these ports, of either end")
	fl.BoolVar(&f.reset, "reject", false, "answer TCP with a reset and drop the rest")
	fl.BoolVar(&f.icm, "icmp", false, "answer with an ICMP error")
	cmd.MarkFlagsMutuallyExclusive("new", "established")
	cmd.MarkFlagsMutuallyExclusive("tcp", "udp", "vxlan")
	cmd.MarkFlagsMutuallyExclusive("reject", "icmp")
	return cmd
}

// cuts reads the arguments; --as with several gets numbers.
func (f cutFlags) cuts(args []string) ([]Cut, error) {
	var cuts []Cut
	for i, arg := range args {
		cut, err := ParseCut(arg)
		if err != nil {
			return nil, err
		}
		cut.OneWay = cut.OneWay || f.oneWay
		cut.State = pick(StateAll, map[CutState]bool{StateNew: f.onlyNew, StateEstablished: f.onlyOld})
		cut.Proto = pick(ProtoAll, map[CutProto]bool{ProtoTCP: f.tcp, ProtoUDP: f.udp, ProtoVXLAN: f.vxlan})
		cut.Action = pick(ActionDrop, map[CutAction]bool{ActionReset: f.reset, ActionICMP: f.icm})
		for _, p := range f.ports {
			if p == 0 || p > 65535 {
				return nil, fmt.Errorf("port %d does not exist: use 1 to 65535", p)
			}
			cut.Ports = append(cut.Ports, uint16(p))
		}
		cut.Name = f.name
		if f.name != "" && len(args) > 1 {
			cut.Name = fmt.Sprintf("%s-%d", f.name, i+1)
		}
		cuts = append(cuts, cut)
	}
	return cuts, nil
}

// pick returns the value whose flag is given, or the default.
func pick[T comparable](otherwise T, flags map[T]bool) T {
	for v, given := range flags {
		if given {
			return v
		}
	}
	return otherwise
}

func (c *command) heal() *cobra.Command {
	return &cobra.Command{
		Use:   "heal [NAME]…",
		Short: "End the named cuts, or all of them",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd.Context(), pathHeal, args)
		},
	}
}

func (c *command) delay() *cobra.Command {
	var jitter time.Duration
	var rate, loss string
	cmd := &cobra.Command{
		Use:   "delay A-B DELAY",
		Short: "Change the delay, one way, of a link; and with flags the rest of it",
		Example: `  holdfast lab delay a-c 40ms
  holdfast lab delay a-b 15ms --rate 10Mbit --loss 20%`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.reach()
			if err != nil {
				return err
			}
			var links []Link
			if err := r.call(cmd.Context(), http.MethodGet, pathLinks, nil, &links); err != nil {
				return exit.With(exit.Unknown, err)
			}
			link, err := findLink(links, args[0])
			if err == nil {
				link.Delay, err = parseDelay(args[1])
			}
			if err == nil && cmd.Flags().Changed("jitter") {
				link.Jitter = jitter
			}
			if err == nil && rate != "" {
				link.Rate, err = parseRate(rate)
			}
			if err == nil && loss != "" {
				link.Loss, err = parseLoss(loss)
			}
			if err != nil {
				return exit.With(exit.Unknown, err)
			}
			return c.change(cmd.Context(), pathDelay, link)
		},
	}
	cmd.Flags().DurationVar(&jitter, "jitter", 0, "most that chance adds to the delay")
	cmd.Flags().StringVar(&rate, "rate", "", "rate, as in 100Mbit; 0 for no limit")
	cmd.Flags().StringVar(&loss, "loss", "", "share of packets lost, as in 20%")
	return cmd
}

func (c *command) down() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End a lab, also one that has crashed, and leave nothing of it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return exit.With(exit.Unknown, errors.New("a lab belongs to root: run this as root"))
			}
			was, err := takeDown(cmd.Context(), c.root, c.name)
			if err == nil && !was {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "lab %s is not up\n", c.name)
			}
			return exit.With(exit.Unknown, err)
		},
	}
}

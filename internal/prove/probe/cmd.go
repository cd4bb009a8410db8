package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// envPrefix starts the environment variable of every flag: HOLDFAST_PROBE_INTERVAL.
const envPrefix = "HOLDFAST_PROBE"

// command is `holdfast probe` with the outside world as fields.
type command struct {
	out, err io.Writer

	answer    string // where to answer probes, "" sends them
	name      string
	config    string
	settled   Config
	modes     []string
	expect    string
	noControl bool
	ndjson    string
	json      bool
	once      bool
	duration  time.Duration
	maxOutage time.Duration
}

// Command returns `holdfast probe`.
func Command() *cobra.Command { return (&command{}).cobra() }

func (c *command) cobra() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe TARGET…",
		Short: "Sample paths from where a client stands and bracket every outage",
		Long: `Sample paths to targets on an open-loop clock and bracket every outage.

A TARGET is https://…, http://…, tcp://HOST:PORT[?kind=connect|echo], udp://HOST:PORT,
etcd://HOST:PORT[?kind=put|get|serializable|watch|write] (TLS), etcd+insecure://…
(plain) or route://ADDRESS, the next hops that this machine's kernel has for it.
Each combination of target, kind and mode is a path of its own.

Exit code: 0 good; 1 with --once when a path failed, or with --max-outage when
an outage lasted longer; 2 for wrong usage and for a prober too starved to tell.`,
		Example: `  holdfast probe --once https://10.0.0.1:6443/readyz --cacert ca.crt
  holdfast probe 'etcd://10.0.0.1:2379?kind=put,get' --cacert ca.crt --cert c.crt --key c.key
  holdfast probe route://203.0.113.10 tcp://203.0.113.10:443 --mode new
  holdfast probe --config probe.yaml --ndjson samples.ndjson --duration 1m --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.out, c.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if c.answer != "" {
				return answerAs(cmd.Context(), c.answer, c.name)
			}
			cfg, err := c.settings(cmd, args)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), cfg)
		},
	}
	c.bind(cmd.Flags())
	return cmd
}

func (c *command) bind(f *pflag.FlagSet) {
	f.StringVar(&c.answer, "answer", "", "send nothing, and answer udp:// and echo at this `address` (such as :7070), over UDP and TCP")
	f.StringVar(&c.name, "name", "", "with --answer: name to answer with (default: the host's)")
	f.StringVar(&c.config, "config", "", "YAML `file` with targets and settings, instead of TARGET arguments")
	f.StringSliceVar(&c.modes, "mode", nil, "modes: new, reused, stream (default new,reused; a watch: stream)")
	f.DurationVar(&c.settled.Interval, "interval", DefaultInterval, "time from one sample of a path to the next")
	f.DurationVar(&c.settled.Timeout, "timeout", 0, "time after which a sample has failed (default by kind: 1s, etcd 2s)")
	f.DurationVar(&c.settled.Slow, "slow", DefaultSlow, "latency beyond which a good sample counts as slow")
	f.IntVar(&c.settled.Stable, "stable", DefaultStable, "good samples in a row that make a recovery")
	f.StringVar(&c.settled.Prefix, "prefix", DefaultPrefix, "etcd prefix under which put paths keep one key each")
	f.StringVar(&c.expect, "expect", "", "good HTTP codes: 200-399, 200,401, any (default 200-399)")
	f.StringVar(&c.settled.TLS.CA, "cacert", "", "PEM `file` of the CA that signed the servers")
	f.StringVar(&c.settled.TLS.Cert, "cert", "", "PEM `file` of the client certificate")
	f.StringVar(&c.settled.TLS.Key, "key", "", "PEM `file` of the client's key")
	f.StringVar(&c.settled.TLS.ServerName, "server-name", "", "name to verify in server certificates (default: the host)")
	f.BoolVar(&c.settled.TLS.InsecureSkipVerify, "insecure-skip-verify", false, "accept any server certificate")
	f.BoolVar(&c.noControl, "no-control", false, "leave out the path to the prober's own loopback")
	f.StringVar(&c.ndjson, "ndjson", "", "write every sample as a line of JSON to `file`, or - for stdout")
	f.BoolVar(&c.json, "json", false, "print the summary as one JSON document")
	f.BoolVar(&c.once, "once", false, "one sample per path, then exit 0 if all are good, else 1")
	f.DurationVar(&c.duration, "duration", 0, "how long to sample (default: until SIGINT or SIGTERM)")
	f.DurationVar(&c.maxOutage, "max-outage", 0, "exit 1 when an outage lasted longer for certain (default: only measure)")
}

// settings makes a Config of the file, the environment, the flags and the
// arguments, the later over the earlier.
func (c *command) settings(cmd *cobra.Command, args []string) (*Config, error) {
	if err := config.Bind(cmd, envPrefix); err != nil {
		return nil, err
	}
	if c.config != "" && len(args) > 0 {
		return nil, fmt.Errorf("TARGET %q: given beside --config; add it to %s or leave out --config", args[0], c.config)
	}
	if c.config != "" && (len(c.modes) > 0 || c.expect != "") {
		return nil, fmt.Errorf("--mode, --expect: given beside --config; set modes and expect of the targets in %s", c.config)
	}
	if err := config.Layer(cmd, envPrefix, &c.config, &c.settled); err != nil {
		return nil, err
	}
	cfg := &c.settled
	cfg.Control.Off = cfg.Control.Off || c.noControl
	for _, t := range c.targets(args) {
		for _, m := range c.modes {
			t.Modes = append(t.Modes, Mode(m))
		}
		t.Expect = c.expect
		cfg.Targets = append(cfg.Targets, t)
	}
	return cfg, nil
}

// targets turns arguments into targets; arguments that differ only in their
// kind are one.
func (c *command) targets(args []string) []Target {
	var targets []Target
	for _, arg := range args {
		name, query, _ := strings.Cut(arg, "?")
		if strings.HasPrefix(arg, "http") {
			name, query = arg, ""
		}
		name = strings.TrimRight(name, "/")
		i := slices.IndexFunc(targets, func(t Target) bool { return t.Name == name })
		if i >= 0 && query != "" && strings.Contains(targets[i].URL, "?") {
			targets[i].URL += "&" + query
			continue
		}
		targets = append(targets, Target{Name: name, URL: arg})
	}
	return targets
}

// checkOutput refuses what cannot share stdout, before anything is measured.
func (c *command) checkOutput() error {
	if c.json && c.ndjson == "-" {
		return errors.New("--ndjson -: stdout already takes the document of --json; give --ndjson a file")
	}
	return nil
}

// openSamples opens where --ndjson points; the second result closes it.
func (c *command) openSamples() (*Writer, func() error, error) {
	keep := func() error { return nil }
	switch c.ndjson {
	case "":
		return NewWriter(io.Discard), keep, nil
	case "-":
		return NewWriter(c.out), keep, nil
	}
	f, err := os.Create(c.ndjson)
	if err != nil {
		return nil, nil, fmt.Errorf("open --ndjson file: %w", err)
	}
	return NewWriter(f), f.Close, nil
}

// failed marks a finding, as opposed to a prober that could not tell.
func failed(format string, args ...any) error {
	return exit.With(exit.Failed, fmt.Errorf(format, args...))
}

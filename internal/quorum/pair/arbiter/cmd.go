package arbiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
	member "github.com/holdfast-ha/holdfast/internal/quorum/etcd"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/server"
)

const (
	// envPrefix is before the name of every flag in the environment.
	envPrefix = "HOLDFAST_PAIR"
	// askTimeout bounds one question by hand, testTimeout a test of many.
	askTimeout  = 10 * time.Second
	testTimeout = 5 * time.Minute
)

// Command is `holdfast pair arbiter`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "arbiter",
		Short: "Serve, test and show the record that decides which member may serve alone",
	}
	cmd.AddCommand(serveCommand(), testCommand(), showCommand(), restoreCommand())
	return cmd
}

func serveCommand() *cobra.Command {
	s, path := server.DefaultSettings(), ""
	cmd := &cobra.Command{
		Use: "serve", Args: cobra.NoArgs,
		Short: "Be an arbiter: keep records in a directory, for pairs of members elsewhere",
		Long: "Keeps small objects in a directory, read by GET and replaced by PUT with If-Match or\n" +
			"If-None-Match. It belongs on a third machine, in neither of the two sites.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Layer(cmd, envPrefix+"_ARBITER", &path, &s); err != nil {
				return err
			}
			if err := s.Check(); err != nil {
				return err
			}
			return server.Run(cmd.Context(), cmd.ErrOrStderr(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&path, "config", "", "settings file (YAML); see docs/guide/arbiter.md")
	f.StringVar(&s.Listen, "listen", s.Listen, "HOST:PORT to serve at")
	f.StringVar(&s.Dir, "dir", s.Dir, "directory of the objects; made if it is not there")
	f.StringVar(&s.CertFile, "cert-file", "", "certificate of the server")
	f.StringVar(&s.KeyFile, "key-file", "", "its key")
	f.StringVar(&s.ClientCAFile, "client-ca-file", "", "CA of clients, which then must show a certificate")
	f.StringVar(&s.TokenFile, "token-file", "", "file with the tokens that may come, one a line")
	s.Log.AddFlags(f)
	return cmd
}

// asked is what the other commands have in common.
type asked struct {
	path string
	// The file is that of `holdfast pair run`, of which only one part matters here.
	file struct {
		Arbiter Settings             `yaml:"arbiter"`
		Rest    map[string]yaml.Node `yaml:",inline"`
	}
	asJSON bool
}

func (a *asked) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.path, "config", "", "settings file of `holdfast pair run`, of which the part arbiter is read")
	f.BoolVar(&a.asJSON, "json", false, "print one JSON document")
	a.file.Arbiter.AddFlags(f)
}

func (a *asked) open(cmd *cobra.Command) (Store, error) {
	if err := config.Layer(cmd, envPrefix, &a.path, &a.file); err != nil {
		return nil, err
	}
	return Open(a.file.Arbiter)
}

func showCommand() *cobra.Command {
	var a asked
	cmd := &cobra.Command{
		Use: "show", Args: cobra.NoArgs,
		Short: "Show the record; changes nothing",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			ctx, cancel := context.WithTimeout(cmd.Context(), askTimeout)
			defer cancel()
			shown := Shown{Version: 1, Arbiter: s.Name()}
			held, err := NewClient(s, "", Record{}, func(Record) error { return nil }).Read(ctx)
			switch {
			case err == nil:
				shown.Record = &held.Record
			case !errors.Is(err, ErrAbsent):
				return err
			}
			if err := daemon.Show(cmd.OutOrStdout(), shown, a.asJSON, Shown.print); err != nil {
				return err
			}
			return exit.With(exit.Failed, err)
		},
	}
	a.bind(cmd)
	return cmd
}

func testCommand() *cobra.Command {
	var a asked
	var endpoint string
	var files creds.Files
	rounds := RoundsByHand
	cmd := &cobra.Command{
		Use: "test", Args: cobra.NoArgs,
		Short: "Find out whether a place can be an arbiter, by a race for an object beside the record",
		Long: "Sends 16 changes of one version at once, of which exactly one may succeed, many times\n" +
			"over; then changes that must lose. With --endpoint it also watches the pair's etcd for\n" +
			"what it writes to the arbiter, which must not rest on what it is to decide about.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			if rounds < 2 || rounds > 10000 {
				return fmt.Errorf("--rounds %d: write a number from 2 to 10000", rounds)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), testTimeout)
			defer cancel()
			tested, err := tryOut(ctx, s, rounds, endpoint, files)
			if err != nil && !errors.Is(err, ErrUnfit) {
				return fmt.Errorf("could not tell: %w", err)
			}
			if shown := daemon.Show(cmd.OutOrStdout(), tested, a.asJSON, Tested.print); shown != nil {
				return shown
			}
			return exit.With(exit.Failed, err)
		},
	}
	a.bind(cmd)
	f := cmd.Flags()
	f.IntVar(&rounds, "rounds", rounds, "how many races to hold")
	f.StringVar(&endpoint, "endpoint", "", "client URL of a member of the pair, to find out if the arbiter rests on it")
	f.StringVar(&files.CA, "ca", "", "CA of that client port")
	f.StringVar(&files.Cert, "cert", "", "client certificate for it, of a user who may read everything")
	f.StringVar(&files.Key, "key", "", "key of that certificate")
	return cmd
}

// tryOut holds the race and looks where the store rests.
func tryOut(ctx context.Context, s Store, rounds int, endpoint string, files creds.Files) (Tested, error) {
	t := Tested{Version: 1, Arbiter: s.Name()}
	var err error
	t.Trial, err = Race(ctx, s, rounds)
	t.SlowestMS = float64(t.Slowest.Microseconds()) / 1000
	if err == nil && endpoint != "" {
		err = elsewhere(ctx, s, endpoint, files)
		if known := err == nil || errors.Is(err, ErrUnfit); known {
			good := err == nil
			t.Elsewhere = &good
		}
	}
	t.Fit = err == nil
	if err != nil {
		t.Why = err.Error()
	}
	return t, err
}

func elsewhere(ctx context.Context, s Store, endpoint string, files creds.Files) error {
	m, err := member.Dial(endpoint, member.Access{TLS: files})
	if err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	defer func() { _ = m.Close() }() // nothing is lost with it
	c, err := m.Client(ctx)
	if err != nil {
		return err
	}
	return Rests(ctx, s, c)
}

func restoreCommand() *cobra.Command {
	var a asked
	stateDir, generation := "/var/lib/holdfast/pair", uint64(0)
	cmd := &cobra.Command{
		Use: "restore", Args: cobra.NoArgs,
		Short: "Put the newest record back into an arbiter that has lost it",
		Long: "After an arbiter was restored from a backup, or lost its record, the agents refuse it: they\n" +
			"have seen a newer one. This writes that one again, under the next generation. Run it at the\n" +
			"site whose `holdfast pair status` shows the higher generation, and give that number: an\n" +
			"older record may cost writes that the survivor acknowledged alone.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			if stateDir == "" {
				return errors.New("--state-dir is empty: name the directory that the agent of this site has")
			}
			seen, err := ReadSeen(stateDir)
			if err != nil {
				return err
			}
			if generation != seen.Generation {
				return fmt.Errorf("--generation %d: this site saw generation %d (%s) last; give --generation %d if the other site saw no higher one", generation, seen.Generation, seen.Words(), seen.Generation)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), askTimeout)
			defer cancel()
			now, err := Restore(ctx, s, seen, person())
			if err != nil {
				return err
			}
			return daemon.Show(cmd.OutOrStdout(), Shown{Version: 1, Arbiter: s.Name(), Record: &now}, a.asJSON, Shown.print)
		},
	}
	a.bind(cmd)
	cmd.Flags().StringVar(&stateDir, "state-dir", stateDir, "state directory of the agent at this site")
	cmd.Flags().Uint64Var(&generation, "generation", 0, "the highest generation that either site saw")
	return cmd
}

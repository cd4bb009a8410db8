package pair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// personTimeout bounds what a person waits for the arbiter.
const personTimeout = 10 * time.Second

// claimCommand is `holdfast pair claim`: a person decides.
func claimCommand() *cobra.Command {
	accept := false
	cmd := personCommand("claim", "Let this member serve alone until `pair release`",
		"From a pair that is well this costs no outage: leadership moves here and the other member leaves.\n"+
			"Where the other member serves alone and is lost for good, --accept-data-loss lets this one serve with\n"+
			"the data it has. What the other acknowledged since it served alone is lost then.",
		func(was arbiter.Record, self string) (arbiter.Record, string, error) {
			return claimed(was, self, accept)
		})
	cmd.Flags().BoolVar(&accept, "accept-data-loss", false, "serve although the other member has newer data; it is lost")
	return cmd
}

// releaseCommand is `holdfast pair release`.
func releaseCommand() *cobra.Command {
	return personCommand("release", "End what `pair claim` began: the other member is taken back", "",
		func(was arbiter.Record, _ string) (arbiter.Record, string, error) { return released(was) })
}

// claimed is the record by which self serves alone, and what that means.
func claimed(was arbiter.Record, self string, accept bool) (arbiter.Record, string, error) {
	next := was
	next.State, next.Survivor, next.Held, next.Forced = arbiter.Solo, self, true, false
	switch {
	case !was.Has(self):
		return next, "", fmt.Errorf("name %q is not one of the two members %q and %q of the record; give --name", self, was.Members[0].Name, was.Members[1].Name)
	case was.SoloOf(self) && was.Held:
		return next, "", fmt.Errorf("%s is claimed already, generation %d", self, was.Generation)
	case was.State == arbiter.Paired, was.SoloOf(self):
		return next, fmt.Sprintf("%s is to serve alone, until holdfast pair release; %s leaves", self, was.Peer(self).Name), nil
	case !accept:
		return next, "", exit.With(1, fmt.Errorf("%[1]s serves alone since %[2]s (generation %[3]d), and every write since then is at %[1]s only; if %[1]s is lost for good, holdfast pair claim --accept-data-loss gives these writes up",
			was.Survivor, since(was).Format(time.RFC3339), was.Generation))
	}
	next.Forced, next.Since = true, time.Time{}
	return next, fmt.Sprintf("%s is to serve with the data it has; every write that %s acknowledged since %s (generation %d) is given up. If %s comes back, its data is moved aside, not deleted",
		self, was.Survivor, since(was).Format(time.RFC3339), was.Generation, was.Survivor), nil
}

// since is when the survivor of a record began to serve alone.
func since(r arbiter.Record) time.Time {
	if r.Since.IsZero() {
		return r.Time
	}
	return r.Since
}

// released is the record that takes the other member back.
func released(was arbiter.Record) (arbiter.Record, string, error) {
	if was.State == arbiter.Paired || !was.Held {
		return was, "", exit.With(1, fmt.Errorf("nothing is claimed by a person: the record says %s", describe(was)))
	}
	next := was
	next.Held, next.Forced = false, false
	return next, fmt.Sprintf("%s takes %s back as soon as it is there", was.Survivor, was.Peer(was.Survivor).Name), nil
}

// personCommand changes the record as a person wants it. The agents do the rest.
func personCommand(use, short, long string, change func(was arbiter.Record, self string) (arbiter.Record, string, error)) *cobra.Command {
	s, path, agent, asJSON := defaultSettings(), "", defaultTelemetry, false
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Layer(cmd, envPrefix, &path, &s); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), personTimeout)
			defer cancel()
			if s.Name == "" {
				status, err := fetchStatus(ctx, agent)
				if err != nil {
					return fmt.Errorf("name: not given, and no agent to ask: %w", err)
				}
				s.Name = status.Name
			}
			return person(ctx, cmd.OutOrStdout(), s, asJSON, change)
		},
	}
	bindPersonFlags(cmd, &s, &path)
	cmd.Flags().StringVar(&agent, "agent", agent, "telemetry address of the agent, asked for the name")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// personDocument is what claim and release print with --json.
type personDocument struct {
	Version int            `json:"version"`
	Was     arbiter.Record `json:"was"`
	Record  arbiter.Record `json:"record"`
	Meaning string         `json:"meaning"`
}

func person(ctx context.Context, w io.Writer, s Settings, asJSON bool, change func(arbiter.Record, string) (arbiter.Record, string, error)) error {
	if s.Arbiter.URL == "" {
		return errors.New("arbiter.url: not set; give --config or --arbiter")
	}
	seen, err := readSeen(s.StateDir)
	if err != nil {
		return err
	}
	store, err := arbiter.Open(s.Arbiter)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	// What is seen here is for the agent to keep; it reads within seconds.
	client := arbiter.NewClient(store, s.Name+" (a person)", seen, func(arbiter.Record) error { return nil })
	was, err := client.Read(ctx)
	if err != nil {
		return err
	}
	next, meaning, err := change(was.Record, s.Name)
	if err != nil {
		return err
	}
	now, err := client.Change(ctx, was, next)
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(personDocument{Version: 1, Was: was.Record, Record: now.Record, Meaning: meaning})
	}
	_, err = fmt.Fprintf(w, "%s.\nThe record says now: %s. holdfast pair status shows what becomes of it.\n", meaning, describe(now.Record))
	return err
}

package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

// Runner describes the command `run` of a program with settings S.
type Runner[S any] struct {
	Short string
	// Env is before the name of every flag in the environment.
	Env string
	// Settings are the defaults.
	Settings S
	// Bind adds the flags of the settings, and that of the file's path.
	Bind func(cmd *cobra.Command, s *S, path *string)
	// Complete checks the settings and fills in what was left out.
	Complete func(s *S) error
	// Run is the program: it ends with ctx.
	Run func(ctx context.Context, stderr io.Writer, s S) error
}

// Command layers file, environment and flags over the defaults, and runs.
func (r Runner[S]) Command() *cobra.Command {
	path := ""
	cmd := &cobra.Command{
		Use:   "run",
		Short: r.Short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Layer(cmd, r.Env, &path, &r.Settings); err != nil {
				return err
			}
			if err := r.Complete(&r.Settings); err != nil {
				return err
			}
			return r.Run(cmd.Context(), cmd.ErrOrStderr(), r.Settings)
		},
	}
	r.Bind(cmd, &r.Settings, &path)
	return cmd
}

// Asker describes the command `status` of a program whose status is S.
type Asker[S any] struct {
	Short, Long string
	// Env is before the name of every flag in the environment.
	Env string
	// Flag says whom to ask, At what it is when it was not given, and Usage what
	// it means.
	Flag, At, Usage string
	Fetch           func(ctx context.Context, at string) (S, error)
	// Print writes the status for people.
	Print func(s S, w io.Writer) error
	// Verdict is the error of the command; nil is none.
	Verdict func(s S) error
}

// Command asks, prints and judges.
func (a Asker[S]) Command() *cobra.Command {
	at, asJSON := a.At, false
	cmd := &cobra.Command{
		Use:   "status",
		Short: a.Short,
		Long:  a.Long,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Bind(cmd, a.Env); err != nil {
				return err
			}
			s, err := a.Fetch(cmd.Context(), at)
			if err != nil {
				return err
			}
			if err := Show(cmd.OutOrStdout(), s, asJSON, a.Print); err != nil {
				return err
			}
			if a.Verdict == nil {
				return nil
			}
			return a.Verdict(s)
		},
	}
	cmd.Flags().StringVar(&at, a.Flag, at, a.Usage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// Show writes a status as one JSON document, or as print does.
func Show[S any](w io.Writer, s S, asJSON bool, print func(S, io.Writer) error) error {
	if !asJSON {
		return print(s, w)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

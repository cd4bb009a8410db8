package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Layer fills the settings struct into, whose fields the flags of cmd are
// bound to, by precedence: what it holds now < the file at *path (skipped when
// that is empty) < environment < flags given on the command line. path may be
// bound to a flag itself, and then comes from the environment as well.
func Layer(cmd *cobra.Command, prefix string, path *string, into any) error {
	if err := Bind(cmd, prefix); err != nil {
		return err
	}
	given := changed(cmd.Flags())
	if *path == "" {
		return nil
	}
	if err := Load(*path, into); err != nil {
		return err
	}
	// The file was read over the flags' variables: put the flags back on top.
	for _, g := range given {
		if err := g.restore(); err != nil {
			return fmt.Errorf("restore flag --%s: %w", g.flag.Name, err)
		}
	}
	return nil
}

// Bind sets every flag of cmd that was not given on the command line from the
// environment: --move-after with prefix HOLDFAST_LEADER is
// HOLDFAST_LEADER_MOVE_AFTER. A flag set this way counts as changed.
func Bind(cmd *cobra.Command, prefix string) error {
	flags := cmd.Flags()
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		if first != nil || f.Changed || f.Name == "help" {
			return
		}
		key := EnvName(prefix, f.Name)
		value := os.Getenv(key)
		if value == "" {
			return
		}
		if err := f.Value.Set(value); err != nil {
			first = fmt.Errorf("environment %s: value %q: %w; %s", key, value, err, envRemedy(f))
			return
		}
		f.Changed = true
	})
	return first
}

// EnvName is the environment variable that stands for a flag.
func EnvName(prefix, flag string) string {
	return prefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func envRemedy(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "write a number with its unit, such as 3s or 500ms"
	case "bool":
		return "write true or false"
	}
	return fmt.Sprintf("write what --%s takes, or unset it", f.Name)
}

// given is a flag as the command line, or an earlier Bind, left it.
type given struct {
	flag  *pflag.Flag
	value string
	items []string // of a list flag, whose Set would append
}

func changed(flags *pflag.FlagSet) []given {
	var all []given
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		g := given{flag: f, value: f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			g.items = slices.Clone(list.GetSlice())
		}
		all = append(all, g)
	})
	return all
}

func (g given) restore() error {
	if list, ok := g.flag.Value.(pflag.SliceValue); ok {
		return list.Replace(g.items)
	}
	return g.flag.Value.Set(g.value)
}

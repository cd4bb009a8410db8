package check

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules"
)

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [RULE]",
		Short: "Say what a rule looks for, why, and what to do; without RULE list all",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listRules(cmd.OutOrStdout())
			}
			chosen, err := choose(args)
			if err != nil {
				return err
			}
			for _, r := range chosen {
				if err := explain(cmd.OutOrStdout(), r); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func listRules(w io.Writer) error {
	for _, r := range rules.All() {
		if _, err := fmt.Fprintf(w, "%-12s %-8s %-16s %s\n", r.ID, r.Severity, r.Group, r.Title); err != nil {
			return err
		}
	}
	return nil
}

func explain(w io.Writer, r rule.Rule) error {
	_, err := fmt.Fprintf(w, "%s  %s\n\n  %s, group %s\n  needs %s\n\n%s\n\nRemedy: %s.\nProved by: holdfast drill run %s\n",
		r.ID, r.Title, r.Severity, r.Group, needs(r), r.Why, r.Remedy, r.Drill)
	return err
}

// needs says in words which facts a rule cannot do without.
func needs(r rule.Rule) string {
	var parts []string
	if len(r.Needs) > 0 {
		parts = append(parts, kinds(r.Needs, " and "))
	}
	if len(r.OneOf) > 0 {
		parts = append(parts, "one of "+kinds(r.OneOf, ", "))
	}
	return strings.Join(parts, " and ")
}

func kinds(all []fact.Kind, sep string) string {
	var words []string
	for _, k := range all {
		words = append(words, string(k))
	}
	return strings.Join(words, sep)
}

package slices

import (
	"context"
	"errors"
	"fmt"
	stdslices "slices"

	"github.com/spf13/cobra"
	core "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

func forgetCommand() *cobra.Command {
	var r reach
	cmd := &cobra.Command{
		Use:   "forget NODE",
		Short: "Remove the endpoint of a control-plane node that is gone for good",
		Long: "Delete the slices and the Lease of a node that is gone for good. Agents mark the endpoint\n" +
			"of such a node unready, and never delete it. Refused while the node gives a sign of life,\n" +
			"and while clients depend on its endpoint.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("forget: name one node, as holdfast slices status shows it")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := r.keeper(cmd)
			if err != nil {
				return err
			}
			return k.forget(cmd.Context(), args[0])
		},
	}
	r.bind(cmd)
	return cmd
}

func (k *keeper) forget(ctx context.Context, node string) error {
	s, err := k.read(ctx)
	if err != nil {
		return err
	}
	if err := known(&s.view, []string{node}); err != nil {
		return err
	}
	if err := needed(&s, node); err != nil {
		return exit.With(exit.Failed, err)
	}
	switch alive, err := k.moving(ctx, signsOf(&s.view, node)); {
	case err != nil:
		return err
	case alive != "":
		return exit.With(exit.Failed, fmt.Errorf("%s: the node is not gone; nothing was deleted", alive))
	}
	return k.under(ctx, func(ctx context.Context) error {
		now, err := k.read(ctx)
		if err != nil {
			return err
		}
		if err := needed(&now, node); err != nil {
			return exit.With(exit.Failed, err)
		}
		return k.remove(ctx, &now, node)
	})
}

// signsOf are the Leases by which a node would show that it lives.
func signsOf(v *plan.View, node string) map[string][]plan.Lease {
	agent, ok := find(v, plan.Agent, leaseName(node))
	if !ok {
		return nil
	}
	signs := []plan.Lease{agent}
	if identity, ok := find(v, plan.Identity, agent.Identity); ok {
		signs = append(signs, identity)
	}
	return map[string][]plan.Lease{node: signs}
}

// needed is why clients depend on the endpoint of a node: nobody else is ready,
// or nobody else is hinted for a zone that is sent there.
func needed(now *sight, node string) error {
	v := &now.view
	for _, s := range ofNode(v, node) {
		if !s.Ready || !now.serves(s.Family) {
			continue
		}
		others := func(zone string) bool {
			return stdslices.ContainsFunc(v.Slices, func(o plan.Slice) bool {
				return o.Owner == plan.Ours && o.Family == s.Family && o.Ready && o.Node != node && (zone == "" || o.Hinted(zone))
			})
		}
		if !others("") {
			return fmt.Errorf("endpoint %s is the last that is ready: mend or add another first; nothing was deleted", s.Name)
		}
		for _, h := range s.Hints {
			if !others(h) {
				return fmt.Errorf("endpoint %s is ready, and the only one that zone %s is sent to: agents mark it unready and find zone %s another 30 s after its last sign of life; then forget it; nothing was deleted", s.Name, h, h)
			}
		}
	}
	return nil
}

// serves says that the Service has addresses of a family, as far as is known.
func (s *sight) serves(f plan.Family) bool {
	return s.service == nil || len(s.service.Spec.IPFamilies) == 0 || stdslices.Contains(s.service.Spec.IPFamilies, core.IPFamily(f))
}

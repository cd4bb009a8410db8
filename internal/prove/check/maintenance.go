package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/turn"
)

func maintenanceCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "maintenance", Short: "Say whether nodes may go down", Args: cobra.NoArgs}
	cmd.AddCommand(nextCommand())
	return cmd
}

// nextCommand says whose turn it is.
func nextCommand() *cobra.Command {
	var o options
	var t turn.Options
	cmd := &cobra.Command{
		Use:   "next [TARGET...]",
		Short: "Say which node may go down now, and why not the others",
		Long: `Say which node may go down now, and why not the others.

Nodes go down one at a time, the control plane first and the leader of etcd last of
it, then workers, then routers; each only while etcd is whole, no other node is away
or cordoned, every apiserver and agent of the address is ready, no disruption budget
forbids it, and every Service has a ready pod on another node.

--done names the nodes that the work is finished on; ask again after each. The answer
is as old as what was read: a live cluster (--kubeconfig) is the target to ask.

Exit code 0: the node that is named may. 1: none may now. 2: could not tell.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			facts, err := o.read(cmd.Context(), args)
			if err != nil {
				return err
			}
			answer, err := turn.Next(facts, t)
			if err != nil {
				return fmt.Errorf("check maintenance next: %w", err)
			}
			for _, p := range facts.Problems {
				answer.Unknown, answer.Next = append(answer.Unknown, p.Where+": "+p.What), ""
			}
			if err := tellNext(cmd.OutOrStdout(), answer, o.json); err != nil {
				return err
			}
			return whether(answer)
		},
	}
	o.bindTarget(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print one JSON document")
	f.StringSliceVar(&t.Done, "done", nil, "nodes that the work is finished on")
	f.StringSliceVar(&t.Accepted, "accept", nil, "Services, as NAMESPACE/NAME, that may be away meanwhile")
	return cmd
}

func tellNext(w io.Writer, a turn.Answer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(a)
	}
	var b strings.Builder
	switch {
	case a.Next != "":
		fmt.Fprintf(&b, "%s may go down now: drain, reboot, wait for Ready, uncordon; then ask again with --done\n", a.Next)
	case len(a.Nodes) > 0 && !slices.ContainsFunc(a.Nodes, func(n turn.Node) bool { return !n.Done }):
		b.WriteString("no node is left: all are done\n")
	default:
		b.WriteString("no node may go down now\n")
	}
	if !a.AsOf.IsZero() {
		fmt.Fprintf(&b, "  as of %s\n", a.AsOf.UTC().Format(time.RFC3339))
	}
	for _, line := range a.Wait {
		fmt.Fprintf(&b, "  all wait: %s\n", line)
	}
	for _, line := range a.Unknown {
		fmt.Fprintf(&b, "  not known: %s\n", line)
	}
	for _, n := range a.Nodes {
		tellNode(&b, n, n.Name == a.Next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func tellNode(b *strings.Builder, n turn.Node, next bool) {
	state := ""
	switch {
	case next:
		state = ": next"
	case n.Done:
		state = ": done"
	case len(n.Why)+len(n.Unknown) == 0:
		state = ": nothing of its own stands against it"
	}
	fmt.Fprintf(b, "%s (%s)%s\n", n.Name, n.Role, state)
	if n.Done {
		return
	}
	for _, line := range n.Why {
		fmt.Fprintf(b, "  %s\n", line)
	}
	for _, line := range n.Unknown {
		fmt.Fprintf(b, "  not known: %s\n", line)
	}
}

// whether is the error whose code says if a node may go down.
func whether(a turn.Answer) error {
	unknown := len(a.Unknown) > 0
	for _, n := range a.Nodes {
		unknown = unknown || len(n.Unknown) > 0 && !n.Done
	}
	switch {
	case a.Next != "":
		return nil
	case len(a.Nodes) == 0 || unknown && len(a.Wait) == 0:
		return exit.With(exit.Unknown, errors.New("check maintenance next: could not tell; what is missing is named above"))
	}
	return exit.With(exit.Failed, errors.New("check maintenance next: no node may go down now"))
}

package wal

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// Command is `holdfast pair wal`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wal",
		Short: "Make a stopped etcd member the only one of its cluster, without losing a write",
		Long: "Appends to the log of a stopped member the removal of all others, in the next term.\n" +
			"etcd's --force-new-cluster drops the end of the log, and with it writes that were\n" +
			"acknowledged; here all of it is kept. See docs/design/pair.md.",
	}
	cmd.AddCommand(planCommand(), editCommand(), verifyCommand())
	return cmd
}

// asked is what the command line says.
type asked struct {
	dir    Dir
	opts   Options
	asJSON bool
}

func (a *asked) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.dir.Data, "data-dir", "", "the member's directory, as etcd has it")
	f.StringVar(&a.dir.WAL, "wal-dir", "", "where its log is, if etcd has --wal-dir")
	f.BoolVar(&a.asJSON, "json", false, "print one JSON document")
}

func (a *asked) complete() error {
	if a.dir.Data == "" {
		return errors.New("--data-dir is empty: name the directory that etcd has as --data-dir")
	}
	return nil
}

// answer prints a plan, in words by print. A refusal ends with 1: the directory
// was looked at and is not one to edit.
func (a *asked) answer(cmd *cobra.Command, p Plan, err error, print func(Plan, io.Writer) error) error {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return exit.With(exit.Failed, r)
	}
	if err != nil {
		return err
	}
	return daemon.Show(cmd.OutOrStdout(), p, a.asJSON, print)
}

const acceptUsage = "edit a cluster of more than two voters, although the others may have acknowledged writes that never came here"

func planCommand() *cobra.Command {
	var a asked
	cmd := &cobra.Command{
		Use: "plan", Args: cobra.NoArgs,
		Short: "Say what an edit would do; changes nothing",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.complete(); err != nil {
				return err
			}
			p, err := Examine(a.dir, a.opts)
			return a.answer(cmd, p, err, Plan.printPlan)
		},
	}
	a.bind(cmd)
	cmd.Flags().BoolVar(&a.opts.AcceptDataLoss, "accept-data-loss", false, acceptUsage)
	return cmd
}

func editCommand() *cobra.Command {
	var a asked
	fenced := false
	cmd := &cobra.Command{
		Use: "edit", Args: cobra.NoArgs,
		Short: "Remove all other members from the log; may be run again after a crash",
		Long: "Removes all other members from the log of a stopped member.\n\n" +
			"Two members edited apart are two clusters, and what one acknowledges the other never\n" +
			"sees. `holdfast pair run` asks an arbiter first; by hand, nobody is asked but you.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.complete(); err != nil {
				return err
			}
			if !fenced {
				return errors.New("--fenced is missing: say with it that the other members are stopped and will never be started with the data they have")
			}
			p, err := Edit(a.dir, a.opts)
			return a.answer(cmd, p, err, Plan.printEdit)
		},
	}
	a.bind(cmd)
	f := cmd.Flags()
	f.BoolVar(&fenced, "fenced", false, "the other members are stopped and will never be started with the data they have")
	f.BoolVar(&a.opts.AcceptDataLoss, "accept-data-loss", false, acceptUsage)
	return cmd
}

func verifyCommand() *cobra.Command {
	var a asked
	cmd := &cobra.Command{
		Use: "verify", Args: cobra.NoArgs,
		Short: "Check that the log is whole and say who its members are; changes nothing",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.complete(); err != nil {
				return err
			}
			p, err := Verify(a.dir)
			return a.answer(cmd, p, err, Plan.printVerify)
		},
	}
	a.bind(cmd)
	return cmd
}

// printState is what all three say first.
func (p Plan) printState(w io.Writer) {
	version := p.Etcd
	if version == "" {
		version = "of a version not yet agreed on"
	}
	fmt.Fprintf(w, "member %v of cluster %v, etcd %s\n", p.Self, p.Cluster, version)
	fmt.Fprintf(w, "log      ends at entry %d of term %d; up to %d known to be committed\n", p.Last.Index, p.Last.Term, p.Known)
	fmt.Fprintf(w, "members  %s\n", list(p.Members))
}

// printRest is what all three say last.
func (p Plan) printRest(w io.Writer) error {
	if p.Interrupted {
		fmt.Fprintln(w, "warning  an earlier edit did not come to its end: run edit before etcd is started")
	}
	for _, s := range p.Warnings {
		fmt.Fprintf(w, "warning  %s\n", s)
	}
	return nil
}

func (p Plan) printPlan(w io.Writer) error {
	p.printState(w)
	if p.Alone {
		fmt.Fprintln(w, "plan     nothing: this member is alone already")
		return p.printRest(w)
	}
	if p.Repair != nil {
		fmt.Fprintf(w, "plan     cut off a write that a crash cut short: %d bytes at offset %d of %s (%s)\n", p.Repair.Bytes, p.Repair.Offset, p.Segment, p.Repair.Why)
	}
	fmt.Fprintf(w, "plan     remove %s in term %d, and commit up to entry %d\n", list(p.Remove), p.Term, p.Commit)
	fmt.Fprintf(w, "         %d bytes at offset %d of %s; with the copy %d KB\n", p.Append, p.Offset, p.Segment, (p.Space+1023)/1024)
	return p.printRest(w)
}

func (p Plan) printEdit(w io.Writer) error {
	p.printState(w)
	if p.Alone {
		fmt.Fprintln(w, "edit     nothing to do: this member is alone already")
		return p.printRest(w)
	}
	fmt.Fprintf(w, "edit     removed %s in term %d and committed up to entry %d, in %.0f ms\n", list(p.Remove), p.Term, p.Commit, p.EditMS)
	fmt.Fprintf(w, "copy     %s\n", p.Copy)
	fmt.Fprintln(w, "next     start etcd as always, without --force-new-cluster")
	p.Interrupted = false
	return p.printRest(w)
}

func (p Plan) printVerify(w io.Writer) error {
	p.printState(w)
	if p.Repair != nil {
		fmt.Fprintf(w, "end      a write that a crash cut short, %d bytes at offset %d of %s, which etcd cuts off when it starts\n", p.Repair.Bytes, p.Repair.Offset, p.Segment)
	}
	verdict := "whole"
	if p.Alone {
		verdict = "whole; etcd will start as a cluster of one"
	}
	fmt.Fprintf(w, "verdict  %s\n", verdict)
	return p.printRest(w)
}

// list names members: "a11ce (a), b0b (b, learner, by an uncommitted change)".
func list(members []Member) string {
	var all []string
	for _, m := range members {
		var notes []string
		if m.Name != "" {
			notes = append(notes, m.Name)
		}
		if m.Learner {
			notes = append(notes, "learner")
		}
		if m.Source != FromStore {
			notes = append(notes, "by "+article(string(m.Source)))
		}
		s := m.ID.String()
		if len(notes) > 0 {
			s += " (" + strings.Join(notes, ", ") + ")"
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

func article(noun string) string {
	if strings.HasPrefix(noun, "u") {
		return "an " + noun
	}
	return "a " + noun
}

package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

const (
	// Good is the code of a command that did what it was asked to.
	Good = 0
	// Failed is the code of a check or drill that looked and found the thing bad.
	Failed = 1
	// Unknown is the code for wrong usage and for anything that kept the
	// command from telling good from bad.
	Unknown = 2
)

// coded carries an exit code through any number of %w wrappings.
type coded struct {
	code int
	err  error
}

func (c coded) Error() string { return c.err.Error() }
func (c coded) Unwrap() error { return c.err }

// With returns err marked with the exit code. A nil err stays nil, so that a
// call may be wrapped without a test.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return coded{code, err}
}

// Code returns the exit code that err asks for: 0 for nil, the code of the
// outermost With, and 2 for an error that names none.
func Code(err error) int {
	if err == nil {
		return Good
	}
	if c, ok := errors.AsType[coded](err); ok {
		return c.code
	}
	return Unknown
}

// Run executes root with the arguments of the process and returns the exit
// code. The context given to the command ends with ctx, SIGINT or SIGTERM.
func Run(ctx context.Context, root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Once the context is done the default action is back in force, and a
	// second signal kills.
	context.AfterFunc(ctx, stop)
	return run(ctx, root, os.Stderr)
}

func run(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	root.SilenceErrors = true
	root.SilenceUsage = true
	refuseUnknown(root)
	err := root.ExecuteContext(ctx)
	if err != nil && !isQuiet(ctx, err) {
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), line(err))
	}
	return Code(err)
}

// refuseUnknown makes groups of commands refuse words that are none of them.
// Cobra does so for the root only; below it prints help, and the code says that
// all went well.
func refuseUnknown(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		refuseUnknown(c)
	}
	if cmd.Runnable() || !cmd.HasSubCommands() {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
		}
		return fmt.Errorf("%q is no command of %q: use %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
	}
}

// isQuiet reports whether err only says that the user's own signal was obeyed.
func isQuiet(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}

// line folds err into one line: joined errors and multi-line texts from
// libraries come out with "; " between their parts.
func line(err error) string {
	fields := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	parts := fields[:0]
	for _, f := range fields {
		if f = strings.TrimSpace(f); f != "" {
			parts = append(parts, f)
		}
	}
	if len(parts) == 0 {
		return "failed without a message"
	}
	return strings.Join(parts, "; ")
}

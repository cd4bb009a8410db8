package exit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/spf13/cobra"
)

func TestCode(t *testing.T) {
	bad := errors.New("bad")
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, 0},
		{"with on nil", With(1, nil), 0},
		{"plain", bad, 2},
		{"with", With(1, bad), 1},
		{"wrapped", fmt.Errorf("run drill: %w", With(1, bad)), 1},
		{"outermost wins", With(2, With(1, bad)), 2},
		{"joined", errors.Join(bad, With(1, bad)), 1},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%s: code %d, want %d", c.name, got, c.want)
		}
	}
	if err := With(1, bad); !errors.Is(err, bad) || err.Error() != "bad" {
		t.Errorf("With hides its cause: %v", err)
	}
}

func TestRun(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		err    error
		args   []string
		code   int
		stderr string
	}{
		{"good", t.Context(), nil, nil, 0, ""},
		{"failed", t.Context(), With(1, errors.New("2 paths failed")), nil, 1, "holdfast: 2 paths failed\n"},
		{"many lines", t.Context(), errors.New("a:\n\n  b\r\n"), nil, 2, "holdfast: a:; b\n"},
		{"empty", t.Context(), errors.New(""), nil, 2, "holdfast: failed without a message\n"},
		{"unknown flag", t.Context(), nil, []string{"--nope"}, 2, "holdfast: unknown flag: --nope\n"},
		{"stopped by signal", canceled, context.Canceled, nil, 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := &cobra.Command{Use: "holdfast", RunE: func(*cobra.Command, []string) error { return c.err }}
			root.SetArgs(c.args)
			if c.args == nil {
				root.SetArgs([]string{})
			}
			var stderr bytes.Buffer
			if code := run(c.ctx, root, &stderr); code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
			if stderr.String() != c.stderr {
				t.Errorf("stderr %q, want %q", stderr.String(), c.stderr)
			}
		})
	}
}

// A word that is no command of a group must not come out as help and code 0.
func TestGroupRefusesUnknownCommand(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"leader"}, 0, ""},
		{[]string{"leader", "run"}, 0, ""},
		{[]string{"leader", "rnu"}, 2, "holdfast: \"rnu\" is no command of \"holdfast leader\": use plan, run\n"},
		{[]string{"leader", "--nope"}, 2, "holdfast: unknown flag: --nope\n"},
	} {
		root, group := &cobra.Command{Use: "holdfast"}, &cobra.Command{Use: "leader"}
		for _, name := range []string{"run", "plan"} {
			group.AddCommand(&cobra.Command{Use: name, RunE: func(*cobra.Command, []string) error { return nil }})
		}
		root.AddCommand(group)
		root.SetArgs(c.args)
		root.SetOut(io.Discard)
		var stderr bytes.Buffer
		if code := run(t.Context(), root, &stderr); code != c.code || stderr.String() != c.stderr {
			t.Errorf("%v: code %d, %q; want %d, %q", c.args, code, stderr.String(), c.code, c.stderr)
		}
	}
}

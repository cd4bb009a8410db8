package exit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

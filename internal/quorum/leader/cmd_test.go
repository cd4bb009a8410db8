package leader

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// command runs `holdfast leader` with args and returns what it printed.
func command(ctx context.Context, args ...string) (stdout string, err error) {
	var out strings.Builder
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(ctx)
	return out.String(), err
}

// A plan about a member that does not answer is no plan.
func TestPlanSaysWhenItCouldNotTell(t *testing.T) {
	out, err := command(t.Context(), "plan", "--endpoint=http://127.0.0.1:1", "--observe=1s")
	if exit.Code(err) != exit.Unknown || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
		t.Errorf("code %d, %v", exit.Code(err), err)
	}
	if !strings.Contains(out, "own-member") {
		t.Errorf("printed %q", out)
	}
}

func TestCommandNamesFlagAndRemedy(t *testing.T) {
	garbage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer garbage.Close()
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	for want, args := range map[string][]string{
		"--observe -1s: write a time":    {"plan", "--endpoint=http://127.0.0.1:1", "--observe=-1s"},
		"--observe 100h0m0s: write":      {"plan", "--endpoint=http://127.0.0.1:1", "--observe=100h"},
		"write one of static-pod":        {"manifest"},
		"is no agent (HTTP 404)":         {"status", "--agent", missing.URL},
		"is no agent (invalid character": {"status", "--agent", garbage.URL},
		"no agent answers at":            {"status", "--agent", "127.0.0.1:1"},
	} {
		if _, err := command(t.Context(), args...); err == nil || !strings.Contains(err.Error(), want) || exit.Code(err) != exit.Unknown {
			t.Errorf("%v: %v", args, err)
		}
	}
}

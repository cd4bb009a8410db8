package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

type settings struct {
	Name string `yaml:"name"`
}

// execute runs a command, and returns what it printed.
func execute(t *testing.T, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestRunner(t *testing.T) {
	t.Setenv("X_NAME", "environment")
	for _, c := range []struct {
		args      []string
		want, err string
	}{
		{nil, "environment", ""},
		{[]string{"--name=flag"}, "flag", ""},
		{[]string{"--name=bad"}, "", "name: bad"},
		{[]string{"--config=/does/not/exist"}, "", "/does/not/exist"},
		{[]string{"word"}, "", "unknown command"},
	} {
		ran := ""
		cmd := Runner[settings]{
			Env: "X", Settings: settings{Name: "default"},
			Bind: func(cmd *cobra.Command, s *settings, path *string) {
				cmd.Flags().StringVar(&s.Name, "name", s.Name, "")
				cmd.Flags().StringVar(path, "config", "", "")
			},
			Complete: func(s *settings) error {
				if s.Name == "bad" {
					return errors.New("name: bad")
				}
				return nil
			},
			Run: func(_ context.Context, _ io.Writer, s settings) error { ran = s.Name; return nil },
		}.Command()
		_, err := execute(t, cmd, c.args...)
		if ran != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: ran %q, %v; want %q, %q", c.args, ran, err, c.want, c.err)
		}
	}
}

type status struct {
	Version int    `json:"version"`
	Word    string `json:"word"`
}

func (s status) print(w io.Writer) error {
	_, err := fmt.Fprintln(w, "the word is", s.Word)
	return err
}

func TestAsker(t *testing.T) {
	bad := errors.New("bad")
	asker := Asker[status]{
		Env: "X", Flag: "agent", At: "here",
		Fetch: func(_ context.Context, at string) (status, error) {
			if at == "nowhere" {
				return status{}, errors.New("nobody answers")
			}
			return status{1, at}, nil
		},
		Print: status.print,
		Verdict: func(s status) error {
			if s.Word == "there" {
				return bad
			}
			return nil
		},
	}
	for _, c := range []struct {
		args      []string
		out, fail string
	}{
		{nil, "the word is here\n", ""},
		{[]string{"--json"}, "{\n  \"version\": 1,\n  \"word\": \"here\"\n}\n", ""},
		{[]string{"--agent=there"}, "the word is there\n", "bad"},
		{[]string{"--agent=nowhere"}, "", "nobody answers"},
	} {
		out, err := execute(t, asker.Command(), c.args...)
		if out != c.out || (err == nil) != (c.fail == "") || err != nil && err.Error() != c.fail {
			t.Errorf("%v: %q, %v", c.args, out, err)
		}
	}
	asker.Verdict = nil
	if _, err := execute(t, asker.Command(), "--agent=there"); err != nil {
		t.Errorf("without a verdict: %v", err)
	}
}

func TestAsk(t *testing.T) {
	for name, c := range map[string]struct {
		code         int
		answer, want string
	}{
		"well":            {200, `{"version":3,"word":"x"}`, ""},
		"not started":     {503, "the agent has not started: no certificate\n", "the agent has not started: no certificate"},
		"something else":  {404, "", "is no agent (HTTP 404)"},
		"a redirect":      {302, "", "is no agent (HTTP 302)"},
		"a page":          {200, "<html>", "is no agent (invalid character"},
		"another version": {200, `{"version":4,"word":{}}`, "speaks status version 4, this program 3"},
		"another shape":   {200, `{"version":3,"word":{}}`, "read status of agent"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/status" {
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.answer)
			}))
			defer s.Close()
			got, err := Ask[status](t.Context(), strings.TrimPrefix(s.URL, "http://"), "x run", 3)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err == nil && got.Word != "x" {
				t.Errorf("got %+v", got)
			}
		})
	}
	if _, err := Ask[status](t.Context(), "127.0.0.1:1", "x run", 3); err == nil || !strings.Contains(err.Error(), "start one with `x run`") {
		t.Errorf("nobody there: %v", err)
	}
}

// record keeps the messages of a log.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, string(b))
	return len(b), nil
}

func (r *record) count(what string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		n += strings.Count(l, what)
	}
	return n
}

// What is missing is said once for each reason, tried again and again, and told to
// whoever asks; then the agent works until it is told to stop.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said, ready := &record{}, telemetry.Require("credentials")
		tries, works, ended := 0, false, false
		l := &Late[status]{
			Outlet: telemetry.Outlet{Ready: ready, Log: slog.New(slog.NewTextHandler(said, nil))},
			Make: func() (*status, error) {
				switch tries++; {
				case tries < 4:
					return nil, errors.New("no certificate")
				case tries < 6:
					return nil, errors.New("no key")
				}
				return &status{1, "agent"}, nil
			},
			Missing: "credentials",
			Status:  func(s *status) any { return s.Word },
			Work: func(ctx context.Context, _ *status) {
				ready.Set("credentials", nil)
				works = true
				<-ctx.Done()
				works = false
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { l.Run(ctx); ended = true }()
		synctest.Wait()
		if _, err := l.status(); err == nil || err.Error() != "the agent has not started: credentials: no certificate" {
			t.Errorf("before: %v", err)
		}
		time.Sleep(5*RetryEvery + time.Second)
		synctest.Wait()
		if document, err := l.status(); !works || err != nil || document != "agent" {
			t.Errorf("works: %t, %v, %v", works, document, err)
		}
		if a, b := said.count("no certificate"), said.count("no key"); tries != 6 || a != 1 || b != 1 {
			t.Errorf("%d tries, said %d and %d times", tries, a, b)
		}
		cancel()
		synctest.Wait()
		if works || !ended {
			t.Errorf("told to stop: works %t, ended %t", works, ended)
		}
	})
}

// An agent that never comes to be ends with its context all the same.
func TestLateEndsWithoutAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Late[status]{
			Outlet:  telemetry.Outlet{Ready: telemetry.Require("x"), Log: slog.New(slog.DiscardHandler)},
			Make:    func() (*status, error) { return nil, errors.New("never") },
			Missing: "x",
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.Run(ctx)
	})
}

// A port that is taken keeps nobody from working, and is served once it is free.
func TestLateServesBesides(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said, works := &record{}, make(chan struct{})
	l := &Late[status]{
		Outlet: telemetry.Outlet{
			Settings: telemetry.Settings{Listen: taken.Addr().String()}, Registry: telemetry.NewRegistry(), Ready: &telemetry.Conditions{},
			Log: slog.New(slog.NewTextHandler(said, nil)), Unserved: "not served",
		},
		Make:   func() (*status, error) { return &status{3, "x"}, nil },
		Status: func(s *status) any { return s },
		Work:   func(ctx context.Context, _ *status) { close(works); <-ctx.Done() },
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() { l.Run(ctx); close(ended) }()
	<-works
	until(t, "the taken port is said", func() bool { return said.count("not served") > 0 })
	_ = taken.Close()
	until(t, "the port is served", func() bool {
		s, err := Ask[status](ctx, taken.Addr().String(), "x run", 3)
		return err == nil && s.Word == "x"
	})
	cancel()
	<-ended
	if n := said.count("not served"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(4 * RetryEvery)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", 4*RetryEvery, what)
		}
	}
}

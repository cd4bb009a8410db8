package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
)

func TestLog(t *testing.T) {
	for _, c := range []struct{ format, level, want, err string }{
		{"", "", "level=INFO msg=hello", ""},
		{"text", "debug", "level=INFO msg=hello", ""},
		{"json", "info", `"level":"INFO","msg":"hello"`, ""},
		{"text", "warn", "", ""},
		{"xml", "info", "", `log-format: "xml" is not a format; write text or json`},
		{"text", "loud", "", `log-level: "loud" is not a level; write debug, info, warn or error`},
	} {
		var out bytes.Buffer
		log, err := (&Log{Format: c.format, Level: c.level}).New(&out)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		log.Info("hello")
		if got := out.String(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestLogFlags(t *testing.T) {
	var l Log
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	l.AddFlags(flags)
	if err := flags.Parse([]string{"--log-format=json"}); err != nil {
		t.Fatal(err)
	}
	if l != (Log{Format: "json", Level: "info"}) {
		t.Errorf("got %+v", l)
	}
}

// serve starts a server that the test stops, and returns its base URL.
func serve(t *testing.T, alive, ready *Conditions) (base string, stop func() error) {
	t.Helper()
	s, err := Listen("metrics-addr", "127.0.0.1:0", NewRegistry(), alive, ready)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	return "http://" + s.Addr().String(), func() error { cancel(); return <-done }
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestServer(t *testing.T) {
	ready := Require("publish", "own-member")
	base, stop := serve(t, nil, ready)

	if code, body := get(t, base+"/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("healthz %d %q", code, body)
	}
	if code, body := get(t, base+"/readyz"); code != 503 || body != "own-member: not known yet\npublish: not known yet\n" {
		t.Errorf("readyz before: %d %q", code, body)
	}
	if !ready.Set("own-member", nil) || ready.Set("own-member", nil) {
		t.Error("Set does not tell changes")
	}
	ready.Set("publish", errors.New("no second member\nreachable"))
	if code, body := get(t, base+"/readyz"); code != 503 || body != "own-member: ok\npublish: no second member reachable\n" {
		t.Errorf("readyz between: %d %q", code, body)
	}
	ready.Set("publish", nil)
	if code, _ := get(t, base+"/readyz"); code != 200 || ready.Err() != nil {
		t.Errorf("readyz after: %d, %v", code, ready.Err())
	}
	code, body := get(t, base+"/metrics")
	for _, want := range []string{"go_goroutines ", "process_resident_memory_bytes ", "go_build_info{"} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("metrics %d lack %s", code, want)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := http.Get(base + "/healthz"); err == nil {
		t.Error("answers after the end")
	}
}

func TestListenNamesFieldAndRemedy(t *testing.T) {
	s, err := Listen("metrics-addr", "127.0.0.1:0", NewRegistry(), nil, &Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.listener.Close()
	taken := s.Addr().String()
	_, err = Listen("metrics-addr", taken, NewRegistry(), nil, &Conditions{})
	want := `metrics-addr: cannot listen on "` + taken + `": address already in use; stop what holds the port or choose another`
	if !errors.Is(err, syscall.EADDRINUSE) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err = Listen("metrics-addr", "9090", NewRegistry(), nil, &Conditions{}); err == nil || !strings.Contains(err.Error(), "write HOST:PORT") {
		t.Errorf("port alone: %v", err)
	}
}

func TestSettingsCheck(t *testing.T) {
	for listen, want := range map[string]string{
		"": "", ":9387": "", "127.0.0.1:9387": "", "[::1]:9387": "",
		"9387": `telemetry.listen: "9387"; write HOST:PORT, :PORT, or "" for none`,
	} {
		if err := (Settings{Listen: listen}).Check(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%q: %v", listen, err)
		}
	}
}

func TestOutletOff(t *testing.T) {
	(&Outlet{}).Serve(t.Context()) // returns at once
}

func TestDocument(t *testing.T) {
	for _, c := range []struct {
		document any
		err      error
		code     int
		want     string
	}{
		{map[string]int{"version": 1}, nil, 200, "{\"version\":1}\n"},
		{nil, errors.New("not yet"), 503, "not yet\n"},
	} {
		w := httptest.NewRecorder()
		Document(func() (any, error) { return c.document, c.err }).ServeHTTP(w, httptest.NewRequest("GET", "/status", nil))
		if w.Code != c.code || w.Body.String() != c.want {
			t.Errorf("%d %q, want %d %q", w.Code, w.Body, c.code, c.want)
		}
	}
}

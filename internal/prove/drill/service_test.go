package drill

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

func TestServiceObject(t *testing.T) {
	for traffic, want := range map[string]string{
		scenario.TrafficCluster:  "",
		scenario.TrafficSameZone: `"trafficDistribution":"PreferSameZone"`,
		scenario.TrafficLocal:    `"internalTrafficPolicy":"Local"`,
	} {
		text := serviceObject(traffic)
		if !json.Valid([]byte(text)) || !strings.Contains(text, want) || strings.Contains(text, "%!") {
			t.Errorf("%s: %s", traffic, text)
		}
	}
}

func TestReadinessProbe(t *testing.T) {
	r := scenario.Readiness{Kind: scenario.ProbeHTTP, Period: 2 * time.Second, Timeout: time.Second, Failures: 3}
	p := readinessProbe(r)
	if p.HTTPGet == nil || p.HTTPGet.Path != "/" || p.TCPSocket != nil || p.PeriodSeconds != 2 || p.TimeoutSeconds != 1 || p.FailureThreshold != 3 {
		t.Errorf("http: %+v", p)
	}
	r.Kind = scenario.ProbeTCP
	if p := readinessProbe(r); p.HTTPGet != nil || p.TCPSocket == nil {
		t.Errorf("tcp: %+v", p)
	}
}

// A pod whose program was let go on before the heal was not frozen to the end, which
// makes the run inconclusive.
func TestThawMissesWhatWasLetGoOn(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	e := &engine{log: slog.New(slog.DiscardHandler)}
	for _, paused := range []bool{true, false} {
		if paused {
			if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if err := awaitState(t.Context(), cmd.Process.Pid, 'T'); err != nil {
				t.Fatal(err)
			}
		}
		p := &backingPod{frozen: cmd.Process.Pid}
		if err := e.thaw(p); err != nil || p.frozen != 0 {
			t.Errorf("paused %t: %v, frozen %d", paused, err, p.frozen)
		}
		if got := len(e.run.Trouble); paused && got != 0 || !paused && got != 1 {
			t.Errorf("paused %t: trouble %q", paused, e.run.Trouble)
		}
		until(t.Context(), struckWithin, func() bool { s, err := stateOf(cmd.Process.Pid); return err == nil && s != 'T' })
	}
}

// A pod hangs that accepts and does not answer; one that answers, refuses or
// breaks is another fault.
func TestHangs(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"hangs":   {func(_ http.ResponseWriter, r *http.Request) { <-never }, ""},
		"answers": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"node":"b1"}`)) }, "answers though its program stands still"},
		"breaks":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "does not hang but fails"},
	} {
		server := httptest.NewServer(tc.serve)
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		}
		err := hangs(t.Context(), dial, "192.0.2.1")
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		server.CloseClientConnections()
		_ = server.Listener.Close()
	}
	refuses := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:1")
	}
	if err := hangs(t.Context(), refuses, "192.0.2.1"); err == nil || !strings.Contains(err.Error(), "does not accept") {
		t.Errorf("refuses: %v", err)
	}
}

package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// asCommand makes the test binary behave as the program, for the tests that
// need a process.
const asCommand = "TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		root := &cobra.Command{Use: "holdfast"}
		root.AddCommand(Command())
		os.Exit(exit.Run(context.Background(), root))
	}
	os.Exit(m.Run())
}

// runCommand runs `holdfast probe args` in this process.
func runCommand(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := Command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestOnce(t *testing.T) {
	url, _, _ := startHTTP(t, false, http.NotFound)
	out, _, err := runCommand(t, "--once", "--expect", "404", url)
	if err != nil || strings.Count(out, " ok ") != 3 {
		t.Errorf("good: %v\n%s", err, out)
	}
	out, _, err = runCommand(t, "--once", "--mode", "new", url, "tcp://"+closedPort(t))
	if exit.Code(err) != exit.Failed || !strings.Contains(out, " http ") || !strings.Contains(out, "404") ||
		!strings.Contains(err.Error(), "2 of 3 paths failed, first http") {
		t.Errorf("bad: %v\n%s", err, out)
	}
}

func TestUsageMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "probe.yaml")
	if err := os.WriteFile(file, []byte("targets: [{name: a, url: 'http://127.0.0.1:1'}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "targets: none given"},
		{[]string{"--config", file, "tcp://h:1"}, "given beside --config"},
		{[]string{"--config", file, "--mode", "new"}, "given beside --config"},
		{[]string{"--config", file, "--json", "--ndjson", "-"}, "stdout already takes"},
		{[]string{"--config", file + "x"}, "no such file"},
		{[]string{"--config", file, "--ndjson", file + "/x"}, "open --ndjson file"},
	} {
		_, _, err := runCommand(t, c.args...)
		if exit.Code(err) != exit.Unknown || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestFlagsStandOverTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "probe.yaml")
	if err := os.WriteFile(file, []byte("interval: 70ms\nslow: 3s\ntargets: [{name: a, url: 'http://h'}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOLDFAST_PROBE_SLOW", "4s")
	c := &command{}
	cmd := c.cobra()
	if err := cmd.ParseFlags([]string{"--config", file, "--interval", "50ms"}); err != nil {
		t.Fatal(err)
	}
	cfg, err := c.settings(cmd, nil)
	if err != nil || cfg.Interval != 50*time.Millisecond || cfg.Slow != 4*time.Second || len(cfg.Targets) != 1 {
		t.Errorf("got %+v, %v", cfg, err)
	}
}

func TestArgumentsThatDifferInKindAreOneTarget(t *testing.T) {
	got := (&command{}).targets([]string{"etcd://h:1?kind=put", "tcp://h:1", "etcd://h:1?kind=get", "http://h/?a=b"})
	if len(got) != 3 || got[0].URL != "etcd://h:1?kind=put&kind=get" || got[2].Name != "http://h/?a=b" {
		t.Errorf("got %+v", got)
	}
}

func TestAMeasurementIsGoodUnlessABarIsSet(t *testing.T) {
	target := "tcp://" + closedPort(t)
	args := []string{"--duration", "400ms", "--interval", "20ms", "--json", target}
	doc, err := measure(t, args...)
	if err != nil || len(doc.Paths) != 3 || doc.Version != 1 || doc.Paths[0].Errors[ClassRefused] < 10 || doc.Paths[2].Failed != 0 {
		t.Errorf("%v, document %+v", err, doc)
	}
	if _, err = measure(t, append(args, "--max-outage", "100ms")...); exit.Code(err) != exit.Failed {
		t.Errorf("with a bar: %v", err)
	}
	if _, err = measure(t, append(args, "--max-outage", "10s")...); err != nil {
		t.Errorf("under the bar: %v", err)
	}
}

// measure runs the command and returns its document. A machine too busy for
// the measurement gets more chances: that it says so is another test's matter.
func measure(t *testing.T, args ...string) (doc Document, err error) {
	t.Helper()
	for range 10 {
		var out, stderr string
		out, stderr, err = runCommand(t, args...)
		if json.Unmarshal([]byte(out), &doc) != nil || !strings.Contains(stderr, " down: refused: ") {
			t.Fatalf("%v, stdout %s, stderr %s", err, out, stderr)
		}
		if !doc.Prober.Starved && doc.Paths[0].Samples > 10 && doc.Paths[2].Samples > 10 {
			break
		}
		doc = Document{}
	}
	return doc, err
}

// In a namespace without any network, not even lo, nothing is said about the
// target.
func TestAProberWithoutNetworkCannotTell(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root to make a network namespace; run the tests as root")
		}
		t.Skip("needs root to make a network namespace")
	}
	cmd := exec.Command(os.Args[0], "probe", "--once", "--json", "--mode", "new", "tcp://192.0.2.1:1")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var doc Document
	if json.Unmarshal(stdout.Bytes(), &doc) != nil || len(doc.Paths) != 2 || doc.Paths[0].Errors[ClassUnreachable] != 1 || !doc.Prober.Starved {
		t.Errorf("document %s", stdout.String())
	}
	if cmd.ProcessState.ExitCode() != exit.Unknown || !strings.Contains(stderr.String(), "could not tell") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// A process that is told to stop writes the samples in flight, and its parent
// sees each sample as it comes.
func TestSIGTERMWaitsForSamplesInFlight(t *testing.T) {
	answer := make(chan struct{})
	address := serve(t, func(c net.Conn) {
		<-answer
		_, _ = io.Copy(c, c)
	})
	cmd := exec.Command(os.Args[0], "probe", "--ndjson", "-", "--mode", "new", "--timeout", "10s", "tcp://"+address+"?kind=echo")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	control := 0
	for control < 5 { // the control path's samples come at once
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		control += strings.Count(line, ControlPath)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	close(answer)
	hanging := 0
	for s, err := range ReadSamples(lines) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Path != ControlPath {
			if !s.OK || s.Seq != uint64(hanging) {
				t.Errorf("sample %+v", s)
			}
			hanging++
		}
	}
	if err := cmd.Wait(); err != nil || hanging < 4 {
		t.Errorf("%v; %d samples were in flight", err, hanging)
	}
}

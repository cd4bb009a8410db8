package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/base/offspring"
)

func TestChildStartsAndStops(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			m := newMember(t, peer(t, version), "a")
			c := m.run(t)
			if s := state(t, c); s.Phase != Stopped || s.Ended != nil {
				t.Errorf("before its first start: %+v", s)
			}
			if err := c.Stop(t.Context(), time.Second); err != nil {
				t.Errorf("stop of a stopped one: %v", err)
			}
			if d := c.Describe(); !strings.HasPrefix(d.Version, version+".") || d.DataDir != m.data || d.UID != os.Geteuid() {
				t.Errorf("described as %+v", d)
			}
			start(t, c, Mode{})
			m.serves(t)
			s := state(t, c)
			if s.Phase != Running || s.PID == 0 || time.Since(s.Since).Abs() > time.Minute {
				t.Errorf("while it runs: %+v", s)
			}
			if err := c.Start(t.Context(), Mode{}); err == nil {
				t.Error("started twice")
			}
			if err := c.Stop(t.Context(), 20*time.Second); err != nil {
				t.Fatal(err)
			}
			if s := state(t, c); s.Phase != Stopped || s.Ended == nil || !s.Ended.Known || s.Ended.Signal != unix.SIGTERM {
				t.Errorf("stopped: %v, ended %v", s.Phase, s.Ended)
			}
			if used, err := inUse(m.data); used || err != nil {
				t.Errorf("stopped, and its lock is held: %v", err)
			}
			start(t, c, Mode{})
			m.serves(t)
		})
	}
}

func TestStoppedByAPersonAndThenStopped(t *testing.T) {
	m := newMember(t, peer(t, "3.6"), "a")
	c := m.run(t)
	start(t, c, Mode{})
	m.serves(t)
	if err := unix.Kill(state(t, c).PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context(), 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if s := state(t, c); s.Phase != Stopped || s.Ended.Signal != unix.SIGKILL {
		t.Errorf("%+v, ended %v", s, s.Ended)
	}
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	m := newMember(t, peer(t, "3.6"), "a")
	c := m.run(t)
	start(t, c, Mode{})
	m.serves(t)
	pid := state(t, c).PID
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Stop(ctx, time.Minute); err == nil {
		t.Error("a stop that was given up succeeded")
	}
	if s := state(t, c); s.Phase != Running || s.PID != pid {
		t.Errorf("after a stop that was given up: %+v", s)
	}
}

func TestItsEndIsSeen(t *testing.T) {
	m := newMember(t, peer(t, "3.6"), "a")
	c := m.run(t)
	start(t, c, Mode{})
	m.serves(t)
	if err := unix.Kill(state(t, c).PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !comes(10*time.Second, func() bool { return state(t, c).Phase == Stopped }) {
		t.Fatal("its end is not seen")
	}
	if e := state(t, c).Ended; !e.Known || e.Signal != unix.SIGKILL || e.String() != "ended by signal SIGKILL" {
		t.Errorf("ended: %v", e)
	}
}

// agentVariable makes the test binary an agent in a process of its own, for tests
// that kill it.
const agentVariable = "SUPERVISE_TEST_AGENT"

type agentOrder struct {
	Command  []string
	StateDir string
}

func TestMain(m *testing.M) {
	if order := os.Getenv(agentVariable); order != "" {
		agent(order)
	}
	os.Exit(m.Run())
}

// agent starts etcd, says so on its stdout, and lives until it is killed.
func agent(order string) {
	var o agentOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		panic(err)
	}
	c, err := NewChild(context.Background(), ChildOptions{
		Command: o.Command, Env: os.Environ(), StateDir: o.StateDir, Root: o.StateDir,
		Stdout: os.Stdout, Stderr: os.Stderr, Log: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = c.Start(context.Background(), Mode{})
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("started", c.proc.pid)
	select {}
}

// startAgent returns once its etcd is started, whose process it names.
func startAgent(t *testing.T, m *member) (agent *exec.Cmd, pid int) {
	t.Helper()
	order, err := json.Marshal(agentOrder{Command: m.options.Command, StateDir: m.state})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), agentVariable+"="+string(order), "NOTIFY_SOCKET=/nowhere", "HOLDFAST_TELEMETRY=:1")
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := offspring.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := fmt.Fscanf(out, "started %d\n", &pid); err != nil {
		_ = cmd.Wait()
		t.Fatalf("the agent says no more than this: %v\n%s", err, errors.String())
	}
	return cmd, pid
}

func TestKilledAgentLeavesItsChildToTheNext(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			m := newMember(t, peer(t, version), "a")
			old, pid := startAgent(t, m)
			m.serves(t)
			if _, err := NewChild(t.Context(), m.options); err == nil {
				t.Fatal("a second agent beside the first")
			} else {
				refusal(t, err, Busy)
			}
			_ = old.Process.Kill()
			_ = old.Wait()
			// Nobody reads the former agent's pipe now.
			m.complains(t)
			m.serves(t)
			c := m.run(t)
			if s := state(t, c); s.Phase != Running || s.PID != pid {
				t.Fatalf("%+v; want process %d, which goes on", s, pid)
			}
			env, _ := environment(pid)
			for _, e := range env {
				if strings.HasPrefix(e, "NOTIFY_SOCKET") || strings.HasPrefix(e, "HOLDFAST_TELEMETRY") {
					t.Errorf("etcd was given %s", e)
				}
			}
			if err := c.Stop(t.Context(), 20*time.Second); err != nil {
				t.Fatal(err)
			}
			if s := state(t, c); s.Phase != Stopped || s.Ended == nil || s.Ended.Known {
				t.Errorf("%+v, ended %v; nobody can know how", s, s.Ended)
			}
			start(t, c, Mode{})
			m.serves(t)
		})
	}
}

// The agent may be killed between the start and its second record, which is
// the one that names the process.
func TestChildWithoutANumberIsFound(t *testing.T) {
	m := newMember(t, peer(t, "3.6"), "a")
	old, pid := startAgent(t, m)
	m.serves(t)
	_ = old.Process.Kill()
	_ = old.Wait()
	r, err := readRecord(m.state)
	if err != nil || r == nil || r.PID != pid {
		t.Fatalf("record %+v, %v", r, err)
	}
	r.PID, r.Start = 0, 0
	if err := r.write(m.state); err != nil {
		t.Fatal(err)
	}
	if s := state(t, m.run(t)); s.PID != pid {
		t.Errorf("%+v; want process %d", s, pid)
	}
}

func TestAnotherProcessIsNotTheChild(t *testing.T) {
	m := newMember(t, peer(t, "3.6"), "a")
	if err := prepareState(m.state); err != nil {
		t.Fatal(err)
	}
	self, err := startOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]record{
		"another start":       {PID: os.Getpid(), Start: self + 1},
		"another environment": {PID: os.Getpid(), Start: self},
		"gone":                {PID: 1 << 22, Start: 1},
	} {
		r.Version, r.Token, r.Boot, r.DataDir = recordVersion, newToken(), bootID(), m.data
		if err := r.write(m.state); err != nil {
			t.Fatal(err)
		}
		c, err := NewChild(t.Context(), m.options)
		if err != nil {
			t.Fatal(err)
		}
		if s := state(t, c); s.Phase != Stopped {
			t.Errorf("%s: %+v", name, s)
		}
		c.Detach()
	}
	for name, content := range map[string]string{"empty": "", "another version": `{"version":9}`, "another boot": `{"version":1,"token":"x","boot":"y","pid":1}`} {
		if err := os.WriteFile(filepath.Join(m.state, recordName), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := readRecord(m.state); r != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestOtherEtcdOnTheSameDirectoryIsRefused(t *testing.T) {
	m := newMember(t, peer(t, "3.6"), "a")
	c := m.run(t)
	start(t, c, Mode{})
	m.serves(t)
	other := m.options
	other.StateDir = filepath.Join(t.TempDir(), "state")
	_, err := NewChild(t.Context(), other)
	refusal(t, err, Taken)
	if pid := fmt.Sprintf("process %d ", state(t, c).PID); !strings.Contains(err.Error(), pid) {
		t.Errorf("%v; want %s named", err, pid)
	}
}

func TestPortInUseIsRefused(t *testing.T) {
	m := newMember(t, peer(t, "3.6"), "a")
	other := newMember(t, peer(t, "3.6"), "b", "--listen-client-urls=http://"+m.client)
	start(t, m.run(t), Mode{})
	m.serves(t)
	refusal(t, other.run(t).Start(t.Context(), Mode{}), PortTaken)
}

func TestProgramsThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		program string
		want    Reason
	}{
		{filepath.Join(dir, "none"), NoProgram},
		{script("not-executable", "#!/bin/sh\n", 0o600), NoProgram},
		{script("no-program", "nonsense", 0o700), NoProgram},
		{script("another", "#!/bin/sh\necho Postgres 17\n", 0o700), NoProgram},
		{script("fails", "#!/bin/sh\nexit 3\n", 0o700), NoProgram},
		{script("old", "#!/bin/sh\necho etcd Version: 3.4.30\n", 0o700), Unfit},
	} {
		m := newMember(t, c.program, "a")
		_, err := NewChild(t.Context(), m.options)
		t.Log(err)
		refusal(t, err, c.want)
	}
}

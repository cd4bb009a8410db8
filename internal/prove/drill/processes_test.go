package drill

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// A fault on a process that does not run must not count as one in force.
func TestFaultOnProcessThatDoesNotRun(t *testing.T) {
	member := scenario.Process{Cluster: "main", Site: "b"}
	agent := scenario.Process{Cluster: "main", Site: "b", Agent: true}
	c := mustCase(t, "partial-split", "main")
	e := &engine{c: c, agents: true, members: map[scenario.Process]*lab.Member{member: {}}}
	for _, p := range []scenario.Process{member, agent} {
		for verb, step := range map[string]scenario.Step{
			"pause": {Pause: []string{p.String()}}, "kill": {Kill: []string{p.String()}}, "stop": {Stop: []string{p.String()}},
		} {
			err := e.strike(t.Context(), action{step: step})
			if err == nil || !strings.Contains(err.Error(), p.String()+": does not run") {
				t.Errorf("%s %s: %v, want an error that says it does not run", verb, p, err)
			}
		}
	}
	c.Agents = scenario.Agents{scenario.AgentNone}
	if err := e.strike(t.Context(), action{step: scenario.Step{Kill: []string{agent.String()}}}); err != nil {
		t.Errorf("kill of an agent in a run that has none: %v", err)
	}
}

func TestStateOfProcess(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	expect := func(sig syscall.Signal, want byte) {
		t.Helper()
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if sig == syscall.SIGKILL {
			_ = cmd.Wait()
		}
		if err := awaitState(t.Context(), pid, want); err != nil {
			t.Error(err)
		}
	}
	expect(syscall.SIGSTOP, paused)
	// What is wrong stays wrong: one look is enough.
	once, cancel := context.WithCancel(t.Context())
	cancel()
	if err := awaitState(once, pid, gone); err == nil || !strings.Contains(err.Error(), "is not gone") {
		t.Errorf("a paused process counts as gone: %v", err)
	}
	expect(syscall.SIGCONT, 'S')
	if err := awaitState(once, pid, paused); err == nil || !strings.Contains(err.Error(), "is not paused") {
		t.Errorf("a running process counts as paused: %v", err)
	}
	expect(syscall.SIGKILL, gone)
}

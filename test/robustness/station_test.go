package robustness

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// station is a site with an agent, which runs its etcd.
type station struct {
	*site
	peer      *station
	agent     *process
	messenger *messenger
	timers    []string
	kept      map[string]string // data that was set aside, and where it is kept from removal
}

func (s *station) telemetry() string { return net.JoinHostPort(s.ip, "9386") }

// startAgent starts the agent if none runs.
func (s *station) startAgent(t *testing.T) {
	t.Helper()
	if s.agent != nil && s.agent.runs() {
		return
	}
	args := append([]string{
		"pair", "run", "--arbiter", s.messenger.url, "--state-dir", s.data + "-agent",
		"--endpoint", s.clientURL(), "--peer-client", "http://" + s.peer.clients.address,
		"--telemetry", s.telemetry(), "--log-level", "debug",
	}, s.timers...)
	args = append(args, "--", s.binary)
	args = append(args, s.args("--initial-cluster", initialCluster(s.site, s.peer.site))...)
	s.agent = spawn(t, s.data+"-agent.log", holdfast, args...)
}

func (s *station) killAgent() {
	if s.agent != nil {
		s.agent.kill()
	}
}

// pids finds the station's etcd, which is nobody's child once its agent is dead.
func (s *station) pids() (all []int) { return running(s.binary, s.data) }

// running lists the processes of a program that have an argument.
func running(program, argument string) (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		argv := strings.Split(string(line), "\x00")
		if argv[0] == program && slices.Contains(argv, argument) {
			all = append(all, pid)
		}
	}
	return all
}

func (s *station) signalEtcd(sig syscall.Signal) {
	for _, pid := range s.pids() {
		_ = syscall.Kill(pid, sig)
	}
}

// status is what `holdfast pair status --json` reads.
type status struct {
	Summary string
	Serves  bool
	Etcd    struct {
		Running bool
		Voters  int
	}
	Record *struct {
		Generation uint64
		State      string
	}
	Why, Failing, Refusal string
}

func (s *station) status(ctx context.Context) (got status, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.telemetry()+"/status", nil)
	if err != nil {
		return got, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return got, err
	}
	defer answer.Body.Close()
	return got, json.NewDecoder(answer.Body).Decode(&got)
}

func (s *station) paired(ctx context.Context) bool {
	got, err := s.status(ctx)
	return err == nil && got.Serves && got.Etcd.Voters == 2 && got.Record != nil && got.Record.State == "paired"
}

// says is how the station does, for a message.
func (s *station) says(ctx context.Context) string {
	got, err := s.status(ctx)
	if err != nil {
		return fmt.Sprintf("%s: %v; the agent: %s", s.name, err, s.agent.state())
	}
	return fmt.Sprintf("%s: %s; %s %s %s", s.name, got.Summary, got.Why, got.Failing, got.Refusal)
}

// keepAside keeps data that the agent set aside and will remove: the logs of both members' whole past are judged.
func (s *station) keepAside(t *testing.T) {
	dirs, _ := filepath.Glob(filepath.Join(s.data, "holdfast", "aside-*"))
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
		if len(files) == 0 || s.kept[dir] != "" {
			continue
		}
		to := fmt.Sprintf("%s-%s", s.data, filepath.Base(dir))
		if err := os.MkdirAll(filepath.Join(to, "member", "wal"), 0o700); err != nil {
			t.Error(err)
			return
		}
		for _, f := range files {
			if err := os.Link(f, filepath.Join(to, "member", "wal", filepath.Base(f))); err != nil {
				t.Errorf("keep %s: %v", f, err)
			}
		}
		s.kept[dir] = to
		s.aside = append(s.aside, to)
	}
}

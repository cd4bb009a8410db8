package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// DefaultRoot is where labs started from the command line keep their state,
// each in a directory of its name that only root can enter.
const DefaultRoot = "/run/holdfast/lab"

const (
	stateFile  = "state.json"
	socketFile = "control.sock"
	logFile    = "supervisor.log"
)

// state is what others need to know about a lab's supervisor: to talk to it,
// to enter its nodes, and to clean up after it when it has crashed.
type state struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	// Pid and Ticks (field 22 of /proc/PID/stat) name the supervisor beyond
	// doubt within Boot.
	Pid   int    `json:"pid"`
	Ticks uint64 `json:"ticks"`
	Boot  string `json:"boot"`
	// Data is the directory of etcd's files.
	Data    string        `json:"data,omitempty"`
	Spaces  []stateSpace  `json:"spaces,omitempty"`
	Members []stateMember `json:"members,omitempty"`
	// Kubernetes is the version of the apiservers, "" without them.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Configs are kubeconfig files of the apiservers' administrator, by node.
	Configs []stateConfig `json:"kubeconfigs,omitempty"`
}

// stateSpace is a namespace that the supervisor holds open as descriptor Fd.
type stateSpace struct {
	Node string   `json:"node"` // "" for a router
	Fd   int      `json:"fd"`
	ID   space.ID `json:"id"`
}

type stateMember struct {
	Cluster   string `json:"cluster"`
	Node      string `json:"node"`
	ClientURL string `json:"client_url"`
	PKI       PKI    `json:"pki"`
}

type stateConfig struct {
	Node string `json:"node"`
	Path string `json:"path"`
}

// newState describes the calling process, before the lab exists.
func newState(name string) (state, error) {
	ticks, err := startTicks(os.Getpid())
	if err != nil {
		return state{}, err
	}
	return state{Version: 1, Name: name, Started: time.Now(), Pid: os.Getpid(), Ticks: ticks, Boot: bootID()}, nil
}

// fill adds what the running lab consists of.
func (s *state) fill(l *Lab) {
	s.Data = l.data
	for _, n := range l.nodes {
		s.Spaces = append(s.Spaces, stateSpace{n.name, n.space.Fd(), n.space.ID()})
	}
	for _, r := range l.routers {
		s.Spaces = append(s.Spaces, stateSpace{"", r.space.Fd(), r.space.ID()})
	}
	for _, c := range l.clusters {
		for _, m := range c.members {
			s.Members = append(s.Members, stateMember{c.Name, m.node.name, m.ClientURL(), m.files})
		}
	}
	if len(l.apiservers) > 0 {
		s.Kubernetes = l.spec.KubernetesOptions.Version
	}
	for _, n := range l.nodes {
		if files, ok := l.kubernetes[n.name]; ok {
			s.Configs = append(s.Configs, stateConfig{n.name, files.AdminConf})
		}
	}
}

// write replaces the state file in one step.
func (s state) write(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	path := filepath.Join(dir, stateFile)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

// errNotUp says that no lab of that name is known.
var errNotUp = errors.New("is not up")

// readState reads the state of a lab. A directory without a state file, left
// by a supervisor that died at once, gives a state with only a name.
func readState(root, name string) (state, error) {
	if !labName.MatchString(name) {
		return state{}, fmt.Errorf("lab name %q is not usable: use up to 32 lower-case letters, digits and inner dashes", name)
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("lab %s %w: start it with `holdfast lab up --name %s`", name, errNotUp, name)
	}
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return state{Name: name}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("read state of lab %s: %w", name, err)
	}
	return decodeState(data, name)
}

func decodeState(data []byte, name string) (state, error) {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return state{}, fmt.Errorf("read state of lab %s: %w", name, err)
	}
	if s.Name != name {
		return state{}, fmt.Errorf("read state of lab %s: it names lab %q", name, s.Name)
	}
	return s, nil
}

// alive reports whether the supervisor still runs.
func (s state) alive() bool {
	if s.Pid <= 0 || s.Boot != bootID() {
		return false
	}
	ticks, err := startTicks(s.Pid)
	return err == nil && ticks == s.Ticks
}

// ids are the lab's namespaces, none when the machine has rebooted since.
func (s state) ids() []space.ID {
	if s.Boot != bootID() {
		return nil
	}
	var ids []space.ID
	for _, sp := range s.Spaces {
		ids = append(ids, sp.ID)
	}
	return ids
}

// enter is the path of a node's namespace.
func (s state) enter(node string) (string, error) {
	var names []string
	for _, sp := range s.Spaces {
		if sp.Node == node && node != "" {
			return fmt.Sprintf("/proc/%d/fd/%d", s.Pid, sp.Fd), nil
		}
		if sp.Node != "" {
			names = append(names, sp.Node)
		}
	}
	return "", fmt.Errorf("node %q is unknown: use %s", node, strings.Join(names, ", "))
}

// startTicks reads when a process started. A zombie counts as ended. The name
// in field 2 may hold spaces and parentheses, so fields are counted from the
// last ")".
func startTicks(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read process %d: %w", pid, err)
	}
	return parseTicks(string(data))
}

func parseTicks(stat string) (uint64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 { // field 3 is the first of these, 22 the twentieth
		return 0, fmt.Errorf("parse process state: %d fields", len(fields))
	}
	if fields[0] == "Z" {
		return 0, errors.New("process has ended")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

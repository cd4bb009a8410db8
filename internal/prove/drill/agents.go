package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// Ports of the agents of the first cluster; each further cluster has its own,
// ten above.
const (
	meshPort      = 2384
	telemetryPort = 9384
	portStep      = 10
)

// leaderConfig is the file of `holdfast leader run --config`. Package leader
// is not imported: a drill drives the product as its users do.
type leaderConfig struct {
	Etcd struct {
		Endpoints []string `yaml:"endpoints"`
		CA        string   `yaml:"ca"`
		Cert      string   `yaml:"cert"`
		Key       string   `yaml:"key"`
		Metrics   string   `yaml:"metrics,omitempty"`
		Peer      struct {
			CA   string `yaml:"ca"`
			Cert string `yaml:"cert"`
			Key  string `yaml:"key"`
		} `yaml:"peer"`
	} `yaml:"etcd"`
	Zone string `yaml:"zone"`
	Mesh struct {
		Listen string `yaml:"listen"`
		Port   int    `yaml:"port"`
	} `yaml:"mesh"`
	Telemetry struct {
		Listen string `yaml:"listen"`
	} `yaml:"telemetry"`
	Log struct {
		Format string `yaml:"format"`
	} `yaml:"log"`
}

// readyWithin is how long agents may take to see each other.
const readyWithin = 20 * time.Second

// startAgents starts the agents of these kinds that the run has.
func (e *engine) startAgents(ctx context.Context, kinds ...string) error {
	var procs []scenario.Process
	for _, p := range e.agentProcesses() {
		if slices.Contains(kinds, p.Kind()) {
			procs = append(procs, p)
		}
	}
	for _, p := range procs {
		if err := e.startAgent(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range procs {
		if err := e.awaitReady(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// agentProcesses lists the agents of this run: balancers in front of apiservers
// may be in both runs of a case, others in the one with the agents alone.
func (e *engine) agentProcesses() []scenario.Process {
	var procs []scenario.Process
	if e.agents && e.c.Agents.Has(scenario.AgentLeader) {
		for _, cluster := range e.c.ClusterNames() {
			for _, site := range e.c.MemberSites(cluster) {
				procs = append(procs, scenario.Process{Cluster: cluster, Site: site, Agent: true})
			}
		}
	}
	for _, kind := range []string{scenario.AgentEtcdBalance, scenario.AgentBalance, scenario.AgentSlices, scenario.AgentZonal, scenario.AgentArbiter, scenario.AgentPair} {
		has := e.agents && e.c.Agents.Has(kind)
		if kind == scenario.AgentBalance {
			has = e.c.HasBalancers(e.agents)
		}
		for _, site := range e.c.SiteNames() {
			if has && e.c.Hosts(kind, site) {
				procs = append(procs, scenario.SiteAgent(kind, site))
			}
		}
	}
	return append(procs, e.nodeAgents()...)
}

// nodeAgents lists what runs on the machines of an address in either run: the
// agents, or what people use in their place.
func (e *engine) nodeAgents() []scenario.Process {
	var procs []scenario.Process
	for _, kind := range []string{scenario.AgentFront, scenario.AgentVIP} {
		for _, node := range e.c.VIP.Nodes {
			if e.c.Agents.Has(kind) {
				procs = append(procs, scenario.NodeAgent(kind, node))
			}
		}
	}
	return procs
}

// inPlace says whether p is not an agent but what people use in its place.
func (e *engine) inPlace(p scenario.Process) bool { return !e.agents && p.Node != "" }

func agentName(p scenario.Process) string {
	if p.Kind() == scenario.AgentLeader {
		return "leader-" + p.Cluster + "-" + p.Site
	}
	return p.Kind() + "-" + p.Place()
}

// agentCommand is the command line of an agent, with its settings written.
func (e *engine) agentCommand(p scenario.Process) ([]string, error) {
	if e.inPlace(p) {
		return e.inPlaceCommand(p)
	}
	if p.Kind() == scenario.AgentPair || p.Kind() == scenario.AgentArbiter {
		return e.pairCommand(p)
	}
	if p.IsBalancer() && e.balancedByHAProxy() {
		return e.plainCommand(p)
	}
	kind := kindOf(p)
	file, err := e.configFile(agentName(p)+".yaml", kind.config(e, p))
	if err != nil {
		return nil, err
	}
	// The agent runs in the directory of the file.
	return []string{e.exe, kind.command, "run", "--config", filepath.Base(file)}, nil
}

func (e *engine) startAgent(ctx context.Context, p scenario.Process) error {
	name := agentName(p)
	argv, err := e.agentCommand(p)
	if err != nil {
		return err
	}
	node, err := e.placeOf(p)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(e.w.LogPath(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of agent: %w", err)
	}
	// A machine of its own has another working directory.
	dir, err := filepath.Abs(filepath.Join(e.w.Dir(), "lab"))
	if err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	events := &lines{each: func(line []byte) { e.agentLine(p, line) }}
	child, err := e.spawnAgent(ctx, p, node, lab.Process{
		Name: name, Argv: argv, Dir: dir,
		Stdout: log, Stderr: io.MultiWriter(log, events),
	})
	if err != nil {
		_ = log.Close()
		return fmt.Errorf("start agent: %w", err)
	}
	e.mu.Lock()
	e.running[p] = child
	e.mu.Unlock()
	go func() {
		<-child.Done()
		_ = log.Close()
	}()
	e.expectAgent(p, child)
	return nil
}

func (e *engine) leaderConfig(p scenario.Process) leaderConfig {
	var c leaderConfig
	m := e.members[scenario.Process{Cluster: p.Cluster, Site: p.Site}]
	if m == nil { // not a leader's agent
		return c
	}
	i := e.clusterIndex(p.Cluster)
	pki := m.PKI()
	c.Etcd.Endpoints = []string{m.ClientURL()}
	c.Etcd.CA, c.Etcd.Cert, c.Etcd.Key = pki.CA, pki.ClientCert, pki.ClientKey
	c.Etcd.Peer.CA, c.Etcd.Peer.Cert, c.Etcd.Peer.Key = pki.CA, pki.PeerCert, pki.PeerKey
	c.Zone = e.c.Zone(p.Site)
	c.Mesh.Port = meshPort + portStep*i
	c.Mesh.Listen = net.JoinHostPort(m.Node().IP().String(), strconv.Itoa(c.Mesh.Port))
	c.Telemetry.Listen = telemetryAddr(i)
	c.Log.Format = "json"
	return c
}

func telemetryAddr(cluster int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(telemetryPort+portStep*cluster))
}

func (e *engine) clusterIndex(name string) int {
	for i, c := range e.c.ClusterNames() {
		if c == name {
			return i
		}
	}
	return 0
}

// awaitReady waits until the agent is as its kind wants it.
func (e *engine) awaitReady(ctx context.Context, p scenario.Process) error {
	if e.inPlace(p) {
		return e.awaitPeer(ctx, p)
	}
	if p.Kind() == scenario.AgentArbiter {
		return e.awaitArbiter(ctx)
	}
	child := e.running[p]
	node, err := e.placeOf(p)
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: node.DialContext, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: time.Second}
	kind := kindOf(p)
	url := "http://" + kind.telemetry(e, p) + kind.ready
	answer := "no answer"
	ready := func() bool {
		if child.Err() != nil {
			return true
		}
		var ok bool
		ok, answer = ask(ctx, client, url)
		return ok
	}
	if !until(ctx, readyWithin, ready) {
		return fmt.Errorf("agent %s is not ready after %s: %s", p, readyWithin, answer)
	}
	if err := child.Err(); err != nil {
		return fmt.Errorf("agent %s ended at its start: %w; see logs/%s.log", p, err, agentName(p))
	}
	return nil
}

// awaitPeer waits until who holds addresses has come to a state. HAProxy need only
// run.
func (e *engine) awaitPeer(ctx context.Context, p scenario.Process) error {
	child := e.running[p]
	known := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return child.Err() != nil || p.Kind() != scenario.AgentVIP || e.anycast() || e.peerStates[p] != ""
	}
	switch {
	case !until(ctx, readyWithin, known):
		return fmt.Errorf("%s has no state after %s; see logs/%s.log", p, readyWithin, agentName(p))
	case child.Err() != nil:
		return fmt.Errorf("%s ended at its start: %w; see logs/%s.log", p, child.Err(), agentName(p))
	}
	return nil
}

func ask(ctx context.Context, client *http.Client, url string) (ok bool, answer string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode == http.StatusOK, strings.Join(strings.Fields(string(body)), " ")
}

// expectAgent reports an agent that ends without having been stopped.
func (e *engine) expectAgent(p scenario.Process, child *lab.Child) {
	go func() {
		<-child.Done()
		e.mu.Lock()
		asked := e.ending || e.running[p] != child
		e.mu.Unlock()
		if !asked {
			e.trouble("agent %s ended by itself: %v; see logs/%s.log", p, child.Err(), agentName(p))
		}
	}()
}

func (e *engine) stopAgent(ctx context.Context, p scenario.Process, grace time.Duration) error {
	e.mu.Lock()
	child := e.running[p]
	delete(e.running, p)
	e.mu.Unlock()
	if child == nil {
		return nil
	}
	return child.Stop(ctx, grace)
}

func (e *engine) stopAgents(ctx context.Context) {
	e.mu.Lock()
	running := slices.Collect(maps.Keys(e.running))
	e.mu.Unlock()
	for _, p := range running {
		_ = e.stopAgent(ctx, p, 5*time.Second)
	}
}

// leaderEvents maps the messages of the leader agent to kinds of events.
var leaderEvents = map[string]string{
	"moving leadership": record.KindMoving,
	"leadership moved":  record.KindMove,
	"move failed":       record.KindMoveFailed,
	"move refused":      record.KindMoveFailed,
}

// agentLine turns a line of an agent's log into an event when it is one.
func (e *engine) agentLine(p scenario.Process, line []byte) {
	if e.inPlace(p) {
		e.peerLine(p, line)
		return
	}
	ev, ok := parseAgentLine(p, line, e.clock.now())
	if ok {
		e.w.Event(ev)
	}
}

// parseAgentLine reads a JSON line of slog. An event is dated by the agent's
// own time unless that is far from now: agents share the machine's clock, and
// the pipe may lag under load.
func parseAgentLine(p scenario.Process, line []byte, now time.Time) (record.Event, bool) {
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		return record.Event{}, false
	}
	msg, _ := fields["msg"].(string)
	is := kindOf(p)
	kind, known := is.events[msg]
	if _, decided := fields["do"]; decided && is.decided != "" {
		kind, known = is.decided, true
	}
	if problem, _ := fields["problem"].(string); !known {
		kind, known = is.events[problemPrefix+problem]
	}
	if !known {
		return record.Event{}, false
	}
	ev := record.Event{At: now, Source: is.source + p.Place(), Kind: kind, Keys: map[string]string{}}
	if p.Kind() == scenario.AgentLeader {
		ev.Cluster = p.Cluster
	}
	if text, ok := fields["time"].(string); ok {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil && t.Sub(now).Abs() < 2*time.Second {
			ev.At = t
		}
	}
	for name, v := range fields {
		if name != "msg" && name != "time" && name != "level" {
			ev.Keys[name] = text(v)
		}
	}
	ev.Message = is.message(msg, ev.Keys)
	return ev, true
}

func text(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func leaderMessage(msg string, keys map[string]string) string {
	out := fmt.Sprintf("%s from %s to %s", msg, keys["from"], keys["to"])
	for _, why := range []string{"reason", "error"} {
		if keys[why] != "" {
			out += ": " + keys[why]
		}
	}
	return out
}

package drill

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

const (
	pairTelemetry = "127.0.0.1:9386"
	// pairPeer is the etcd of a pair unless another is chosen: the agent runs a
	// program called etcd, as people do, not the one in holdfastd.
	pairPeer = "3.6"
	// pairStation is where a site answers whom a pair takes for its clients.
	pairStation = "7071"
)

// pairConfig is the file of `holdfast pair run --config`.
type pairConfig struct {
	Arbiter   pairArbiter `yaml:"arbiter"`
	StateDir  string      `yaml:"stateDir"`
	Prefer    string      `yaml:"prefer,omitempty"`
	Clients   []string    `yaml:"clients,omitempty"`
	Telemetry struct {
		Listen string `yaml:"listen"`
	} `yaml:"telemetry"`
	Log struct {
		Format string `yaml:"format"`
	} `yaml:"log"`
}

// pairRun says whether agents run the members in this run.
func (e *engine) pairRun() bool { return e.agents && e.c.HasPair() }

// ofPair says whether p is a member that an agent runs.
func (e *engine) ofPair(p scenario.Process) bool {
	return e.pairRun() && !p.Agent && !p.IsAPIServer()
}

// startEtcd starts the members, or has the agents of a pair start them.
func (e *engine) startEtcd(ctx context.Context) error {
	if !e.pairRun() {
		return e.lab.StartClusters(ctx, e.c.ClusterNames()...)
	}
	for _, site := range e.c.Pair.Clients {
		if err := e.startPairStation(ctx, site); err != nil {
			return err
		}
	}
	if err := e.startAgents(ctx, scenario.AgentArbiter); err != nil {
		return err
	}
	return e.startAgents(ctx, scenario.AgentPair)
}

// startPairStation answers in a site whether it can be reached.
func (e *engine) startPairStation(ctx context.Context, site string) error {
	node, err := e.nodeOf(site)
	if err != nil {
		return err
	}
	_, err = node.Spawn(ctx, lab.Process{
		Name: "clients-" + site, Argv: []string{e.exe, "probe", "--answer", ":" + pairStation, "--name", node.Name()},
	})
	return err
}

// pairMember is the member of the pair in a site.
func (e *engine) pairMember(site string) (*lab.Member, error) {
	return e.lab.Member(e.c.Clusters[0].Name, site)
}

// stateOf is the directory of an agent beside the data of its member.
func pairState(m *lab.Member) string {
	return filepath.Join(filepath.Dir(m.DataDir()), "agent-"+m.Node().Name())
}

// pairConfig is that of the agent in a site.
func (e *engine) pairConfig(site string) (pairConfig, error) {
	var c pairConfig
	m, err := e.pairMember(site)
	if err != nil {
		return c, err
	}
	if c.Arbiter, err = e.pairArbiter(); err != nil {
		return c, err
	}
	c.StateDir = pairState(m)
	if p := e.c.Pair.Prefer; p != "" {
		c.Prefer = p + "1"
	}
	for _, s := range e.c.Pair.Clients {
		node, err := e.nodeOf(s)
		if err != nil {
			return c, err
		}
		c.Clients = append(c.Clients, "tcp://"+net.JoinHostPort(node.IP().String(), pairStation))
	}
	c.Telemetry.Listen = pairTelemetry
	c.Log.Format = "json"
	return c, nil
}

// pairCommand is the agent of a site, with the etcd that it runs.
func (e *engine) pairCommand(p scenario.Process) ([]string, error) {
	if p.Kind() == scenario.AgentArbiter {
		return e.arbiterCommand()
	}
	m, err := e.pairMember(p.Site)
	if err != nil {
		return nil, err
	}
	m.RunElsewhere()
	file, err := e.pairFile(p.Site)
	if err != nil {
		return nil, err
	}
	return append([]string{e.exe, "pair", "run", "--config", file, "--"}, m.Argv()...), nil
}

// pairFile writes the settings of the agent in a site.
func (e *engine) pairFile(site string) (string, error) {
	c, err := e.pairConfig(site)
	if err != nil {
		return "", err
	}
	return e.configFile("pair-"+site+".yaml", c)
}

// spawnAgent starts an agent on its node. That of a pair stands on a machine of its own,
// which a loss of power ends with all that runs there.
func (e *engine) spawnAgent(ctx context.Context, p scenario.Process, node *lab.Node, process lab.Process) (*lab.Child, error) {
	if p.Kind() != scenario.AgentPair {
		return node.Spawn(ctx, process)
	}
	if err := node.PowerOn(ctx); err != nil {
		return nil, err
	}
	return node.SpawnInside(ctx, process)
}

// fill makes the database of a pair as large as the case wants it.
func (e *engine) fill(ctx context.Context) error {
	if e.c.Pair.FillMB == 0 {
		return nil
	}
	m, err := e.pairMember(e.c.PairSites()[0])
	if err != nil {
		return err
	}
	cli, err := m.Client()
	if err != nil {
		return err
	}
	// Below etcd's limit of a request, 1.5 MB.
	value := string(bytes.Repeat([]byte("holdfast"), 1<<20/8))
	for i := range e.c.Pair.FillMB {
		if _, err := cli.Put(ctx, fmt.Sprintf("/holdfast/fill/%04d", i), value); err != nil {
			return fmt.Errorf("fill the database: %w", err)
		}
	}
	return nil
}

// blackout ends all that runs on the machines of a pair among nodes, at one moment and
// before anybody's network is touched: what is on the wire then arrives.
func (e *engine) blackout(ctx context.Context, nodes []string) error {
	for _, name := range nodes {
		if !e.powered(name) {
			continue
		}
		if !e.pairRun() {
			if err := e.kill(ctx, scenario.Process{Cluster: e.c.Clusters[0].Name, Site: siteOf(name)}); err != nil {
				return err
			}
			continue
		}
		node, err := e.lab.Node(name)
		if err != nil {
			return err
		}
		e.mu.Lock()
		delete(e.running, scenario.SiteAgent(scenario.AgentPair, siteOf(name)))
		e.mu.Unlock()
		if err := node.PowerOff(ctx); err != nil {
			return err
		}
	}
	return nil
}

// powered says whether a node has a member of a pair.
func (e *engine) powered(node string) bool {
	return slices.Contains(e.c.PairSites(), siteOf(node)) && node == siteOf(node)+"1"
}

// claimWithin bounds a command of a person, and how long the arbiter may take.
const claimWithin = 20 * time.Second

// person runs a command of the pair at a site, as a person would.
func (e *engine) person(ctx context.Context, site string, words ...string) error {
	if !e.pairRun() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	node, err := e.nodeOf(site)
	if err != nil {
		return err
	}
	file, err := e.pairFile(site)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	argv := append([]string{e.exe, "pair", words[0], "--config", file, "--name", node.Name()}, words[1:]...)
	child, err := node.Spawn(ctx, lab.Process{Name: "person-" + site, Argv: argv, Stdout: &out, Stderr: &out})
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		return fmt.Errorf("pair %s at %s: %w", words[0], site, ctx.Err())
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	if err := child.Err(); err != nil {
		return fmt.Errorf("pair %s at %s: %w: %s", words[0], site, err, text)
	}
	return e.w.Journal(e.clock.now(), fmt.Sprintf("pair %s at %s: %s", strings.Join(words, " "), site, text))
}

// claims does what persons do in a step, unclaims what ends it.
func (e *engine) claims(ctx context.Context, s scenario.Step) error {
	for _, site := range s.Claim {
		if err := e.person(ctx, site, "claim"); err != nil {
			return err
		}
	}
	for _, site := range s.GiveUp {
		if err := e.person(ctx, site, "claim", "--accept-data-loss"); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) unclaims(ctx context.Context, s scenario.Step) error {
	for _, site := range slices.Concat(s.Claim, s.GiveUp) {
		if err := e.person(ctx, site, "release"); err != nil {
			return err
		}
	}
	return nil
}

// keepPairLogs puts the logs of etcd, which the agents keep with their state, beside the
// others.
func (e *engine) keepPairLogs() error {
	if !e.pairRun() {
		return nil
	}
	for _, site := range e.c.PairSites() {
		m, err := e.pairMember(site)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(pairState(m), "etcd", "etcd.log"))
		if err != nil {
			continue // its agent has never started it
		}
		to := e.w.LogPath("etcd-" + e.c.Clusters[0].Name + "-" + m.Node().Name())
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return fmt.Errorf("keep log of etcd: %w", err)
		}
	}
	return nil
}

package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// targetOwn is the target of a path to the server of the client's own site.
const targetOwn = "own"

// TargetBalance is the target of a path through the balancer of its node.
const TargetBalance = "balance"

// roles are the targets that are no sites.
var roles = []string{TargetBalance, TargetService, TargetGateway, TargetAddress, TargetStore, TargetClusterIP}

// apiserverGroup stands for a cluster in the names of apiservers.
const apiserverGroup = "apiserver"

// Process is one thing that a kill, pause or stop reaches: the member of
// Cluster in Site, or the agent beside it. Cluster is "apiserver" for the
// apiserver of Site. "balance", "etcd-balance", "slices" and "zonal" are agents
// of Site that belong to no member.
type Process struct {
	Cluster string
	Site    string
	Agent   bool
	// Node is set where the process is not that of its site but of one node: the
	// agents of an address, and the apiservers beside them.
	Node string
}

// nodeAgents are those of a machine that may hold the address.
var nodeAgents = []string{AgentVIP, AgentFront}

// NodeAgent names an agent of one kind on a machine.
func NodeAgent(kind, node string) Process {
	return Process{Cluster: kind, Site: siteOf(node), Node: node, Agent: true}
}

// Place is the node of the process, or its site.
func (p Process) Place() string { return cmp.Or(p.Node, p.Site) }

// siteAgents are the agents of a site that belong to no member, what depends on
// others first.
var siteAgents = []string{AgentZonal, AgentSlices, AgentBalance, AgentEtcdBalance, AgentPair, AgentArbiter}

// APIServer and Balancer name those of a site, SiteAgent an agent of one kind.
func APIServer(site string) Process { return Process{Cluster: apiserverGroup, Site: site} }
func Balancer(site string) Process  { return SiteAgent(AgentBalance, site) }
func SiteAgent(kind, site string) Process {
	return Process{Cluster: kind, Site: site, Agent: true}
}

// IsAPIServer and IsBalancer tell them from members and their agents.
func (p Process) IsAPIServer() bool { return !p.Agent && p.Cluster == apiserverGroup }
func (p Process) IsBalancer() bool  { return p.Agent && p.Cluster == AgentBalance }

// Kind is the kind of an agent: that of a site's agent, or leader.
func (p Process) Kind() string {
	if slices.Contains(siteAgents, p.Cluster) || slices.Contains(nodeAgents, p.Cluster) {
		return p.Cluster
	}
	return AgentLeader
}

func (p Process) String() string {
	if p.Agent {
		return "agent:" + p.Cluster + "/" + p.Place()
	}
	return p.Cluster + "/" + p.Place()
}

// Resolve lists the processes that target names: "b" is everything in site b and
// "a2" everything on that machine, agents first; "main/b" one member;
// "apiserver/b" one apiserver; "agent:main/b", "agent:balance/b" or
// "agent:vip/a2" one agent.
func (c *Case) Resolve(target string) ([]Process, error) {
	rest, agent := strings.CutPrefix(target, "agent:")
	cluster, site, one := strings.Cut(rest, "/")
	if !one {
		if agent {
			return nil, fmt.Errorf("%q: names no agent; write agent:CLUSTER/SITE", target)
		}
		return c.processesIn(target)
	}
	if err := oneOf("cluster of "+target, cluster, append(c.groups(agent), c.onNodes(agent)...)); err != nil {
		return nil, err
	}
	if p := (Process{Cluster: cluster, Site: siteOf(site), Node: site, Agent: agent}); slices.Contains(c.nodeProcesses(), p) {
		return []Process{p}, nil
	}
	if !slices.Contains(c.groups(agent), cluster) {
		return nil, oneOf("node of "+target, site, c.VIP.Nodes)
	}
	if err := oneOf("site of "+target, site, slices.DeleteFunc(c.SiteNames(), func(s string) bool { return !c.Hosts(cluster, s) })); err != nil {
		return nil, err
	}
	return []Process{{Cluster: cluster, Site: site, Agent: agent}}, nil
}

// onNodes lists the kinds of processes that machines of the address have.
func (c *Case) onNodes(agent bool) []string {
	if !agent {
		if c.VIP.Health == HealthAPIServer {
			return []string{apiserverGroup}
		}
		return nil
	}
	var names []string
	for _, kind := range nodeAgents {
		if c.Agents.Has(kind) && len(c.VIP.Nodes) > 0 {
			names = append(names, kind)
		}
	}
	return names
}

// nodeProcesses lists what runs on the machines of the address, agents first.
func (c *Case) nodeProcesses() []Process {
	var out []Process
	for _, agent := range []bool{true, false} {
		for _, kind := range c.onNodes(agent) {
			for _, n := range c.VIP.Nodes {
				out = append(out, Process{Cluster: kind, Site: siteOf(n), Node: n, Agent: agent})
			}
		}
	}
	return out
}

// ProcessesOn lists what runs on a node, agents first.
func (c *Case) ProcessesOn(node string) []Process {
	var out []Process
	for _, p := range c.nodeProcesses() {
		if p.Node == node {
			out = append(out, p)
		}
	}
	if node == siteOf(node)+"1" {
		for _, p := range c.siteProcesses(siteOf(node)) {
			if !p.IsAPIServer() || c.VIP.Health != HealthAPIServer || p.Site != c.VIP.Site() {
				out = append(out, p)
			}
		}
	}
	return out
}

func (c *Case) processesIn(site string) ([]Process, error) {
	if s := siteOf(site); s != site && slices.Contains(c.nodesOf(s), site) {
		return c.ProcessesOn(site), nil
	}
	if err := oneOf("site", site, c.SiteNames()); err != nil {
		return nil, err
	}
	var out []Process
	for _, p := range c.nodeProcesses() {
		if p.Site == site && p.Agent {
			out = append(out, p)
		}
	}
	return append(out, c.siteProcesses(site)...), nil
}

// siteProcesses lists what runs on the first node of a site, agents first.
func (c *Case) siteProcesses(site string) []Process {
	var out []Process
	for _, agent := range []bool{true, false} {
		for _, group := range c.groups(agent) {
			if !c.Hosts(group, site) {
				continue
			}
			out = append(out, Process{Cluster: group, Site: site, Agent: agent})
		}
	}
	return out
}

// groups lists what may stand for Cluster in a process, what depends on others
// first.
func (c *Case) groups(agent bool) []string {
	var names []string
	for _, kind := range siteAgents {
		if agent && c.Agents.Has(kind) {
			names = append(names, kind)
		}
	}
	if !agent && c.APIServers {
		names = append(names, apiserverGroup)
	}
	return append(names, c.ClusterNames()...)
}

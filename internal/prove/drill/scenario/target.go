package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// TargetBalance is the target of a path through the balancer of its node.
const TargetBalance = "balance"

// roles are the targets that are no sites.
var roles = []string{TargetBalance, TargetService, TargetGateway}

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
}

// siteAgents are the agents of a site that belong to no member, what depends on
// others first.
var siteAgents = []string{AgentZonal, AgentSlices, AgentBalance, AgentEtcdBalance}

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
	if slices.Contains(siteAgents, p.Cluster) {
		return p.Cluster
	}
	return AgentLeader
}

func (p Process) String() string {
	if p.Agent {
		return "agent:" + p.Cluster + "/" + p.Site
	}
	return p.Cluster + "/" + p.Site
}

// Resolve lists the processes that target names: "b" is everything in site b,
// agents first; "main/b" one member; "apiserver/b" one apiserver;
// "agent:main/b" or "agent:balance/b" one agent.
func (c *Case) Resolve(target string) ([]Process, error) {
	rest, agent := strings.CutPrefix(target, "agent:")
	cluster, site, one := strings.Cut(rest, "/")
	if !one {
		if agent {
			return nil, fmt.Errorf("%q: names no agent; write agent:CLUSTER/SITE", target)
		}
		return c.processesIn(target)
	}
	if err := oneOf("cluster of "+target, cluster, c.groups(agent)); err != nil {
		return nil, err
	}
	if err := oneOf("site of "+target, site, c.SiteNames()); err != nil {
		return nil, err
	}
	return []Process{{cluster, site, agent}}, nil
}

func (c *Case) processesIn(site string) ([]Process, error) {
	if err := oneOf("site", site, c.SiteNames()); err != nil {
		return nil, err
	}
	var out []Process
	for _, agent := range []bool{true, false} {
		for _, group := range c.groups(agent) {
			out = append(out, Process{group, site, agent})
		}
	}
	return out, nil
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

package scenario

import (
	"fmt"
	"strings"
)

// TargetBalance is the target of a path through the balancer of its node.
const TargetBalance = "balance"

// apiserverGroup stands for a cluster in the names of apiservers.
const apiserverGroup = "apiserver"

// Process is one thing that a kill, pause or stop reaches: the member of
// Cluster in Site, or the agent beside it. Cluster is "apiserver" for the
// apiserver of Site, and "balance" for its balancer, which is an agent.
type Process struct {
	Cluster string
	Site    string
	Agent   bool
}

// APIServer and Balancer name those of a site.
func APIServer(site string) Process { return Process{Cluster: apiserverGroup, Site: site} }
func Balancer(site string) Process {
	return Process{Cluster: AgentBalance, Site: site, Agent: true}
}

// IsAPIServer and IsBalancer tell them from members and their agents.
func (p Process) IsAPIServer() bool { return !p.Agent && p.Cluster == apiserverGroup }
func (p Process) IsBalancer() bool  { return p.Agent && p.Cluster == AgentBalance }

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
	names := c.ClusterNames()
	switch {
	case agent && c.Agents.Has(AgentBalance):
		return append([]string{AgentBalance}, names...)
	case !agent && c.APIServers:
		return append([]string{apiserverGroup}, names...)
	}
	return names
}

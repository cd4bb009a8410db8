package scenario

import (
	"fmt"
	"strings"
)

// Process is one thing that a kill, pause or stop reaches: the member of
// Cluster in Site, or the agent beside it.
type Process struct {
	Cluster string
	Site    string
	Agent   bool
}

func (p Process) String() string {
	if p.Agent {
		return "agent:" + p.Cluster + "/" + p.Site
	}
	return p.Cluster + "/" + p.Site
}

// Resolve lists the processes that target names: "b" is everything in site b,
// agents first; "main/b" one member; "agent:main/b" one agent.
func (c *Case) Resolve(target string) ([]Process, error) {
	rest, agent := strings.CutPrefix(target, "agent:")
	cluster, site, one := strings.Cut(rest, "/")
	if !one {
		if agent {
			return nil, fmt.Errorf("%q: names no agent; write agent:CLUSTER/SITE", target)
		}
		return c.processesIn(target)
	}
	if err := oneOf("cluster of "+target, cluster, c.ClusterNames()); err != nil {
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
		for _, k := range c.Clusters {
			out = append(out, Process{k.Name, site, agent})
		}
	}
	return out, nil
}

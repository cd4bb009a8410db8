package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// AgentPair is `holdfast pair run`, one beside each of the two members of the
	// first cluster, which it runs itself. The run without the agents has two plain
	// members, and nobody who helps them.
	AgentPair = "pair"
	// AgentArbiter is what keeps the record of the pair. It comes with AgentPair.
	AgentArbiter = "arbiter"
)

// KindWrite puts a key of its own each time, which is looked for at the end of a run.
const KindWrite = "write"

// Where the record of a pair is.
const (
	// ArbiterHTTP is `holdfast pair arbiter serve`.
	ArbiterHTTP = "http"
	// ArbiterEtcd is an etcd of one member in the third site.
	ArbiterEtcd = "etcd"
	// ArbiterS3 is versitygw over a directory.
	ArbiterS3 = "s3"
)

// Survivors of a pair that are no site.
const (
	// SurvivorNone says that nobody may serve alone.
	SurvivorNone = "none"
	// SurvivorAny says that either may.
	SurvivorAny = "any"
)

// Pair is an etcd of two members, and what must hold of it in the run with the
// agents: that every write that was acknowledged is there at the end, at both
// members, that no two were acknowledged at one revision, and what the fields below say.
type Pair struct {
	// Arbiter is http (default), etcd or s3, in Site (default the last of the lab).
	Arbiter string `yaml:"arbiter,omitempty"`
	Site    string `yaml:"site,omitempty"`
	// Prefer is the site that should win.
	Prefer string `yaml:"prefer,omitempty"`
	// Clients are sites of which a member must reach one before it claims.
	Clients []string `yaml:"clients,omitempty"`
	// FillMB is how large the database is before the baseline.
	FillMB int `yaml:"fillMB,omitempty"`
	// Survivor is the site that must have served alone, none, or any (default).
	Survivor string `yaml:"survivor,omitempty"`
	// AloneAfter is the earliest that anybody may claim, from the first fault.
	AloneAfter time.Duration `yaml:"aloneAfter,omitempty"`
	// Paired is how soon after the last fault ended the record must say paired
	// (default 15 s).
	Paired time.Duration `yaml:"paired,omitempty"`
	// Loses says that a person gives writes up: those that were lost are counted and
	// must have been acknowledged by a member that served alone.
	Loses bool `yaml:"loses,omitempty"`
	// Forced is the site whose member, in the run without the agents, a person starts
	// with --force-new-cluster when it returns. The other one stays away then.
	Forced string `yaml:"forced,omitempty"`
}

// DefaultPaired is the promise for a return to two members.
const DefaultPaired = 15 * time.Second

// maxFill bounds a database: etcd's own quota is 2 GB, and the lab's disks are memory.
const maxFill = 1000

// HasPair says whether the first cluster is a pair.
func (c *Case) HasPair() bool { return c.Agents.Has(AgentPair) }

// PairSites are the two sites of the pair.
func (c *Case) PairSites() []string {
	if !c.HasPair() || len(c.Clusters) == 0 {
		return nil
	}
	return c.MemberSites(c.Clusters[0].Name)
}

// MemberSites lists the sites that have a member of a cluster.
func (c *Case) MemberSites(cluster string) []string {
	for _, k := range c.Clusters {
		if k.Name == cluster && len(k.Sites) > 0 {
			return k.Sites
		}
	}
	return c.SiteNames()
}

// Hosts says whether a site has a process of a group: of a cluster, or a kind of
// agent that only some sites have.
func (c *Case) Hosts(group, site string) bool {
	switch {
	case group == AgentPair:
		return slices.Contains(c.PairSites(), site)
	case group == AgentArbiter:
		return c.HasPair() && site == c.Pair.Site
	}
	return slices.Contains(c.MemberSites(group), site)
}

// fillPair puts defaults in.
func (c *Case) fillPair() {
	if !c.HasPair() {
		return
	}
	p := &c.Pair
	p.Arbiter, p.Survivor, p.Paired = cmp.Or(p.Arbiter, ArbiterHTTP), cmp.Or(p.Survivor, SurvivorAny), cmp.Or(p.Paired, DefaultPaired)
	if p.Site == "" {
		p.Site = c.Lab.Sites[len(c.Lab.Sites)-1].Name
	}
	if !c.Agents.Has(AgentArbiter) {
		c.Agents = append(slices.Clone(c.Agents), AgentArbiter)
	}
}

// checkPair refuses a pair that is none.
func (c *Case) checkPair() error {
	p := c.Pair
	if !c.HasPair() {
		if c.Agents.Has(AgentArbiter) || p.Site != "" || p.Arbiter != "" || p.Survivor != "" {
			return fmt.Errorf("pair: nobody runs a pair; add pair to agents")
		}
		return c.checkPersons()
	}
	sites := c.PairSites()
	if len(sites) != 2 || len(c.Clusters) != 1 {
		return fmt.Errorf("clusters: a pair is one cluster of two members, these are %d of %s; write clusters: [{name: main, sites: [a, b]}]", len(c.Clusters), strings.Join(sites, ", "))
	}
	for _, err := range []error{
		oneOf("pair.arbiter", p.Arbiter, []string{ArbiterHTTP, ArbiterEtcd, ArbiterS3}),
		oneOf("pair.site", p.Site, c.SiteNames()),
		oneOf("pair.survivor", p.Survivor, append([]string{SurvivorNone, SurvivorAny}, sites...)),
		oneOf("pair.prefer", p.Prefer, append([]string{""}, sites...)),
		oneOf("pair.forced", p.Forced, append([]string{""}, sites...)),
	} {
		if err != nil {
			return err
		}
	}
	for _, s := range p.Clients {
		if err := oneOf("pair.clients", s, c.SiteNames()); err != nil {
			return err
		}
	}
	switch {
	case slices.Contains(sites, p.Site):
		return fmt.Errorf("pair.site: %q has a member; an arbiter stands in a third site", p.Site)
	case len(c.Agents) != 2:
		return fmt.Errorf("agents: %s beside a pair; write agents: pair", strings.Join(c.Agents, ", "))
	case p.FillMB < 0 || p.FillMB > maxFill:
		return fmt.Errorf("pair.fillMB: %d is out of range; choose 0 to %d", p.FillMB, maxFill)
	case p.Paired < time.Second || p.AloneAfter < 0:
		return fmt.Errorf("pair.paired, pair.aloneAfter: %s, %s; choose at least 1s for the first, and nothing negative", p.Paired, p.AloneAfter)
	}
	return c.checkPersons()
}

// checkPersons refuses claims where there is nobody to claim for.
func (c *Case) checkPersons() error {
	for i, f := range c.Faults {
		for _, site := range slices.Concat(f.Claim, f.GiveUp) {
			if err := oneOf(fmt.Sprintf("faults[%d]: claim, giveUp", i), site, c.PairSites()); err != nil {
				return err
			}
		}
	}
	return nil
}
